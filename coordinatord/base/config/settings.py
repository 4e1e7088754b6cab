"""Every setting of the daemon: Kafka's dotted name, Kafka's default, range and meaning; one table, and the object that
carries the values.

An attribute `group_max_size` is the setting `group.max.size`. Times are in milliseconds and sizes in bytes unless the
name says otherwise. Settings that Kafka also has mean the same as in Kafka; `ours` gives the reason for a default that
differs from Kafka's, or for a setting that Kafka does not have.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from coordinatord.base.config.address import (
    Endpoint,
    Listener,
    endpoints,
    parse_admin_listener,
    parse_listeners,
    parse_protocol_map,
)
from coordinatord.base.config.overrides import Overrides
from coordinatord.base.config.security import Override, SecuritySettings, of_listener, optional_text
from coordinatord.base.config.setting_types import (
    LONG_MAX,
    boolean,
    choice,
    integer,
    one_directory,
    optional_integer,
    parsed,
    rate,
    ratio,
    words,
)
from coordinatord.base.config.share_coordinator import ShareCoordinatorSettings
from kafka_wire.releases import NEWEST, RELEASES

DOUBLE_MAX = 1.7976931348623157e308
KIB, MIB = 1024, 1024 * 1024
MINUTE_MS, HOUR_MS = 60 * 1000, 60 * 60 * 1000
SECURITY_PROTOCOLS = tuple((name, name) for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Settings(ShareCoordinatorSettings):
    """The values of all settings. `Settings()` has the defaults; `dataclasses.replace` changes some, unchecked."""

    overrides: Overrides | None = None

    # ---- Network -----------------------------------------------------------------------------------------------------
    node_id: int = integer(
        0,
        "This node's id, as clients see it in Metadata and FindCoordinator.",
        ours="no default in Kafka; 0 is what many test suites assume",
        aliases=("broker.id",),
    )
    broker_rack: str | None = parsed(None, optional_text, "text", "The rack that Metadata names for this node.")
    workers: int = integer(
        1,
        """Processes that share the work. Each is a node of its own for clients: the next ids and the next ports after
        node.id, listeners, advertised.listeners and admin.listeners.""",
        minimum=1,
        maximum=64,
        ours="not in Kafka, whose broker uses all cores with threads",
    )
    listeners: tuple[Listener, ...] = parsed(
        (Listener("PLAINTEXT", "127.0.0.1", 9092),),
        parse_listeners,
        "list of HOST:PORT or NAME://HOST:PORT",
        "Addresses to listen on for clients. An empty host is every interface, port 0 any free port.",
        ours="Kafka listens on every interface; without authentication only this machine should have access by default",
    )
    advertised_listeners: tuple[Listener, ...] = parsed(
        (),
        parse_listeners,
        "list of HOST:PORT or NAME://HOST:PORT",
        """The address that clients connect to, if it is not the one listened on (containers, NAT).
        Port 0 is the port that was bound.""",
    )
    advertised_kafka_version: str = choice(
        NEWEST, RELEASES, "Release of Kafka whose API versions and features clients are offered.", ours="not in Kafka"
    )
    listener_security_protocol_map: tuple[tuple[str, str], ...] = parsed(
        SECURITY_PROTOCOLS,
        parse_protocol_map,
        "list of NAME:PROTOCOL",
        "Security protocol of each listener name: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
    )
    controller_listener_names: tuple[str, ...] = words(
        (), "Names of listeners that belong to Kafka's controller; they are skipped: there is no controller here."
    )
    socket_request_max_bytes: int = integer(
        100 * MIB, "The largest request; a larger one closes its connection.", minimum=1
    )
    socket_listen_backlog_size: int = integer(
        50, "Connections that may wait to be accepted, at most the kernel's somaxconn.", minimum=1
    )
    socket_send_buffer_bytes: int = integer(
        -1,
        "SO_SNDBUF of client connections, at most the kernel's net.core.wmem_max; -1 leaves the kernel's.",
        minimum=-1,
        ours="102400 in Kafka, with which a fetch costs up to a fifth more CPU here",
    )
    socket_receive_buffer_bytes: int = integer(
        -1,
        "SO_RCVBUF of client connections, at most the kernel's net.core.rmem_max; -1 leaves the kernel's.",
        minimum=-1,
        ours="102400 in Kafka; see socket.send.buffer.bytes",
    )
    connections_max_idle_ms: int = integer(
        600_000, "Time without a request after which a connection is closed.", minimum=1, maximum=LONG_MAX
    )
    max_connections: int = integer(
        20_000,
        "Maximum number of client connections; further ones are closed when they are accepted.",
        minimum=1,
        ours="no limit in Kafka; 20,000 idle ones cost some 500 MiB here. Never more than the limit of open files less "
        "512, which the log and the rest need",
    )
    shutdown_timeout_ms: int = integer(
        4_000,
        "Time that a stop (SIGTERM) waits for parked responses, sockets and the log before it closes them.",
        ours="not in Kafka; Docker kills after 10 s and others sooner",
    )

    # ---- Log ---------------------------------------------------------------------------------------------------------
    log_dirs: str = parsed(
        "data",
        one_directory,
        "directory",
        "The data directory: the logs of all topics, __consumer_offsets among them.",
        ours="Kafka's is /tmp/kafka-logs, which a reboot empties",
        aliases=("log.dir",),
    )
    log_flush: str = choice(
        "always",
        ("always", "interval", "never"),
        """When written records are flushed to the disk: before the response (always), every log.flush.interval.ms
        (interval), or when the kernel writes them (never, as in Kafka).""",
        ours="not in Kafka, which relies on replicas instead of the disk; a single node cannot",
    )
    log_flush_interval_ms: int = integer(
        1_000,
        "The time between two flushes with log.flush=interval.",
        minimum=1,
        maximum=LONG_MAX,
        ours="unset in Kafka, where it flushes as well, but no response waits for it",
    )
    log_segment_bytes: int = integer(
        1024 * MIB, "Size at which a topic's log begins a new segment.", minimum=KIB, ours="Kafka's minimum is 1 MiB"
    )
    log_index_interval_bytes: int = integer(4 * KIB, "Bytes of log between two entries of a segment's offset index.")
    log_index_size_max_bytes: int = integer(
        10 * MIB, "The largest offset index; a full one rolls its segment.", minimum=4
    )
    log_roll_ms: int | None = optional_integer(
        "Age at which a topic's log begins a new segment; unset: log.roll.hours.", minimum=1
    )
    log_roll_hours: int = integer(
        168, "Age in hours at which a topic's log begins a new segment, unless log.roll.ms is set.", minimum=1
    )
    log_retention_ms: int | None = optional_integer(
        "Age at which a record may be deleted, -1 for never; unset: log.retention.minutes.", minimum=-1
    )
    log_retention_minutes: int | None = optional_integer(
        "Age in minutes at which a record may be deleted, -1 for never; unset: log.retention.hours.", minimum=-1
    )
    log_retention_hours: int = integer(
        168,
        "Age in hours at which a record may be deleted, -1 for never; log.retention.ms and .minutes come first.",
        minimum=-1,
    )
    log_retention_bytes: int = integer(
        -1, "Size beyond which a partition's oldest segments are deleted; -1: no limit.", minimum=-1, maximum=LONG_MAX
    )
    log_retention_check_interval_ms: int = integer(
        300_000, "Time between two searches for segments to delete.", minimum=1, maximum=LONG_MAX
    )
    log_segment_delete_delay_ms: int = integer(
        60_000, "Time between the removal of a segment from the log and the deletion of its files.", maximum=LONG_MAX
    )
    log_cleanup_policy: tuple[str, ...] = words(
        ("delete",),
        "What happens to old records in topics without a cleanup.policy of their own.",
        allowed=("delete", "compact"),
    )
    log_message_timestamp_type: str = choice(
        "CreateTime",
        ("CreateTime", "LogAppendTime"),
        "Timestamp of a record: its producer's (CreateTime) or the time at which it was appended (LogAppendTime).",
    )
    log_message_timestamp_before_max_ms: int = integer(
        LONG_MAX,
        "Largest difference by which a producer's timestamp may be before this machine's clock.",
        maximum=LONG_MAX,
    )
    log_message_timestamp_after_max_ms: int = integer(
        3_600_000,
        "Largest difference by which a producer's timestamp may be after this machine's clock.",
        maximum=LONG_MAX,
    )
    log_cleaner_enable: bool = boolean(True, "Compact the topics with cleanup.policy=compact.")
    log_cleaner_backoff_ms: int = integer(
        15_000, "Time that the cleaner sleeps when there is nothing to clean.", maximum=LONG_MAX
    )
    log_cleaner_dedupe_buffer_size: int = integer(
        128 * MIB,
        "Memory for the cleaner's map from keys to their last offsets.",
        minimum=MIB,
        maximum=LONG_MAX,
    )
    log_cleaner_delete_retention_ms: int = integer(
        86_400_000, "Time that a tombstone is kept after compaction.", maximum=LONG_MAX
    )
    log_cleaner_io_buffer_size: int = integer(512 * KIB, "Size of the cleaner's read and write buffers together.")
    log_cleaner_io_max_bytes_per_second: float = rate(
        DOUBLE_MAX, "Limit of bytes that the cleaner reads and writes per second."
    )
    log_cleaner_min_cleanable_ratio: float = ratio(0.5, "Share of a log that must be uncleaned before it is cleaned.")
    log_cleaner_min_compaction_lag_ms: int = integer(
        0, "Age below which a record is not compacted away.", maximum=LONG_MAX
    )
    log_cleaner_max_compaction_lag_ms: int = integer(
        LONG_MAX,
        "Age of uncleaned records at which a log is compacted whatever its ratio.",
        minimum=1,
        maximum=LONG_MAX,
    )

    # ---- Topics ------------------------------------------------------------------------------------------------------
    auto_create_topics_enable: bool = boolean(True, "Create a topic when a client first requests its metadata.")
    delete_topic_enable: bool = boolean(True, "Allow clients to delete topics.")
    num_partitions: int = integer(1, "Number of partitions of a topic that is created without one.", minimum=1)
    max_partitions: int = integer(
        10_000,
        "Maximum number of partitions of all topics together.",
        minimum=1,
        ours="no limit in Kafka; each costs files and memory, and any client may create topics",
    )
    message_max_bytes: int = integer(1024 * KIB + 12, "The largest record batch.")
    max_decompressed_message_bytes: int = integer(
        2**31 - 9,
        "The largest record of a compressed batch, decompressed: checked when it is produced. Unlike in Kafka, "
        "compaction and lookups by timestamp read larger ones.",
        minimum=1,
        maximum=2**31 - 9,
    )
    fetch_max_bytes: int = integer(55 * MIB, "Limit of bytes that one fetch returns.", minimum=1024)
    max_incremental_fetch_session_cache_slots: int = integer(1_000, "Maximum number of fetch sessions.")
    producer_id_expiration_ms: int = integer(
        86_400_000, "Time after which an idle producer's sequence numbers are forgotten.", minimum=1
    )
    producer_id_expiration_check_interval_ms: int = integer(
        600_000, "Time between two searches for idle producers.", minimum=1
    )

    # ---- Classic groups ----------------------------------------------------------------------------------------------
    group_min_session_timeout_ms: int = integer(6_000, "The shortest session timeout that a member may request.")
    group_max_session_timeout_ms: int = integer(1_800_000, "The longest session timeout that a member may request.")
    group_initial_rebalance_delay_ms: int = integer(
        3_000, "Time that the first rebalance of an empty group waits for more members."
    )
    group_max_size: int = integer(2**31 - 1, "Maximum number of members of one classic group.", minimum=1)
    group_max_pending_members: int = integer(
        10_000,
        "Maximum number of member ids that were assigned in one group and whose members have not joined with them yet.",
        minimum=1,
        ours="no limit in Kafka, where a client can accumulate them until they expire",
    )
    max_pending_members: int = integer(
        20_000,
        "The same limit for all groups together. Beyond it, clients that request a member id get a retriable error.",
        minimum=1,
        ours="no limit in Kafka; an id may have 8,000 characters, which are kept for a session timeout",
    )
    group_max_member_metadata_bytes: int = integer(
        1024 * KIB + 12,
        "Limit of bytes of the protocols (subscriptions) that one member joins with.",
        minimum=1 * KIB,
        ours="no limit in Kafka; more than message.max.bytes could not be written to the log anyway",
    )
    group_id_max_bytes: int = integer(
        32_767,
        "The longest group id.",
        minimum=1,
        maximum=32_767,
        ours="not in Kafka; the default is the limit of the protocol",
    )
    max_groups: int = integer(
        100_000,
        "Maximum number of groups.",
        minimum=1,
        ours="no limit in Kafka; each costs some 2 KiB, and any client may create them",
    )
    rebalance_ledger_enable: bool = boolean(
        True,
        "Record each rebalance, with its cause and the late members, in memory and in the topic __rebalances.",
        ours="not in Kafka",
    )
    rebalance_ledger_topic_enable: bool = boolean(
        True,
        "Write the record of each rebalance to the topic __rebalances. Without this, `groups why` shows nothing new, "
        "and the pipeline infers causes; the log and the admin port still have them.",
        ours="not in Kafka",
    )
    group_coordinator_rebalance_protocols: tuple[str, ...] = words(
        ("classic", "consumer", "share"),
        "Enabled rebalance protocols.",
        allowed=("classic", "consumer", "streams", "share"),
        ours="Kafka serves streams, too; it enables share groups by the feature share.version instead",
    )

    # ---- Offsets -----------------------------------------------------------------------------------------------------
    offsets_topic_num_partitions: int = integer(
        50, "Partitions of __consumer_offsets. Fixed when the first group uses it.", minimum=1
    )
    offsets_topic_segment_bytes: int = integer(
        100 * MIB, "Size at which a partition of __consumer_offsets begins a new segment.", minimum=1
    )
    offsets_load_buffer_size: int = integer(5 * MIB, "Bytes read at a time while groups are loaded.", minimum=1)
    offsets_commit_timeout_ms: int = integer(
        5_000,
        """Time that a response of a coordinator may wait for the log. Used only with storage=postgresql://: a log in a
        directory writes or fails.""",
        minimum=1,
    )
    offset_metadata_max_bytes: int = integer(4 * KIB, "Limit of bytes of a commit's metadata for one partition.")
    offsets_retention_minutes: int = integer(
        10_080, "Time that offsets are kept after their group became empty.", minimum=1
    )
    offsets_retention_check_interval_ms: int = integer(
        600_000, "Time between two searches for expired offsets.", minimum=1, maximum=LONG_MAX
    )

    # ---- Consumer groups (KIP-848) -----------------------------------------------------------------------------------
    group_consumer_session_timeout_ms: int = integer(45_000, "Session timeout of consumer group members.", minimum=1)
    group_consumer_min_session_timeout_ms: int = integer(
        45_000, "The least consumer.session.timeout.ms of a group.", minimum=1
    )
    group_consumer_max_session_timeout_ms: int = integer(
        60_000, "The largest consumer.session.timeout.ms of a group.", minimum=1
    )
    group_consumer_heartbeat_interval_ms: int = integer(
        5_000, "Heartbeat interval of consumer group members.", minimum=1
    )
    group_consumer_min_heartbeat_interval_ms: int = integer(
        5_000, "The least consumer.heartbeat.interval.ms of a group.", minimum=1
    )
    group_consumer_max_heartbeat_interval_ms: int = integer(
        15_000, "The largest consumer.heartbeat.interval.ms of a group.", minimum=1
    )
    group_consumer_assignment_interval_ms: int = integer(
        1_000, "The least time between two assignments of a consumer group; 0: no limit."
    )
    group_consumer_min_assignment_interval_ms: int = integer(0, "The least consumer.assignment.interval.ms of a group.")
    group_consumer_max_assignment_interval_ms: int = integer(
        15_000, "The largest consumer.assignment.interval.ms of a group."
    )
    group_consumer_max_size: int = integer(2**31 - 1, "Maximum number of members of one consumer group.", minimum=1)
    group_consumer_assignors: tuple[str, ...] = words(
        ("uniform", "range"), "Assignors of the server, the default one first.", allowed=("uniform", "range")
    )
    group_consumer_migration_policy: str = choice(
        "bidirectional",
        ("disabled", "downgrade", "upgrade", "bidirectional"),
        "Conversions of groups with members: classic to consumer (upgrade), the reverse (downgrade), or both.",
    )
    group_consumer_regex_refresh_interval_ms: int = integer(
        600_000, "Time after which a group's regular expressions are resolved again.", minimum=10_000
    )
    group_consumer_strict_member_epoch: bool = boolean(
        False,
        "Always reject a commit with an earlier member epoch, as before Kafka 4.3 (KIP-1251).",
        ours="not in Kafka",
    )

    # ---- Transactions ------------------------------------------------------------------------------------------------
    transaction_max_timeout_ms: int = integer(900_000, "The longest transaction timeout.", minimum=1)
    transactional_id_expiration_ms: int = integer(
        604_800_000, "Time after which an idle transactional id is forgotten.", minimum=1
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = integer(
        3_600_000, "Time between two searches for idle transactional ids.", minimum=1
    )
    transaction_partition_verification_enable: bool = boolean(
        True, "Reject a transactional batch if its partition is not part of a transaction (KIP-890)."
    )
    transaction_state_log_num_partitions: int = integer(
        50, "Partitions of __transaction_state. Fixed when the first transactional producer connects.", minimum=1
    )
    transaction_state_log_segment_bytes: int = integer(
        100 * MIB, "Size at which a partition of __transaction_state begins a new segment.", minimum=1
    )
    transaction_state_log_load_buffer_size: int = integer(
        5 * MIB, "Bytes read at a time while transactional ids are loaded.", minimum=1
    )
    max_transactional_ids: int = integer(
        100_000,
        "Maximum number of transactional ids.",
        minimum=1,
        ours="no limit in Kafka; each costs some 1 KiB, and any client may create them",
    )

    # ---- Operation ---------------------------------------------------------------------------------------------------
    admin_listeners: tuple[Listener, ...] = parsed(
        (),
        parse_admin_listener,
        "HOST:PORT, or empty for none",
        "Addresses that serve /metrics, /healthz, /readyz and /rebalances over HTTP. Port 0 is any free port.",
        ours="not in Kafka; named as in Kafka Connect",
    )
    admin_allowed_hosts: tuple[str, ...] = words(
        (),
        "Host names that requests to the admin port may have, besides addresses, names without dots and those in "
        "admin.listeners.",
        ours="not in Kafka; other names get 421, which prevents DNS rebinding by web sites",
    )
    test_control_enable: bool = boolean(
        False,
        "Serve /test/ on the admin port: any client of that port can expire members, inject faults and move the clock. "
        "For tests alone.",
        ours="not in Kafka",
    )
    test_control_token: str | None = parsed(
        None,
        optional_text,
        "text",
        "Token of requests for /test/, sent as `Authorization: Bearer TOKEN`. Required unless admin.listeners is an "
        "address of this machine alone.",
        ours="not in Kafka",
    )
    test_control_seed: int = integer(0, "Seed for faults with a probability.", ours="not in Kafka")
    logging_format: str = choice(
        "auto",
        ("auto", "console", "json"),
        "Format of log lines: console for people, json for programs; auto: console on a terminal, otherwise json.",
        ours="not in Kafka, which has it in log4j2.yaml",
    )
    logging_level: str = choice(
        "info",
        ("debug", "info", "warning", "error"),
        "The least severe log lines to write.",
        ours="not in Kafka, which has it in log4j2.yaml",
    )

    listener_overrides: tuple[Override, ...] = ()
    """`listener.name.…`, in the order in which the sources were read."""

    # ---- Values derived from several settings ------------------------------------------------------------------------
    def of_listener(self, listener: str, mechanism: str = "") -> SecuritySettings:
        """Return the settings of TLS and SASL that apply to a listener, or to a mechanism of the listener."""
        return of_listener(self, self.listener_overrides, listener, mechanism)

    @property
    def protocols(self) -> dict[str, str]:
        """The security protocol of each listener for clients, by its name."""
        protocols = dict(self.listener_security_protocol_map)
        return {endpoint.name: protocols[endpoint.name] for endpoint in self.endpoints}

    @property
    def data_dir(self) -> Path:
        return Path(self.log_dirs)

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The address to bind and the one to advertise, of each listener for clients; without controller listeners."""
        skipped = {name.upper() for name in self.controller_listener_names}
        return endpoints(tuple(each for each in self.listeners if each.name not in skipped), self.advertised_listeners)

    @property
    def socket_buffers(self) -> tuple[int, int]:
        """SO_SNDBUF and SO_RCVBUF of client connections in bytes; -1 leaves the kernel's."""
        return self.socket_send_buffer_bytes, self.socket_receive_buffer_bytes

    @property
    def admin(self) -> Listener | None:
        return self.admin_listeners[0] if self.admin_listeners else None

    @property
    def retention_ms(self) -> int:
        """The value of log.retention.ms, else .minutes, else .hours, as in Kafka; -1 means no limit."""
        if self.log_retention_ms is not None:
            return self.log_retention_ms
        if self.log_retention_minutes is not None:
            return self.log_retention_minutes * MINUTE_MS if self.log_retention_minutes >= 0 else -1
        return self.log_retention_hours * HOUR_MS if self.log_retention_hours >= 0 else -1

    @property
    def roll_ms(self) -> int:
        """The value of log.roll.ms, else of log.roll.hours."""
        return self.log_roll_ms if self.log_roll_ms is not None else self.log_roll_hours * HOUR_MS

    @property
    def offsets_retention_ms(self) -> int:
        return self.offsets_retention_minutes * MINUTE_MS
