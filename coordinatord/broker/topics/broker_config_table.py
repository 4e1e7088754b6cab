"""Broker settings of Kafka 4.4 that can be changed while a broker runs (DynamicBrokerConfig, KafkaConfig's ConfigDef):
names, types and ranges, whether or not they have an effect here. base/config/table.py has the names of all others.
"""

from __future__ import annotations

from typing import Final

from coordinatord.broker.topics.config_table import ConfigType, TopicConfig, gzip_level

_B, _S, _I, _L, _D, _LIST, _P, _C, _SH = (
    ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST,
    ConfigType.PASSWORD, ConfigType.CLASS, ConfigType.SHORT,
)  # fmt: skip


def _row(
    name: str,
    type_: ConfigType,
    minimum: float | None = None,
    maximum: float | None = None,
    *,
    allowed: tuple[str, ...] = (),
) -> TopicConfig:
    check = gzip_level if name == "compression.gzip.level" else None
    return TopicConfig(name, type_, "", "", minimum=minimum, maximum=maximum, allowed=allowed, check=check)


_ROWS = (
    _row("background.threads", _I, 1),
    _row("compression.gzip.level", _I, -1, 9),
    _row("compression.lz4.level", _I, 1, 17),
    _row("compression.type", _S, allowed=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
    _row("compression.zstd.level", _I, -131072, 22),
    _row("config.providers", _LIST),
    _row("cordoned.log.dirs", _LIST),
    _row("errors.deadletterqueue.auto.create.topics.enable", _B),
    _row("errors.deadletterqueue.topic.name.prefix", _S),
    _row("follower.fetch.last.tiered.offset.enable", _B),
    _row("follower.replication.throttled.rate", _L, 0),
    _row("group.consumer.assignment.interval.ms", _I, 0),
    _row("group.consumer.assignor.offload.enable", _B),
    _row("group.coordinator.cached.buffer.max.bytes", _I, 524288),
    _row("group.share.assignment.interval.ms", _I, 0),
    _row("group.share.assignor.offload.enable", _B),
    _row("group.streams.assignment.interval.ms", _I, 0),
    _row("group.streams.assignor.offload.enable", _B),
    _row("leader.replication.throttled.rate", _L, 0),
    _row("listener.security.protocol.map", _S),
    _row("listeners", _LIST),
    _row("log.cleaner.backoff.ms", _L, 0),
    _row("log.cleaner.dedupe.buffer.size", _L),
    _row("log.cleaner.delete.retention.ms", _L, 0),
    _row("log.cleaner.io.buffer.load.factor", _D),
    _row("log.cleaner.io.buffer.size", _I, 0),
    _row("log.cleaner.io.max.bytes.per.second", _D),
    _row("log.cleaner.max.compaction.lag.ms", _L, 1),
    _row("log.cleaner.min.cleanable.ratio", _D, 0, 1),
    _row("log.cleaner.min.compaction.lag.ms", _L, 0),
    _row("log.cleaner.threads", _I, 0),
    _row("log.cleanup.policy", _LIST, allowed=("compact", "delete")),
    _row("log.flush.interval.messages", _L, 1),
    _row("log.flush.interval.ms", _L),
    _row("log.index.interval.bytes", _I, 0),
    _row("log.index.size.max.bytes", _I, 4),
    _row("log.local.retention.bytes", _L, -2),
    _row("log.local.retention.ms", _L, -2),
    _row("log.message.timestamp.after.max.ms", _L, 0),
    _row("log.message.timestamp.before.max.ms", _L, 0),
    _row("log.message.timestamp.type", _S, allowed=("CreateTime", "LogAppendTime")),
    _row("log.preallocate", _B),
    _row("log.remote.copy.lag.bytes", _L, -1),
    _row("log.remote.copy.lag.ms", _L, -1),
    _row("log.retention.bytes", _L),
    _row("log.retention.ms", _L),
    _row("log.roll.jitter.ms", _L),
    _row("log.roll.ms", _L),
    _row("log.segment.bytes", _I, 1048576),
    _row("log.segment.delete.delay.ms", _L, 0),
    _row("max.connection.creation.rate", _I, 0),
    _row("max.connections", _I, 0),
    _row("max.connections.per.ip", _I, 0),
    _row("max.connections.per.ip.overrides", _S),
    _row("max.decompressed.message.bytes", _I, 1, 2147483639),
    _row("message.max.bytes", _I, 0),
    _row("metric.reporters", _LIST),
    _row("min.insync.replicas", _I, 1),
    _row("num.io.threads", _I, 1),
    _row("num.network.threads", _I, 1),
    _row("num.recovery.threads.per.data.dir", _I, 1),
    _row("num.replica.fetchers", _I, 1),
    _row("principal.builder.class", _C),
    _row("producer.id.expiration.ms", _I, 1),
    _row("remote.fetch.max.wait.ms", _I, 1),
    _row("remote.list.offsets.request.timeout.ms", _L, 1),
    _row("remote.log.index.file.cache.total.size.bytes", _L, 1),
    _row("remote.log.manager.copier.thread.pool.size", _I, 1),
    _row("remote.log.manager.copy.max.bytes.per.second", _L, 1),
    _row("remote.log.manager.expiration.thread.pool.size", _I, 1),
    _row("remote.log.manager.fetch.max.bytes.per.second", _L, 1),
    _row("remote.log.manager.follower.thread.pool.size", _I, 1),
    _row("remote.log.reader.threads", _I, 1),
    _row("replica.alter.log.dirs.io.max.bytes.per.second", _L, 0),
    _row("sasl.enabled.mechanisms", _LIST),
    _row("sasl.jaas.config", _P),
    _row("sasl.kerberos.kinit.cmd", _S),
    _row("sasl.kerberos.min.time.before.relogin", _L),
    _row("sasl.kerberos.principal.to.local.rules", _LIST),
    _row("sasl.kerberos.service.name", _S),
    _row("sasl.kerberos.ticket.renew.jitter", _D),
    _row("sasl.kerberos.ticket.renew.window.factor", _D),
    _row("sasl.login.refresh.buffer.seconds", _SH),
    _row("sasl.login.refresh.min.period.seconds", _SH),
    _row("sasl.login.refresh.window.factor", _D),
    _row("sasl.login.refresh.window.jitter", _D),
    _row("sasl.mechanism.inter.broker.protocol", _S),
    _row("share.coordinator.cached.buffer.max.bytes", _I, 524288),
    _row("ssl.cipher.suites", _LIST),
    _row("ssl.client.auth", _S, allowed=("required", "requested", "none")),
    _row("ssl.enabled.protocols", _LIST),
    _row("ssl.endpoint.identification.algorithm", _S),
    _row("ssl.engine.factory.class", _C),
    _row("ssl.key.password", _P),
    _row("ssl.keymanager.algorithm", _S),
    _row("ssl.keystore.certificate.chain", _P),
    _row("ssl.keystore.key", _P),
    _row("ssl.keystore.location", _S),
    _row("ssl.keystore.password", _P),
    _row("ssl.keystore.type", _S),
    _row("ssl.protocol", _S),
    _row("ssl.provider", _S),
    _row("ssl.secure.random.implementation", _S),
    _row("ssl.trustmanager.algorithm", _S),
    _row("ssl.truststore.certificates", _P),
    _row("ssl.truststore.location", _S),
    _row("ssl.truststore.password", _P),
    _row("ssl.truststore.type", _S),
    _row("transaction.partition.verification.enable", _B),
    _row("unclean.leader.election.enable", _B),
)

DYNAMIC: Final[dict[str, TopicConfig]] = {row.name: row for row in _ROWS}
"""The settings that can be changed while a broker runs: name -> type and range."""

PER_BROKER: Final = frozenset(
    (
        "cordoned.log.dirs", "listener.security.protocol.map", "listeners", "principal.builder.class",
        "sasl.enabled.mechanisms", "sasl.jaas.config", "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin", "sasl.kerberos.principal.to.local.rules",
        "sasl.kerberos.service.name", "sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.refresh.buffer.seconds", "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter",
        "sasl.mechanism.inter.broker.protocol", "ssl.cipher.suites", "ssl.client.auth", "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm", "ssl.engine.factory.class", "ssl.key.password",
        "ssl.keymanager.algorithm", "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location",
        "ssl.keystore.password", "ssl.keystore.type", "ssl.protocol", "ssl.provider",
        "ssl.secure.random.implementation", "ssl.trustmanager.algorithm", "ssl.truststore.certificates",
        "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type",
    )
)  # fmt: skip
"""Those that have no default of the cluster: a change names the broker."""

OF_LISTENERS: Final = frozenset(
    (
        "ssl.key.password", "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location",
        "ssl.keystore.password", "ssl.keystore.type", "ssl.truststore.certificates", "ssl.truststore.location",
        "ssl.truststore.password", "ssl.truststore.type",
    )
)  # fmt: skip
"""Those that are changed with a listener's prefix only (SslConfigs.RECONFIGURABLE_CONFIGS)."""

LISTENERS_OF_CLUSTER: Final = frozenset({"max.connections", "max.connection.creation.rate", "num.network.threads"})
"""Settings of a listener that may have a default of the cluster."""

THREADS: Final = {
    "background.threads": 10, "num.io.threads": 8, "num.recovery.threads.per.data.dir": 2, "num.replica.fetchers": 1
}  # fmt: skip
"""Numbers of threads, with their defaults: a change may halve or double one (DynamicThreadPool)."""
