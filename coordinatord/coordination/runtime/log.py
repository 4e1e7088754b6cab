"""The interface of a coordinator's log, independent of the store of the records.

A coordinator appends the records of its steps, holds its responses until the records are durable, and reads all records
of a partition back when it loads the partition. The coordinator uses no other feature of a store.
coordination/runtime/topic_log.py is the store over the topics' own logs.

Guarantees of a store:

- *Flush epochs never decrease.* `append` returns the flush epoch with which its records become durable. No later append
  returns a smaller one, for any partition and any coordinator's log: all logs share one gate. (Records that clients
  produce use this gate, too, but may get a later flush epoch: broker/log/commit_batching.py.)
- *Durability is complete up to an epoch.* Once `flushed_epoch` has reached a flush epoch, all records appended in that
  epoch or earlier survive every failure that the store is designed to survive. A partition's records keep the order in
  which they were appended, and a read returns either all records of one append or none.
- *Appending is immediate.* `append` neither waits nor calls back: a step's result is applied while it runs.
- *Callbacks of `hold` run in order*: on the event loop's thread, by flush epoch, and within one flush epoch in the
  order of the calls; at once if the epoch is durable already. `flushed_epoch` has its new value by then.
- *Fail-stop.* After the first failed write no flush epoch becomes durable any more: each `hold` gets its `failed`,
  never its `callback`, and `append` raises LogFailed. Decisions that were not logged are in memory only, so no client
  may receive a response that shows them; the next start reads the durable records.
- *Reading* returns the records that were durable when the read began, as record batches in Kafka's format with checked
  CRCs; a read raises LogDamaged if it cannot. Records appended meanwhile are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from coordinatord.broker.log.loader import ReplayedBatch
from kafka_wire.records.batch import Records

Producer = tuple[int, int]
"""A producer's id and epoch."""


class Gate(Protocol):
    """The durable flush epoch of the logs, and callbacks that wait for later flush epochs."""

    @property
    def flushed_epoch(self) -> int:
        """The last durable flush epoch: all before it are durable, too."""

    def has_flushed(self, epoch: int) -> bool:
        """Return whether the flush epoch `epoch` is durable. A store that can write at once may do so during the call,
        and call the readers of the log: do not call this while a step runs.
        """

    def hold(
        self,
        epoch: int,
        callback: Callable[[], object],
        failed: Callable[[], object] | None = None,
        is_patient: bool = False,
    ) -> None: ...


class Log(Protocol):
    """The topic of a coordinator; the module's docstring states the guarantees."""

    @property
    def topic(self) -> str:
        """The topic's name."""

    @property
    def gate(self) -> Gate:
        """The gate of all logs of the store."""

    def append(self, partition: int, records: Records, now_ms: int, producer: Producer | None = None) -> int:
        """Append records; return the flush epoch that makes them durable. With a `producer` the records are part of its
        transaction; the caller has checked that the producer may write.
        """

    def end_offset(self, partition: int) -> int:
        """Return the offset that the partition's next record will get."""

    def delete_before(self, partition: int, offset: int) -> int:
        """Delete the partition's records before `offset`, up to the durable ones; return the flush epoch that makes
        this durable.
        """

    def forget(self, partition: int) -> None:
        """Drop the cached log of a partition: another node serves the partition now, or this node serves it again."""

    def size_bytes(self, partition: int) -> int:
        """Return the number of bytes to read."""

    def read(self, partition: int) -> Iterator[ReplayedBatch]:
        """Read all batches in order, including those of transactions and their markers. Each batch has the number of
        bytes read so far.
        """
