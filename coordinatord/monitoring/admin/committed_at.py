"""The committed offsets of a group at a given time, from the offsets log: the target of `reset-offsets --to-moment`.

A log that was compacted since has lost earlier commits: a partition whose first known commit is later is missing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from coordinatord.monitoring.admin.connection import AdminError
from coordinatord.monitoring.offsets_log.decode.row_types import OFFSET_COMMITS, TRANSACTION_MARKERS
from coordinatord.monitoring.offsets_log.lag.fold import Fold
from coordinatord.monitoring.offsets_log.lag.known import Written
from coordinatord.monitoring.offsets_log.lag.parallel_fold import chunks
from coordinatord.monitoring.offsets_log.source.logs import begins, read_part, tail_of
from coordinatord.monitoring.offsets_log.source.options import read_options
from coordinatord.monitoring.offsets_log.source.segments import OFFSETS_TOPIC, SourceError
from coordinatord.transport.cluster.partitioner import partition_for

TopicPartition = tuple[str, int]


class FoldUntil(Fold):
    """Fold of all changes that had effect until a given time. A later deletion or expiry changes nothing."""

    def __init__(self, until_ms: int) -> None:
        super().__init__(1)
        self.until_ms = until_ms

    def _is_plain(self, commits: Sequence[Any]) -> bool:
        return False

    def _write(self, written: Written, effective_ms: int) -> None:
        if effective_ms <= self.until_ms:
            super()._write(written, effective_ms)


def committed_at(
    group: str, at_ms: int, *, bootstrap: str | None, broker: Mapping[str, str], sources: Sequence[str], partitions: int
) -> dict[TopicPartition, int]:
    """Return the group's committed offsets at a time (epoch ms), from the log in directories or of a broker, whose
    offsets topic has `partitions` partitions. Raises AdminError if the log has no commit until then or is unreadable.
    """
    options = {"kinds": f"{OFFSET_COMMITS},{TRANSACTION_MARKERS}", "groups": json.dumps([group])}
    if sources:
        options["paths"] = json.dumps(list(sources))
    else:
        assert bootstrap is not None
        options |= {"bootstrap": bootstrap, "partitions": str(partition_for(group, partitions))}
        options |= {f"kafka.{name}": value for name, value in broker.items()}
    fold = FoldUntil(at_ms)
    try:
        asked = read_options(options)
        tail = tail_of(asked)
        for part in tail.plan(begins(tail), tail.ends()):
            for chunk in chunks(read_part(part, asked.wanted)):
                fold.take(chunk)
    except SourceError as error:
        raise AdminError(str(error).rstrip(".")) from None
    found = {
        (topic, number): trail.last.offset
        for (name, topic, number), trail in fold.trails.items()
        if name == group and trail.last is not None
    }
    if not found:
        raise AdminError(
            f"{OFFSETS_TOPIC} has no commit of group {group} until then: it began later, or the log was compacted since"
        )
    return found
