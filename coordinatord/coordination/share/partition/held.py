"""The records of a share partition that members have acquired."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from coordinatord.coordination.share.partition.state import RecordState, SharePartition


class Held(NamedTuple):
    """The offsets `first` to `last`, acquired by a member until `deadline_ms`."""

    first: int
    last: int
    member_id: str
    delivery_count: int
    deadline_ms: int


def held(partition: SharePartition) -> Iterator[Held]:
    """Return what members have acquired, by offset. An acknowledgement that is not persisted yet has ended that."""
    for batch in partition.batches:
        run: Held | None = None
        for first, last, record in batch.states():
            if record.state is not RecordState.ACQUIRED or record.before is not None or record.deadline_ms is None:
                now = None
            else:
                now = Held(first, last, record.member_id, record.delivery_count, record.deadline_ms)
            if run is not None and now is not None and run[2:] == now[2:]:
                run = run._replace(last=last)
                continue
            if run is not None:
                yield run
            run = now
        if run is not None:
            yield run
