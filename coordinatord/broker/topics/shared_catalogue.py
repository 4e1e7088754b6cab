"""The catalogue in a process that shares it with other workers: see coordinatord.transport.cluster.nodes for the
protocol.

A change is made under the lock, after all changes of other workers have been applied. Their changes are also applied
when the supervisor announces them, when a request lists all topics, and when a request names an unknown topic: another
worker may have just returned that topic to the client.

Changes are applied at once; the consequences of a deletion (groups delete offsets, consumers are woken) follow in the
event loop's next iteration, since a handler may be running.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

from coordinatord.base.config import Settings
from coordinatord.broker.log.checkpoint import uuid_text
from coordinatord.broker.log.data_dir import DataDirectory
from coordinatord.broker.log.errors import LogDamaged
from coordinatord.broker.log.partition_log import PartitionLog
from coordinatord.broker.topics import catalogue_file
from coordinatord.broker.topics.catalogue import Catalogue, Topic
from coordinatord.broker.topics.catalogue_file import Deletion, Entry
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.cluster.shared import Sharing
from coordinatord.transport.net.cooperative_tasks import Wait
from kafka_wire.schema import ZERO_UUID

LOOKS, LOOK_MS = 1_000, 10
"""Number of attempts of steps to take the lock while another process has it, and the time between two (ms)."""

Key = TypeVar("Key")


class _Known(dict[Key, Topic]):
    """Topics by name or id. A missing topic is looked up again after a refresh."""

    __slots__ = ("_refresh",)

    def __init__(self, refresh: Callable[[], bool]) -> None:
        super().__init__()
        self._refresh = refresh

    def get(self, key: Key, default: Any = None) -> Any:
        found = super().get(key)
        if found is None and self._refresh():
            found = super().get(key)
        return default if found is None else found


class SharedCatalogue(Catalogue):
    """The shared catalogue. `on_removed(logs)` removes this worker's logs of deleted topics; `on_gone(topics)` handles
    the consequences and calls `followed` when that is done. Both are set before the first request.
    """

    def __init__(
        self,
        settings: Settings,
        data: DataDirectory,
        nodes: Nodes,
        new_uuid: Callable[[], bytes],
        shared: Sharing,
        call_soon: Callable[..., object],
        after_ms: Callable[[int, Callable[[], object]], object],
    ) -> None:
        """Load the catalogue. `after_ms(ms, callback)` calls `callback` after `ms` milliseconds."""
        self._shared = shared
        self._call_soon = call_soon
        self._after_ms = after_ms
        self._refreshing = False
        self._gone: list[Topic] = []
        self._is_behind = True
        self.on_removed: Callable[[list[PartitionLog]], object] = _nothing
        self.on_gone: Callable[[list[tuple[str, bytes]]], object] = _nothing
        super().__init__(settings, data, nodes, new_uuid)

    @contextmanager
    def changing(self) -> Iterator[None]:
        with self._shared.lock():
            self.refresh()
            yield

    def changing_in_steps(self) -> Generator[Any, Any, AbstractContextManager[object]]:
        for _ in range(LOOKS):
            if self._shared.take():
                return self._taken()
            yield Wait(lambda go_on: self._after_ms(LOOK_MS, go_on))
        raise OSError(errno.EBUSY, f"another worker has been changing topics or settings for {LOOKS * LOOK_MS} ms")

    @contextmanager
    def _taken(self) -> Iterator[None]:
        try:
            self.refresh()
            yield
        finally:
            self._shared.give()

    def refresh(self) -> bool:
        if self._shared.change == self._content.change or self._refreshing:
            return False
        self._refreshing = True
        try:
            self._take_over(catalogue_file.read(self._disk, self._path))
        finally:
            self._refreshing = False
        return True

    def deleted(self) -> None:
        self._removed = True
        self._call_soon(self._report_gone)

    def catch_up(self) -> None:
        """Handle the deletions of topics while this worker was down. Called when loading is complete."""
        self._is_behind = False
        self.on_gone([(deletion.topic, topic_id) for topic_id, deletion in self._content.deleting.items()])

    def followed(self) -> None:
        """Report that this worker has processed all deletions."""
        if self._removed and not self._gone and not self._is_behind:
            self._shared.follow(self._nodes.worker, self._content.change)

    def led_by_others(self) -> None:
        """Apply changed partition leaders: nodes of other machines have taken partitions over, or lost them."""
        for topic in self:
            for index, partition in enumerate(topic.partitions):
                if not partition.is_here:
                    partition.leader_id = self._nodes.leader_of(topic.name, index)
                    epoch = self._nodes.epoch_of(topic.name, index) or 0
                    partition.log.leader_epoch = max(partition.log.leader_epoch, epoch)

    # The file

    def _load(self) -> None:
        """Load the file. The supervisor has reconciled it with the directories; other workers may have changed it."""
        self.by_name = _Known(self.refresh)
        self.by_id = _Known(self.refresh)
        self._finish_deleting()
        entries = self._content.topics
        for name, (topic_id, highest) in self._found().items():
            entry = entries.get(name)
            if entry is None or topic_id not in (entry.topic_id, ZERO_UUID) or highest >= entry.partitions:
                told = uuid_text(topic_id)
                raise LogDamaged(f"{self._data.path}/{name}-{highest}", 0, f"no topic of {self._path} has id {told}")
        self._refreshing = True
        for name, entry in entries.items():
            self._add(name, entry.topic_id, self._configs(name, entry.configs), entry.partitions)
        self._refreshing = False
        if not self._data.was_clean:
            for topic in self:
                for partition in topic.partitions:
                    if partition.is_here:
                        partition.drop_snapshots_ahead()

    def _commit(self, entries: dict[str, Entry], gone: Iterable[Topic] = ()) -> None:
        gone = list(gone)
        super()._commit(entries, gone)
        if not gone:
            self.followed()
        self._shared.changed(self._content.change)

    def _written(self) -> None:
        self.followed()
        self._shared.changed(self._content.change)

    def _still_deleting(self) -> dict[bytes, Deletion]:
        followed = self._shared.followed_by_all
        return {topic_id: each for topic_id, each in self._content.deleting.items() if each.change > followed}

    # Changes of other workers

    def _take_over(self, content: catalogue_file.Content) -> None:
        entries = content.topics
        gone = [topic for topic in self if topic.name not in entries or entries[topic.name].topic_id != topic.topic_id]
        self._content = content
        if gone:
            self._gone += gone
            self.on_removed([log for topic in gone for log in self._remove(topic)])
            self._call_soon(self._report_gone)
        for name, entry in entries.items():
            topic = self.by_name.get(name)
            if topic is None:
                self.on_added(self._add(name, entry.topic_id, self._configs(name, entry.configs), entry.partitions))
                continue
            if entry.partitions > len(topic.partitions):
                self._extend(topic, entry.partitions)
            if dict(entry.configs) != dict(topic.configs.own):
                self._configure(topic, self._configs(name, entry.configs))
        self.followed()

    def _report_gone(self) -> None:
        gone, self._gone = self._gone, []
        for topic in gone:
            for partition in topic.partitions:
                partition.wake()
        self.on_gone([(topic.name, topic.topic_id) for topic in gone])


def _nothing(_what: object) -> None:
    """The default callback: does nothing."""
