"""Interface of the shell to the embedded topics: one object, its handlers, and a few lookups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

from coordinatord.base.config import Settings
from coordinatord.broker.log.config import LogConfig
from coordinatord.broker.log.data_dir import DataDirectory
from coordinatord.broker.log.partition_log import PartitionLog
from coordinatord.broker.log.writer import LogWriter
from coordinatord.broker.topics.catalogue import Catalogue, Topic, internal_configs
from coordinatord.broker.topics.configs import Configs
from coordinatord.broker.topics.describe import Describing
from coordinatord.broker.topics.fetch import FetchRequestHandler, ScheduleAt
from coordinatord.broker.topics.fetch_sessions import FetchSessions
from coordinatord.broker.topics.group_configs import GroupConfigs
from coordinatord.broker.topics.markers import TransactionalAppends
from coordinatord.broker.topics.names import LEDGER_TOPIC, OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTION_TOPIC
from coordinatord.broker.topics.offsets import Offsets
from coordinatord.broker.topics.partition_verification import NoCoordinator, TransactionCoordinator
from coordinatord.broker.topics.produce import ProduceRequestHandler
from coordinatord.broker.topics.producer_ids import ProducerIds
from coordinatord.broker.topics.shared_catalogue import SharedCatalogue
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.cluster.shared import Sharing
from coordinatord.transport.net.lazy_handlers import Handlers, lazy_handlers
from kafka_wire.api_key import ApiKey

if TYPE_CHECKING:
    from coordinatord.broker.topics.admin import Administration
    from coordinatord.transport.net.cooperative_tasks import TaskSteps
    from coordinatord.transport.net.request import RequestContext

REPLICA_APIS = (ApiKey.DESCRIBE_LOG_DIRS, ApiKey.ELECT_LEADERS, ApiKey.LIST_PARTITION_REASSIGNMENTS)
CONFIG_APIS = (
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.LIST_CONFIG_RESOURCES,
)
ADMINISTRATION_APIS = (ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS)


class InternalTopic:
    """The topic of a coordinator, which the first request for the coordinator creates."""

    def __init__(self, topics: Topics, name: str) -> None:
        self._topics = topics
        self.name = name

    def count(self) -> int:
        """Return its number of partitions; 0 while it does not exist."""
        topic = self._topics.catalogue.by_name.get(self.name)
        return 0 if topic is None else len(topic.partitions)

    def create(self) -> int:
        """Create it durably if it does not exist; return its number of partitions. Raises OSError if that fails."""
        return self._topics.create_internal(self.name)


def internal_partitions(settings: Settings) -> dict[str, tuple[str, int]]:
    """Return the setting of each coordinator topic's number of partitions, and its value."""
    return {
        OFFSETS_TOPIC: ("offsets.topic.num.partitions", settings.offsets_topic_num_partitions),
        TRANSACTION_TOPIC: ("transaction.state.log.num.partitions", settings.transaction_state_log_num_partitions),
        SHARE_TOPIC: (
            "share.coordinator.state.topic.num.partitions",
            settings.share_coordinator_state_topic_num_partitions,
        ),
    }


class Topics:
    """Embedded topics of one node. Constructed once the data directory is open: the constructor reads the catalogue,
    reconciles topics with directories, and applies each topic's settings to its partitions' logs. It raises LogDamaged
    if the catalogue is not valid, OSError if the catalogue cannot be written.
    """

    def __init__(
        self,
        settings: Settings,
        data: DataDirectory,
        writer: LogWriter,
        nodes: Nodes,
        *,
        new_uuid: Callable[[], bytes],
        now_ms: Callable[[], int],
        schedule_at: ScheduleAt,
        shared: tuple[Sharing, Callable[..., object]] | None = None,
    ) -> None:
        """Open the topics. `new_uuid` returns 16 random bytes, `schedule_at(deadline_ms, callback)` an object with
        `cancel()`. `shared` is set if other processes share the topics; its second element is the event loop's
        call_soon.
        """
        self.group_configs = GroupConfigs(settings, data.disk, data.path, None if shared is None else shared[0])
        self.broker_configs = self.group_configs.brokers
        settings = self.settings = self.broker_configs.settings
        self.writer = writer
        if shared is None:
            self.catalogue = Catalogue(settings, data, nodes, new_uuid)
        else:
            sharing, call_soon = shared
            self.catalogue = SharedCatalogue(
                settings, data, nodes, new_uuid, sharing, call_soon,
                lambda ms, callback: schedule_at(now_ms() + ms, callback),
            )  # fmt: skip
            self._follow(self.catalogue)
        self.made_elsewhere: dict[str, Callable[[], object]] = {}
        """The callbacks for topics of coordinators that clients or other processes create, by the topic's name."""
        self.catalogue.on_added = self._added
        self.broker_configs.follow(self._use)
        self._groups_are_loaded = False
        self._listeners: list[Callable[[str, bytes], object]] = []

        lock = nullcontext if shared is None else shared[0].lock
        self.producer_ids = ProducerIds(data.disk, data.path, lock)
        self.participants: TransactionCoordinator = NoCoordinator()
        self.transactional = TransactionalAppends(self.catalogue, writer, now_ms)
        self._nodes, self._data, self._now_ms = nodes, data, now_ms
        sessions = FetchSessions(
            settings.max_incremental_fetch_session_cache_slots,
            lambda: int.from_bytes(new_uuid()[:4], "big") & 0x7FFF_FFFF,
        )
        self.fetching = FetchRequestHandler(settings, self.catalogue, nodes, sessions, now_ms, schedule_at)

    def _use(self, settings: Settings) -> None:
        """Apply broker settings that were changed while the broker runs."""
        self.settings = settings
        self.catalogue.use(settings)
        if "producing" in self.__dict__:  # it has been made
            self.producing.verifies = settings.transaction_partition_verification_enable

    def _added(self, topic: Topic) -> None:
        """Let a coordinator use its topic, which a client or another process has created."""
        if topic.name in self.made_elsewhere:
            self.made_elsewhere[topic.name]()

    def _follow(self, catalogue: SharedCatalogue) -> None:
        """Subscribe to deleted topics of other processes."""

        def gone(topics: list[tuple[str, bytes]]) -> None:
            for name, topic_id in topics:
                self._deleted(name, topic_id)
            # Once the groups' records are durable: until then, the next start would have to repeat the deletion's
            # effects.
            self.writer.hold(self.writer.epoch, catalogue.followed)

        catalogue.on_removed = self.writer.delete
        catalogue.on_gone = gone

    def follow_deletions(self) -> None:
        """Report earlier deletions of topics to the groups: those before the groups were loaded. Call after loading."""
        self._groups_are_loaded = True
        if isinstance(self.catalogue, SharedCatalogue):
            self.catalogue.catch_up()
        else:
            self._settle(tuple(self.catalogue.deleting))

    @staticmethod
    def log_config(settings: Settings, name: str) -> LogConfig:
        """Return the settings with which a topic's log is opened, until the catalogue has been read."""
        return Configs(settings, internal_configs(settings, name)).log_config

    def internal(self, name: str) -> InternalTopic:
        """Return the topic of a coordinator, whether it exists or not."""
        return InternalTopic(self, name)

    def kept_partitions(self) -> list[tuple[str, int, int]]:
        """Return settings that differ from this data directory's fixed values: (name, configured value, the directory's
        value).
        """
        asked = internal_partitions(self.settings)
        kept = [(name, self.internal(name).count()) for name in asked]
        return [(asked[name][0], asked[name][1], count) for name, count in kept if count and count != asked[name][1]]

    def create_ledger_topic(self) -> None:
        """Create `__rebalances` durably. Raises OSError if that fails."""
        self._create_internal(LEDGER_TOPIC, self.internal(OFFSETS_TOPIC).count())

    def create_internal(self, name: str) -> int:
        """Create a coordinator's topic durably if it does not exist; return its number of partitions. Raises OSError if
        that fails.
        """
        return self._create_internal(name, internal_partitions(self.settings)[name][1])

    def _create_internal(self, name: str, partitions: int) -> int:
        with self.catalogue.changing():
            if name not in self.catalogue.by_name:
                configs = Configs(self.settings, internal_configs(self.settings, name))
                self.catalogue.create([(name, self.catalogue.new_id(), partitions, configs)])
        return len(self.catalogue.by_name[name].partitions)

    def handlers(self) -> dict[int, Any]:
        """Return the handlers by API key: (context, request) -> response, or None (see
        coordinatord.transport.net.request). `participants` must have been set.
        """
        return {
            **self.producing.handlers(),
            **self.fetching.handlers(),
            **Offsets(self.catalogue).handlers(),
            **self._describing().handlers(),
            **lazy_handlers(ADMINISTRATION_APIS, lambda: self.administration),
            **lazy_handlers(REPLICA_APIS, self._replicas),
            **lazy_handlers(CONFIG_APIS, self._config_apis),
            **lazy_handlers((ApiKey.DELETE_RECORDS,), self._deleting_records),
        }

    @property
    def fetch_sessions(self) -> int:
        """Number of open fetch sessions."""
        return len(self.fetching.sessions)

    @cached_property
    def producing(self) -> ProduceRequestHandler:
        """Handler of Produce, created by `handlers`: `participants` is set then."""
        verifies = self.settings.transaction_partition_verification_enable
        made = ProduceRequestHandler(self.catalogue, self.writer, self._nodes, self._now_ms, verifies=verifies)
        made.transactions = self.participants
        return made

    @cached_property
    def administration(self) -> Administration:
        """Handlers that create and delete topics, created by their first request."""
        from coordinatord.broker.topics.admin import Administration

        return Administration(self.catalogue, self.writer, self._nodes, self._deleted)

    def _describing(self) -> Describing:
        def create(context: RequestContext, names: Sequence[str]) -> TaskSteps:
            return self.administration.create_with_defaults(context, names)

        return Describing(self.settings, self.catalogue, self._nodes, self._data.cluster_id, create)

    def _replicas(self) -> Handlers:
        from coordinatord.broker.topics.replicas import Replicas

        return Replicas(self.catalogue, self._data)

    def _deleting_records(self) -> Handlers:
        from coordinatord.broker.topics.delete_records import DeletingRecords

        return DeletingRecords(self.catalogue, self.writer)

    def _config_apis(self) -> Handlers:
        from coordinatord.broker.topics.config_apis import ConfigApis

        return ConfigApis(self.catalogue, self.group_configs, self._nodes)

    # Lookups for the group coordinator, which makes them for every committed offset

    def topic_id(self, name: str) -> bytes | None:
        """Return the id of a topic; None if there is no such topic."""
        topic = self.catalogue.by_name.get(name)
        return topic.topic_id if topic is not None else None

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with this id; None if there is none."""
        topic = self.catalogue.by_id.get(topic_id)
        return topic.name if topic is not None else None

    def id_and_size(self, name: str) -> tuple[bytes, int] | None:
        """Return the id of a topic and its number of partitions; None if there is no such topic."""
        topic = self.catalogue.by_name.get(name)
        return (topic.topic_id, len(topic.partitions)) if topic is not None else None

    def exists(self, name: str, partition: int) -> bool:
        """Return whether a topic has this partition."""
        topic = self.catalogue.by_name.get(name)
        return topic is not None and 0 <= partition < len(topic.partitions)

    def has_partition(self, topic_id: bytes, partition: int) -> bool:
        """Return whether the topic with this id has this partition."""
        topic = self.catalogue.by_id.get(topic_id)
        return topic is not None and 0 <= partition < len(topic.partitions)

    def first_unstable_offset(self, log: PartitionLog) -> int:
        """Return the start offset of a partition's first known open transaction, or the partition's end."""
        partition = self.catalogue.partition(log.topic, log.partition)
        return log.end_offset if partition is None else partition.first_unstable_offset

    def on_deleted(self, listener: Callable[[str, bytes], object]) -> None:
        """Call `listener(name, id)` after each topic deletion, after which the topic's committed offsets are useless.
        Topics whose offsets may remain because the process ended during the deletion are reported at once (with other
        workers: after loading).
        """
        self._listeners.append(listener)
        if not isinstance(self.catalogue, SharedCatalogue):
            for topic_id, name in self.catalogue.deleting.items():
                listener(name, topic_id)

    def _deleted(self, name: str, topic_id: bytes) -> None:
        for listener in self._listeners:
            listener(name, topic_id)
        if self._groups_are_loaded and not isinstance(self.catalogue, SharedCatalogue):
            self._settle((topic_id,))

    def _settle(self, topic_ids: tuple[bytes, ...]) -> None:
        """Mark deletions as settled when the groups' records about them are durable."""
        if topic_ids:
            self.writer.hold(self.writer.epoch, lambda: self.catalogue.settled(topic_ids))

    # Called by the shell, periodically and at the end

    def enforce_retention(self, now_ms: int) -> int:
        """Drop segments by retention.ms and retention.bytes. Return their number. Called every
        log.retention.check.interval.ms.
        """
        return self.writer.apply_retention(now_ms)

    def expire_producers(self, now_ms: int) -> int:
        """Drop producers that have been idle for producer.id.expiration.ms. Return their number. Called every
        producer.id.expiration.check.interval.ms.
        """
        idle_ms = self.settings.producer_id_expiration_ms
        return sum(
            partition.expire_producers(now_ms, idle_ms) for topic in self.catalogue for partition in topic.partitions
        )

    def drain(self) -> None:
        """Prepare for the stop of the daemon: respond to parked requests, and write snapshots of the producers. The
        next start reads later appends from the log.
        """
        self.fetching.drain()
        for topic in self.catalogue:
            for partition in topic.partitions:
                partition.write_snapshot(flush=True)
