"""The log as a coordinator sees it: one object, whatever stores the records.

A coordinator appends the records of its steps, holds its responses until these are durable, and reads all records of a
partition back when it loads it. It knows nothing else of a store. coordination/runtime/topic_log.py is the store over
the topics' own logs.

What a store promises:

- *Epochs rise.* `append` returns the epoch with which its records become durable. No later append returns a smaller
  one, for any partition and any coordinator's log: all of them have one gate. (What clients produce has that gate, too,
  but may get a later epoch: broker/log/commit_batching.py.)
- *Nothing is lost in between.* Once `flushed_epoch` has reached an epoch, everything appended in that epoch or earlier
  survives whatever the store is designed to survive. A partition's records keep the order in which they were appended,
  and the records of one append are read together or not at all.
- *Appending is immediate.* It neither waits nor calls back: it is called in the middle of a step.
- *Holds are called back in order*: on the event loop's thread, by epoch, and within one epoch in the order of the
  calls; at once if the epoch is durable already. `flushed_epoch` has its new value by then.
- *Fail-stop.* After the first failed write no epoch becomes durable any more: each hold gets its `failed`, never its
  `callback`, and appending raises LogFailed. Decisions that were not logged are in memory only, so no client may be
  told of them; the next start reads what is durable.
- *Reading* returns what was durable when it began, as record batches in Kafka's format with checked CRCs; it raises
  LogDamaged if it cannot. Records appended meanwhile are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from coordinatord.broker.log.loader import ReplayedBatch
from kafka_wire.records.batch import Records

Producer = tuple[int, int]
"""A producer's id and epoch."""


class Gate(Protocol):
    """Which epochs are durable, and callbacks that wait for the others."""

    @property
    def flushed_epoch(self) -> int:
        """This epoch and all before it are durable."""

    def has_flushed(self, epoch: int) -> bool:
        """Whether `epoch` is durable. A store that can write at once may do so now, and call those who read there: not
        to be asked in the middle of a step.
        """

    def hold(self, epoch: int, callback: Callable[[], object], failed: Callable[[], object] | None = None) -> None: ...


class Log(Protocol):
    """The topic of a coordinator: see the module."""

    @property
    def topic(self) -> str:
        """The topic's name."""

    @property
    def gate(self) -> Gate:
        """The gate of all logs of the store."""

    def append(self, partition: int, records: Records, now_ms: int, producer: Producer | None = None) -> int:
        """Returns the epoch that makes the records durable. With a `producer` they are part of its transaction; the
        caller has checked that the producer may write.
        """

    def forget(self, partition: int) -> None:
        """Another node has the partition now, or this one has it again."""

    def size_bytes(self, partition: int) -> int:
        """The number of bytes to read."""

    def read(self, partition: int) -> Iterator[ReplayedBatch]:
        """All batches in order, including those of transactions and their markers. Each has the number of bytes read
        so far.
        """
