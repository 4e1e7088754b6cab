"""The log as a coordinator sees it: one object, whatever keeps the records.

A coordinator appends what its steps have decided, holds its answers until that is durable, and reads all of it back
when it loads a partition. That is all it knows of a store. The one over the topics' own logs is topics/topic_log.py.

What a store promises:

- *Epochs rise.* `append` returns the epoch with which its records become durable. No later append returns a smaller
  one, to whichever partition and whichever of the store's logs: all of them have one gate.
- *Nothing is lost in between.* Once `flushed_epoch` has reached an epoch, all that was appended with it or before
  survives whatever the store is there to survive. A partition's records keep the order in which they were appended, and
  those of one append are read together or not at all.
- *Appending is done at once.* It neither waits nor calls anybody back: it is called in the middle of a step.
- *Who holds is called in order*: on the event loop's thread, the earlier epoch first, and for one epoch who has asked
  first; at once where it is durable already. `flushed_epoch` says so by then.
- *Fail-stop.* The first write that fails is the end: no epoch becomes durable any more, each hold gets its `failed`
  and never its `callback`, and appending raises LogFailed. What was decided and not logged is in memory alone, so
  nobody may be told of it; whoever comes next reads what is there.
- *Reading* gives what was durable when it began, as record batches of Kafka's format, whose CRCs have been checked;
  LogDamaged where the store cannot. What is appended meanwhile is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from coordinatord.log.loader import ReplayedBatch
from kafka_wire.records.batch import Records

Producer = tuple[int, int]
"""A producer's id and epoch."""


class Gate(Protocol):
    """What is durable, and who waits for what is not."""

    flushed_epoch: int

    def hold(self, epoch: int, callback: Callable[[], object], failed: Callable[[], object] | None = None) -> None: ...


class Log(Protocol):
    """A coordinators' topic: see the module."""

    @property
    def topic(self) -> str:
        """Its name."""

    @property
    def gate(self) -> Gate:
        """Of all logs of the store."""

    def append(self, partition: int, records: Records, now_ms: int, producer: Producer | None = None) -> int:
        """The epoch that makes the records durable; they are part of `producer`'s transaction if there is one. Who
        appends has checked that the producer may.
        """

    def size_bytes(self, partition: int) -> int:
        """How much there is to read."""

    def read(self, partition: int) -> Iterator[ReplayedBatch]:
        """All batches, in order, transactions' and their markers among them. Each says how many bytes have been read
        with it.
        """
