"""Names of Kafka's broker settings without effect in coordinatord: replicas, controllers, quotas, tiered storage,
security features that are not served, and names of older releases.

They are accepted so that a broker's own server.properties can be used, and listed in one warning so that operators do
not rely on them. The names are those of Kafka 4.4's broker and of the releases before it; a family is given by its
prefix.
"""

from __future__ import annotations

from coordinatord.base.config.table import ALIASES, FIXED, TABLE

FAMILIES = (
    "compression.",
    "config.providers",
    "confluent.",
    "controller.performance.",
    "controller.quorum.",
    "controller.socket.",
    "delegation.token.",
    "group.streams.",
    "internal.",
    "kafka.metrics.",
    "listener.name.",
    "metadata.",
    "metrics.",
    "password.encoder.",
    "remote.",
    "replica.",
    "rlmm.",
    "rsm.",
    "sasl.client.",
    "sasl.kerberos.",
    "sasl.login.",
    "sasl.mechanism.",
    "sasl.oauthbearer.assertion.",
    "sasl.oauthbearer.client.",
    "sasl.oauthbearer.header.",
    "sasl.oauthbearer.jwks.endpoint.retry.",
    "sasl.oauthbearer.jwt.",
    "ssl.allow.",
    "ssl.secure.",
    "zookeeper.",
)

NAMES = frozenset(
    (
        "auto.include.jmx.reporter",
        "background.threads",
        "broker.id.generation.enable",
        "control.plane.listener.name",
        "cordoned.log.dirs",
        "eligible.leader.replicas.enable",
        "follower.fetch.last.tiered.offset.enable",
        "group.consumer.assignor.offload.enable",
        "group.coordinator.cached.buffer.max.bytes",
        "group.coordinator.new.enable",
        "group.share.assignor.offload.enable",
        "inter.broker.protocol.version",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.threads",
        "log.flush.interval.messages",
        "log.local.retention.bytes",
        "log.local.retention.ms",
        "log.message.downconversion.enable",
        "log.message.format.version",
        "log.message.timestamp.difference.max.ms",
        "log.preallocate",
        "log.remote.copy.lag.bytes",
        "log.remote.copy.lag.ms",
        "log.roll.jitter.ms",
        "metric.reporters",
        "min.insync.replicas",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
        "offsets.commit.required.acks",
        "principal.builder.class",
        "quota.consumer.default",
        "quota.producer.default",
        "reserved.broker.max.id",
        "share.coordinator.cached.buffer.max.bytes",
        "ssl.cipher.suites",
        "ssl.endpoint.identification.algorithm",
        "ssl.engine.factory.class",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.trustmanager.algorithm",
        "unclean.leader.election.enable",
    )
) | {name for name in FIXED if name not in TABLE and name not in ALIASES and not name.startswith(FAMILIES)}


def is_foreign(name: str) -> bool:
    return name in NAMES or name.startswith(FAMILIES)
