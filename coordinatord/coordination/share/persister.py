"""The interface to the durable state of share partitions, as Kafka's `Persister` (KIP-932).

A share partition is a topic partition that a share group reads: (group id, topic id, partition). The group coordinator
initialises and deletes its state and reads its summary; the leader of the topic partition reads and writes it. The
share coordinator stores it in `__share_group_state`.

Each method takes a group and some of its partitions, and calls `done` exactly once with a result for each of them, in
their order. `done` is called on the event loop's thread, never before the method returns: when everything that the
results show is durable, or when the log has failed (COORDINATOR_NOT_AVAILABLE for all). A result with an `error` has
changed nothing; other partitions of the same call may have succeeded.

| error                       | cause                                                                                  |
|-----------------------------|----------------------------------------------------------------------------------------|
| FENCED_STATE_EPOCH          | the state epoch is lower than the stored one: the group was reset or deleted meanwhile |
| FENCED_LEADER_EPOCH         | the leader epoch is lower than the stored one: another leader reads the partition now  |
| INVALID_REQUEST             | never initialised (read, write); a negative partition or epoch; an invalid batch       |
| UNKNOWN_TOPIC_OR_PARTITION  | there is no such topic, or it has no such partition                                    |
| COORDINATOR_*, NOT_COORDINATOR, POLICY_VIOLATION | the state cannot be used now, or there is no room for more        |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from kafka_wire.errors import ErrorCode

UNINITIALIZED_START_OFFSET: Final = -1
"""The start offset of a share partition whose `share.auto.offset.reset` has not been applied yet."""

UNINITIALIZED_DELIVERY_COMPLETE_COUNT: Final = -1

AVAILABLE: Final = 0
ACKNOWLEDGED: Final = 2
ARCHIVED: Final = 4

TopicIdPartition = tuple[bytes, int]
"""A topic's id (16 bytes) and a partition."""


class StateBatch(NamedTuple):
    """Consecutive offsets with the same delivery state (AVAILABLE, ACKNOWLEDGED or ARCHIVED) and delivery count."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


class InitializePartition(NamedTuple):
    """A share partition to initialise; state of it with the same or a lower state epoch is replaced."""

    topic_id: bytes
    partition: int
    state_epoch: int
    start_offset: int = UNINITIALIZED_START_OFFSET


class ReadPartition(NamedTuple):
    """A share partition to read. A `leader_epoch` above the stored one is stored: it fences earlier leaders."""

    topic_id: bytes
    partition: int
    leader_epoch: int


class WritePartition(NamedTuple):
    """A change of a share partition; `state_batches` has the changed batches only. A `start_offset` above the stored
    one drops all batches before it; with a lower one, such as -1, the stored start offset and delivery complete count
    stay.
    """

    topic_id: bytes
    partition: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    state_batches: Sequence[StateBatch]


class PartitionError(NamedTuple):
    """The result for a partition that was initialised, written or deleted; NONE and None if that succeeded."""

    topic_id: bytes
    partition: int
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class PartitionState(NamedTuple):
    """The state of a share partition; `state_batches` is sorted and does not overlap."""

    topic_id: bytes
    partition: int
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    state_epoch: int = 0
    start_offset: int = UNINITIALIZED_START_OFFSET
    state_batches: Sequence[StateBatch] = ()


class PartitionSummary(NamedTuple):
    """The state of a share partition without its batches. A partition that was never initialised has the defaults and
    no error.
    """

    topic_id: bytes
    partition: int
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = UNINITIALIZED_START_OFFSET
    delivery_complete_count: int = UNINITIALIZED_DELIVERY_COMPLETE_COUNT


ErrorsDone = Callable[[list[PartitionError]], object]
StatesDone = Callable[[list[PartitionState]], object]
SummariesDone = Callable[[list[PartitionSummary]], object]


class Persister(Protocol):
    """The store of share partitions' state; the module's docstring has the rules of `done`."""

    def initialize(self, group_id: str, partitions: Sequence[InitializePartition], done: ErrorsDone) -> None:
        """Create or reset the state of share partitions."""

    def read(self, group_id: str, partitions: Sequence[ReadPartition], done: StatesDone) -> None:
        """Read the state of share partitions for their leader."""

    def write(self, group_id: str, partitions: Sequence[WritePartition], done: ErrorsDone) -> None:
        """Write changes of share partitions."""

    def delete(self, group_id: str, partitions: Sequence[TopicIdPartition], done: ErrorsDone) -> None:
        """Delete the state of share partitions; none of them need exist."""

    def read_summary(self, group_id: str, partitions: Sequence[TopicIdPartition], done: SummariesDone) -> None:
        """Read the start offsets and epochs of share partitions."""
