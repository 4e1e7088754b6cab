"""The existing topics: names, ids, partitions, settings; in memory, and in one small file that survives a restart.

The changes of one request replace `<data>/topics.json` once, whole and durably, before they are made in memory and the
response is sent. The file is the authority; a start reconciles the data directory with it:

- A partition without a directory is empty: a partition's first write creates its directory, so that a topic of many
  partitions, and `__consumer_offsets` with its fifty, cost nothing until they are used.
- Without the file, but with a meta.properties, a directory that looks like a partition (a Kafka broker's, with the id
  in its partition.metadata) is accepted as a partition, and its topic is added. With the file, a directory whose topic,
  id or partition number is not in the file is a stray: broker/log/ownership.py.
- A directory of a topic that was being deleted (`deleting`) when the process died is deleted. A topic stays in that
  list until its logs are removed and the groups have deleted its committed offsets, both durably.

Lookups are dictionary lookups: the group coordinator makes one for every committed offset.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from coordinatord.base.budget import SLICE_ITEMS
from coordinatord.base.config import Settings
from coordinatord.broker.log.checkpoint import uuid_text
from coordinatord.broker.log.data_dir import DataDirectory
from coordinatord.broker.log.errors import LogDamaged
from coordinatord.broker.log.partition_log import PartitionLog
from coordinatord.broker.topics import catalogue_file
from coordinatord.broker.topics.catalogue_file import FILE, Content, Deletion, Entry, Writing
from coordinatord.broker.topics.config_table import InvalidConfig
from coordinatord.broker.topics.configs import Configs
from coordinatord.broker.topics.names import (
    CLUSTER_METADATA_TOPIC,
    INTERNAL,
    LEDGER_TOPIC,
    OFFSETS_TOPIC,
    SHARE_TOPIC,
    TRANSACTION_TOPIC,
    collision_key,
    has_collision_characters,
)
from coordinatord.broker.topics.partition import Partition
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.net.cooperative_tasks import OneAtATime, TaskSteps
from kafka_wire.schema import ZERO_UUID

RESERVED_IDS = (ZERO_UUID, bytes(15) + b"\1")
"""Kafka's Uuid.RESERVED: the zero id (no topic id) and the metadata topic's id."""


New = tuple[str, bytes, int, "Configs"]
"""A topic to be created: (name, id, partitions, settings)."""


class Topic:
    """A topic. `partitions[i]` is partition i."""

    __slots__ = ("configs", "internal", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: bytes, configs: Configs) -> None:
        self.name = name
        self.topic_id = topic_id
        self.internal = name in INTERNAL
        self.configs = configs
        self.partitions: list[Partition] = []


class Catalogue:
    """All topics, by name and by id."""

    def __init__(self, settings: Settings, data: DataDirectory, nodes: Nodes, new_uuid: Callable[[], bytes]) -> None:
        """Read the file. `new_uuid` returns 16 random bytes. Raises LogDamaged if the file is not a valid catalogue."""
        self.settings = settings
        self._data = data
        self._nodes = nodes
        self._disk = data.disk
        self._path = f"{data.path}/{FILE}"
        self._new_uuid = new_uuid
        self.by_name: dict[str, Topic] = {}
        self.by_id: dict[bytes, Topic] = {}
        self.partition_count = 0
        #: number of topics deleted since the start
        self.deletions = 0
        #: called with a topic that a client, or another node, has created
        self.on_added: Callable[[Topic], object] = lambda _: None
        self._colliding: dict[str, str] = {}
        self._content = catalogue_file.read(self._disk, self._path)
        self._writing: Writing | None = None
        self.one_at_a_time = OneAtATime()
        self._removed = True
        """Set when the logs of all deleted topics have been removed."""
        self._settled: set[bytes] = set()
        """Ids of deleted topics that have no committed offsets left."""
        self._load()

    def use(self, settings: Settings) -> None:
        """Apply other broker settings to the topics that inherit them."""
        self.settings = settings
        for topic in self.by_name.values():
            self._configure(topic, Configs(settings, topic.configs.own))

    @property
    def change(self) -> int:
        """Return the number of changes since the catalogue was created."""
        return self._content.change

    def __iter__(self) -> Iterator[Topic]:
        return iter(self.by_name.values())

    def __len__(self) -> int:
        return len(self.by_name)

    def partition(self, name: str, index: int) -> Partition | None:
        """Return a partition by its topic's name; None when it does not exist."""
        topic = self.by_name.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    def collides_with(self, name: str) -> str | None:
        """Return a topic whose name would collide with `name` in Kafka's metrics; None when there is none."""
        return self._colliding.get(collision_key(name)) if has_collision_characters(name) else None

    def has_room_for(self, partitions: int) -> bool:
        """Return whether max.partitions allows `partitions` more."""
        return self.partition_count + partitions <= self.settings.max_partitions

    def new_id(self) -> bytes:
        """Return a new unique topic id. Its text has no dash at its start, for use in commands (Kafka's randomUuid)."""
        while True:
            topic_id = self._new_uuid()
            if topic_id not in RESERVED_IDS and topic_id not in self.by_id and topic_id[0] >> 2 != 62:
                return topic_id

    def changing(self) -> AbstractContextManager[object]:
        """Return a context to hold around reading the catalogue and the change that depends on it."""
        return nullcontext()

    def changing_in_steps(self) -> Generator[Any, Any, AbstractContextManager[object]]:
        """Return the context of `changing`, from steps (transport/net/cooperative_tasks.py): the event loop continues
        while another process changes the catalogue. Raises OSError if that takes too long.
        """
        yield from ()
        return self.changing()

    def refresh(self) -> bool:
        """Apply changes of other processes; return whether there were any. Here no other process makes changes."""
        return False

    # Changes: durable on return. They raise OSError when the write failed; nothing has changed then. Those that are
    # steps (transport/net/cooperative_tasks.py) run for one request at a time, `one_at_a_time`, and write on another
    # thread; `create` waits for such a write.

    def has(self, name: str) -> bool:
        """Return whether the name is taken by a topic, or by a topic that is being created."""
        return name in self.by_name or name in self._content.topics

    def create(self, new: Iterable[New]) -> list[Topic]:
        """Add topics. The caller has validated them."""
        self._settle_writing()
        wanted = list(new)
        self._commit(self._with(wanted))
        return [self._add(name, topic_id, configs, count) for name, topic_id, count, configs in wanted]

    def write_new(self, new: Sequence[New]) -> TaskSteps:
        """Write many new topics to the file, on another thread. `add_new` is the second half of their creation."""
        self._settle_writing()
        yield from self._write(self._next(self._with(new)))

    def add_new(self, new: Sequence[New]) -> TaskSteps:
        """Add topics in memory that are in the file. A refresh adds them, too."""
        for name, topic_id, count, configs in new:
            topic = Topic(name, topic_id, configs)
            while len(topic.partitions) < count and name not in self.by_name:
                self._extend(topic, min(count, len(topic.partitions) + SLICE_ITEMS))
                yield None
            if name in self.by_name:
                self.partition_count -= len(topic.partitions)
            else:
                self._show(topic)

    def _with(self, new: Sequence[New]) -> dict[str, Entry]:
        """Return all entries, including those of new topics."""
        added = {name: Entry(topic_id, count, configs.own) for name, topic_id, count, configs in new}
        # Offsets that were committed for a name without an id belong to the new topic from now on.
        self._settled.update(topic_id for topic_id, each in self._content.deleting.items() if each.topic in added)
        return {**self._content.topics, **added}

    def delete(self, topics: Iterable[Topic]) -> TaskSteps:
        """Remove topics; return their logs, for the log to remove. Call `deleted` after that."""
        self._settle_writing()
        gone = {topic.name: topic for topic in topics}
        kept = {name: entry for name, entry in self._content.topics.items() if name not in gone}
        yield from self._write(self._next(kept, gone.values()))
        self._removed = False
        logs: list[PartitionLog] = []
        for topic in gone.values():
            if self.by_name.get(topic.name) is topic:
                logs += self._remove(topic)
            yield None
        return logs

    def deleted(self) -> None:
        """Note that the logs which `delete` returned have been removed durably."""
        self._removed = True

    @property
    def deleting(self) -> dict[bytes, str]:
        """Return deleted topics whose committed offsets may not all be deleted yet: id -> name."""
        return {id_: each.topic for id_, each in self._content.deleting.items() if id_ not in self._settled}

    def settled(self, topic_ids: Iterable[bytes]) -> None:
        """Note that the committed offsets of these topics are deleted durably. The next change writes this to disk."""
        self._settled.update(topic_ids)

    def grow(self, topics: Iterable[tuple[Topic, int]]) -> TaskSteps:
        """Increase the partitions of topics: (topic, new number)."""
        self._settle_writing()
        wanted = list(topics)
        entries = self._content.topics
        grown = {topic.name: entries[topic.name]._replace(partitions=count) for topic, count in wanted}
        yield from self._write(self._next({**entries, **grown}))
        for topic, count in wanted:
            while len(topic.partitions) < count:
                self._extend(topic, min(count, len(topic.partitions) + SLICE_ITEMS))
                yield None

    def configure(self, changes: Mapping[Topic, Configs]) -> TaskSteps:
        """Replace the settings of these topics."""
        self._settle_writing()
        entries = self._content.topics
        changed = {topic.name: entries[topic.name]._replace(configs=each.own) for topic, each in changes.items()}
        yield from self._write(self._next({**entries, **changed}))
        for topic, configs in changes.items():
            if self.by_name.get(topic.name) is topic:
                self._configure(topic, configs)

    # The file

    def _commit(self, entries: dict[str, Entry], gone: Iterable[Topic] = ()) -> None:
        content = self._next(entries, gone)
        catalogue_file.write(self._disk, self._path, content)
        self._content = content

    def _next(self, entries: dict[str, Entry], gone: Iterable[Topic] = ()) -> Content:
        change = self._content.change + 1
        deleting = self._still_deleting()
        deleting.update({topic.topic_id: Deletion(topic.name, change) for topic in gone})
        return Content(entries, deleting, change)

    def _write(self, content: Content) -> TaskSteps:
        """Write the file on another thread, then apply the written content."""
        writing = self._writing = Writing(content, lambda: catalogue_file.write(self._disk, self._path, content))
        yield writing.write
        self._settle_writing()
        if writing.error is not None:
            raise writing.error

    def _settle_writing(self) -> None:
        """Wait until the other thread has written the file, then apply the written content."""
        writing, self._writing = self._writing, None
        if writing is not None and writing.is_written():
            self._content = writing.content
            self._written()

    def _written(self) -> None:
        """Handle the end of another thread's write of the file."""

    def _still_deleting(self) -> dict[bytes, Deletion]:
        """Return the deletions that are not complete yet."""
        return {id_: each for id_, each in self._content.deleting.items() if id_ not in self._settled}

    def _load(self) -> None:
        stored = self._content
        entries = dict(stored.topics)
        self._finish_deleting()
        for name, (topic_id, highest) in self._found().items():
            entry = entries.get(name)
            if entry is None:
                own = internal_configs(self.settings, name)
                entries[name] = Entry(self.new_id() if topic_id in RESERVED_IDS else topic_id, highest + 1, own)
            elif topic_id not in (entry.topic_id, ZERO_UUID):
                path = f"{self._data.path}/{name}-{highest}"
                known = uuid_text(entry.topic_id)
                raise LogDamaged(path, 0, f"its topic id is {uuid_text(topic_id)}, that in {FILE} {known}")
            elif highest >= entry.partitions:
                entries[name] = entry._replace(partitions=highest + 1)
        for name, entry in entries.items():
            self._add(name, entry.topic_id, self._configs(name, entry.configs), entry.partitions)
        if entries != stored.topics:
            self._commit(entries)
        elif self._disk.kind(self._path) is None:
            catalogue_file.write(self._disk, self._path, stored)  # from now on, a directory without an entry is a stray
        if not self._data.was_clean:
            for topic in self:
                for partition in topic.partitions:
                    partition.drop_snapshots_ahead()

    def _finish_deleting(self) -> None:
        leftover = [log for log in self._data.logs.values() if log.topic_id in self._content.deleting]
        self._data.remove_trees(self._data.remove(leftover))

    def _found(self) -> dict[str, tuple[bytes, int]]:
        """Return topics that have a directory: name -> (id, highest partition)."""
        found: dict[str, tuple[bytes, int]] = {}
        for (name, index), log in self._data.logs.items():
            if name == CLUSTER_METADATA_TOPIC:
                continue
            topic_id, highest = found.get(name, (log.topic_id, -1))
            found[name] = topic_id, max(highest, index)
        return found

    def _configs(self, name: str, own: Mapping[str, str]) -> Configs:
        try:
            return Configs(self.settings, own)
        except InvalidConfig as error:
            raise LogDamaged(self._path, 0, f"topic {name}: {error}") from None

    # In memory

    def led_anew(self, name: str, index: int, open_log: Callable[[Topic], PartitionLog]) -> None:
        """Apply a change of a partition's leader. If this node leads now, `open_log` is called to take over the log."""
        topic = self.by_name.get(name)
        if topic is None or index >= len(topic.partitions):
            return
        before, is_here = topic.partitions[index], self._nodes.owns(name, index)
        log = open_log(topic) if is_here else self._elsewhere(topic, index)
        leader_id = self._nodes.leader_of(name, index)
        topic.partitions[index] = Partition(topic.topic_id, log, topic.configs, self._disk, leader_id, is_here=is_here)
        before.is_here = False
        before.wake()  # clients that wait there for records look up the leader

    def _remove(self, topic: Topic) -> list[PartitionLog]:
        """Remove a topic; return its logs, which the caller removes."""
        name = topic.name
        self.deletions += 1
        del self.by_name[name], self.by_id[topic.topic_id]
        if self._colliding.get(collision_key(name)) == name:
            del self._colliding[collision_key(name)]
        self.partition_count -= len(topic.partitions)
        return [partition.log for partition in topic.partitions if partition.is_here]

    @staticmethod
    def _configure(topic: Topic, configs: Configs) -> None:
        topic.configs = configs
        for partition in topic.partitions:
            partition.configure(configs)

    def _add(self, name: str, topic_id: bytes, configs: Configs, count: int) -> Topic:
        topic = Topic(name, topic_id, configs)
        self._show(topic)
        self._extend(topic, count)
        return topic

    def _show(self, topic: Topic) -> None:
        name = topic.name
        self.by_name[name] = topic
        self.by_id[topic.topic_id] = topic
        if has_collision_characters(name):
            self._colliding.setdefault(collision_key(name), name)

    def _extend(self, topic: Topic, count: int) -> None:
        have = len(topic.partitions)
        here = [index for index in range(have, count) if self._nodes.owns(topic.name, index)]
        missing = [index for index in here if self._data.get(topic.name, index) is None]
        self._data.create(topic.name, missing, topic.topic_id, topic.configs.log_config, lazy=True)
        for index in range(have, count):
            log = self._data.get(topic.name, index)
            is_here = log is not None
            if log is None:
                log = self._elsewhere(topic, index)
            leader_id = self._nodes.leader_of(topic.name, index)
            topic.partitions.append(
                Partition(topic.topic_id, log, topic.configs, self._disk, leader_id, is_here=is_here)
            )
        self.partition_count += count - have

    def _elsewhere(self, topic: Topic, index: int) -> PartitionLog:
        """Return the log of a partition that another node leads."""
        return self._data.elsewhere(topic.name, index, topic.topic_id, self._nodes.epoch_of(topic.name, index))


def internal_configs(settings: Settings, name: str) -> dict[str, str]:
    """Return the settings with which Kafka's coordinators create their topics; empty for other topics."""
    if name == OFFSETS_TOPIC:
        segment_bytes, compression = settings.offsets_topic_segment_bytes, "producer"
    elif name == TRANSACTION_TOPIC:
        segment_bytes, compression = settings.transaction_state_log_segment_bytes, "uncompressed"
    elif name == SHARE_TOPIC:
        configs = {"cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1"}
        return configs | _segment_bytes(settings.share_coordinator_state_topic_segment_bytes)
    elif name == LEDGER_TOPIC:
        # A week, the retention time of offsets; and all partitions together must fit on a small disk.
        return {"cleanup.policy": "delete", "segment.bytes": str(16 << 20), "retention.bytes": str(64 << 20)}
    else:
        return {}
    return {"cleanup.policy": "compact", "compression.type": compression, **_segment_bytes(segment_bytes)}


def _segment_bytes(size: int) -> dict[str, str]:
    """Return the topic's setting for the broker's. That may be below the minimum of the topic's; then only the name
    without a minimum accepts it.
    """
    return {"segment.bytes" if size >= 1 << 20 else "internal.segment.bytes": str(size)}
