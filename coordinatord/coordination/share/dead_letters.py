"""The queue of dead letters (KIP-1191): writes them to the topics that the groups' settings name.

A letter goes through the checks of a Produce request into partition P of the topic: that of its record, modulo the
number of the topic's partitions. When it is durable, or cannot be written, the share partition archives the record
either way. A letter that cannot be written is a line in the log of the daemon, as in Kafka. At a restart the share
partition reads that the record is being archived, and the letter is written again: twice is possible, not at all is
not.

The queue has no limit of its own: it has the records that are being archived, and the windows of share partitions are
limited. One turn of the event loop writes for a few milliseconds. A partition that another node leads gets its letters
by a Produce request. Kafka's counterpart is ShareGroupDLQStateManager.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from coordinatord.base.budget import Budget
from coordinatord.base.observe.logger import get_logger
from coordinatord.broker.log.errors import LogFailed
from coordinatord.broker.topics.admin import Refusal
from coordinatord.broker.topics.catalogue import Topic
from coordinatord.broker.topics.partition import Partition
from coordinatord.broker.topics.produce import OWN_VERSION
from coordinatord.broker.topics.topics import Topics
from coordinatord.coordination.runtime.runtime import Timers
from coordinatord.coordination.share.letter_records import LetterHeaders, Originals, add_letter
from coordinatord.coordination.share.partition.state import DeadLetters
from coordinatord.coordination.share.state_persister import Peers
from coordinatord.transport.cluster.nodes import Nodes
from kafka_wire.api.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import BatchBuilder

log = get_logger("coordinatord.coordination.share")

ENABLED: Final = "errors.deadletterqueue.group.enable"
TOPIC_CONFIGS: Final = {ENABLED: "true", "message.timestamp.type": "CreateTime"}
"""The settings of a topic that is created for dead letters, as Kafka sets them."""

MAX_BATCH_BYTES: Final = 1024 * 1024
"""Maximum size of a batch in bytes, unless one letter is larger; the topic's max.message.bytes may be less."""

ATTEMPTS: Final = 5
BACKOFF_MS: Final = 1_000
MAX_BACKOFF_MS: Final = 30_000
"""Attempts to write a letter, and the time between two of them, which doubles: Kafka's, without its jitter."""

TIMEOUT_MS: Final = 30_000
"""Timeout of a Produce request to another node in ms, as Kafka's."""

RETRIED: Final = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NETWORK_EXCEPTION, ErrorCode.TOPIC_ALREADY_EXISTS}
)
"""Errors after which a letter is tried again. The last one means that the topic is being created just now."""

ShareKey = tuple[str, bytes, int]
Done = Callable[[Sequence[DeadLetters]], object]


class LetterSettings(Protocol):
    """The settings that say where dead letters go."""

    def dead_letter_topic(self, group_id: str) -> str:
        """Return the name of the topic for the group's dead letters; empty if it has none."""

    def copies_dead_records(self, group_id: str) -> bool:
        """Return whether dead letters have the key and the value of their record."""

    @property
    def dead_letter_prefix(self) -> str:
        """The prefix that names of topics for dead letters must have."""

    @property
    def creates_dead_letter_topics(self) -> bool:
        """True if topics for dead letters are created when they are needed."""


class Unwritable(Exception):
    """Why letters cannot be written."""

    def __init__(self, reason: str, error: ErrorCode = ErrorCode.NONE) -> None:
        super().__init__(reason)
        self.is_retried = error in RETRIED


class _Entry:
    """The letters of a range of records; those before `next_offset` are in the log."""

    __slots__ = ("attempts", "done", "key", "letters", "next_offset", "source", "topic")

    def __init__(self, key: ShareKey, topic: str, source: Partition, letters: DeadLetters, done: Done) -> None:
        self.key = key
        self.topic = topic
        self.source = source
        self.letters = letters
        self.done = done
        self.next_offset = letters.first
        self.attempts = 0


_Part = tuple[_Entry, int]
"""An entry in a batch, and the first of its offsets that is not."""


class DeadLetterQueue:
    """The dead letters of a node that are not durable yet."""

    def __init__(
        self,
        topics: Topics,
        settings: LetterSettings,
        timers: Timers,
        now_ms: Callable[[], int],
        call_soon: Callable[[Callable[[], object]], object],
        others: tuple[Nodes, Peers] | None = None,
    ) -> None:
        """`others`: None if there is no other node."""
        self._others = others
        self._topics = topics
        self._settings = settings
        self._timers = timers
        self._now_ms = now_ms
        self._call_soon = call_soon
        self._entries: dict[tuple[ShareKey, int, int], _Entry] = {}
        self._ready: deque[_Entry] = deque()
        self._is_due = False
        self._originals = Originals()
        self._lost: Counter[tuple[str, str]] = Counter()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, key: ShareKey, source: Partition, letters: Sequence[DeadLetters], done: Done) -> None:
        """Write letters of a share partition; `source` has their records. `done` is called, never before `add` returns,
        with those that are durable or cannot be written. Letters that wait already are not added twice: a share
        partition that has read its state again asks for them again.
        """
        topic = self._topics.topic_name(key[1]) or key[1].hex()
        for each in letters:
            known = self._entries.get((key, each.first, each.last))
            if known is not None:
                known.done = done
                continue
            entry = self._entries[key, each.first, each.last] = _Entry(key, topic, source, each, done)
            self._ready.append(entry)
        self._soon()

    def _soon(self) -> None:
        if self._ready and not self._is_due:
            self._is_due = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        """Write for as long as a turn of the event loop allows."""
        self._is_due = False
        budget = Budget()
        while self._ready and not self._topics.writer.failed:
            self._write(budget)
            if budget.is_spent():
                break
        else:
            self._originals.forget()
        self._log_lost()
        if not self._topics.writer.failed:  # otherwise the daemon stops, and the next start writes them
            self._soon()

    def _log_lost(self) -> None:
        for (group_id, reason), count in self._lost.items():
            log.error("dead letters cannot be written", group=group_id, reason=reason, letters=count)
        self._lost.clear()

    def _write(self, budget: Budget) -> None:
        """Write one batch: the letters of the first share partition in the queue."""
        first = self._ready[0]
        try:
            topic, index = self._place(first)
        except Unwritable as failure:
            self._failed([self._ready.popleft()], failure)
            return
        batch, parts = self._next_batch(first.key, topic, budget)
        for _ in parts:
            self._ready.popleft()
        records = batch.finish()
        if self._others is not None and not topic.partitions[index].is_here:
            self._send(*self._others, topic, index, records, parts)
        else:
            response, epoch = self._topics.producing.append_own(topic, index, records)
            self._ended(f"{topic.name}-{index}", parts, response, epoch)

    def _send(
        self, nodes: Nodes, peers: Peers, topic: Topic, index: int, records: bytearray, parts: list[_Part]
    ) -> None:
        """Send a batch to the node that leads its partition."""
        data = TopicProduceData("", topic.topic_id, [PartitionProduceData(index, bytes(records))])

        def answered(response: ProduceResponse | None) -> None:
            found = None if response is None else response.responses[0].partition_responses[0]
            self._ended(f"{topic.name}-{index}", parts, found)
            self._log_lost()
            self._soon()

        request = ProduceRequest(None, -1, TIMEOUT_MS, [data])
        peers.ask(nodes.worker_of(topic.name, index), OWN_VERSION, request, answered)

    def _ended(self, where: str, parts: list[_Part], response: PartitionProduceResponse | None, epoch: int = 0) -> None:
        """End a batch; `response` is None if the other node did not respond. Its letters are durable with the flush
        `epoch`.
        """
        error = ErrorCode.NETWORK_EXCEPTION if response is None else ErrorCode(response.error_code)
        if error:
            message = "" if response is None else response.error_message or ""
            self._failed([entry for entry, _ in parts], Unwritable(f"{where}: {error.name} {message}".rstrip(), error))
            return
        finished = []
        for entry, next_offset in parts:
            entry.next_offset = next_offset
            if next_offset > entry.letters.last:
                finished.append(entry)
            else:
                self._ready.appendleft(entry)
        self._topics.writer.hold(epoch, lambda: self._finish(finished))

    def _place(self, entry: _Entry) -> tuple[Topic, int]:
        """Return topic and partition for a letter (ProduceRequestHandler.validateDlqTopic). Raises Unwritable."""
        settings, name = self._settings, self._settings.dead_letter_topic(entry.key[0])
        if not name:
            raise Unwritable("the group names no topic for them any more")
        if name.startswith("__"):
            raise Unwritable(f"{name}: the name begins with __")
        if not name.startswith(settings.dead_letter_prefix):
            raise Unwritable(
                f"{name}: the name does not begin with {settings.dead_letter_prefix} "
                "(errors.deadletterqueue.topic.name.prefix)"
            )
        topic = self._topics.catalogue.by_name.get(name)
        if topic is None:
            topic = self._create(name)
        elif not topic.configs.value(ENABLED):
            raise Unwritable(f"{name}: the topic does not allow dead letters ({ENABLED})")
        return topic, entry.key[2] % len(topic.partitions)

    def _create(self, name: str) -> Topic:
        if not self._settings.creates_dead_letter_topics:
            raise Unwritable(
                f"{name}: there is no such topic (errors.deadletterqueue.auto.create.topics.enable is false)"
            )
        try:
            return self._topics.administration.create_now(name, TOPIC_CONFIGS)
        except Refusal as refusal:
            raise Unwritable(f"{name}: {refusal.message or refusal.error.name}", refusal.error) from None
        except (OSError, LogFailed) as error:
            raise Unwritable(f"{name}: {error}") from None

    def _next_batch(self, key: ShareKey, topic: Topic, budget: Budget) -> tuple[BatchBuilder, list[tuple[_Entry, int]]]:
        """Return a batch of letters of the first entries, all of one share partition; and of each entry in it the first
        offset that is not.
        """
        most = topic.configs.limits.max_message_bytes
        copies = self._settings.copies_dead_records(key[0])
        batch, parts, now_ms = BatchBuilder(), [], self._now_ms()
        for entry in self._ready:
            if entry.key != key:
                break
            offset, headers = entry.next_offset, LetterHeaders(entry.topic, key[2], key[0], entry.letters)
            while offset <= entry.letters.last and (not batch.count or batch.size < MAX_BATCH_BYTES):
                record = self._originals.find(entry.source, offset, most) if copies else None
                if not add_letter(batch, headers.of(offset), record, now_ms, most):
                    break
                offset += 1
                if budget.is_spent():
                    break
            if offset > entry.next_offset:
                parts.append((entry, offset))
            if offset <= entry.letters.last or budget.is_spent():
                break
        return batch, parts

    def _finish(self, entries: Sequence[_Entry]) -> None:
        by_done: dict[Done, list[DeadLetters]] = {}
        for entry in entries:
            del self._entries[entry.key, entry.letters.first, entry.letters.last]
            by_done.setdefault(entry.done, []).append(entry.letters)
        for done, letters in by_done.items():
            done(letters)

    def _failed(self, entries: list[_Entry], failure: Unwritable) -> None:
        """Try letters again later, or give them up."""
        again: list[_Entry] = []
        lost: list[_Entry] = []
        for entry in entries:
            entry.attempts += 1
            (again if failure.is_retried and entry.attempts < ATTEMPTS else lost).append(entry)
        if again:
            backoff_ms = min(BACKOFF_MS << max(entry.attempts for entry in again) - 1, MAX_BACKOFF_MS)
            self._timers.alarm(self._now_ms() + backoff_ms, lambda: self._again(again))
        for entry in lost:
            self._lost[entry.key[0], str(failure)] += entry.letters.last - entry.next_offset + 1
        self._finish(lost)

    def _again(self, entries: list[_Entry]) -> None:
        self._ready.extend(entries)
        self._soon()
