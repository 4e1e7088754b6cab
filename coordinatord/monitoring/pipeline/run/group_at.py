"""`coordinatord pipeline at`: a group's committed offsets and its partitions' owners at a moment, the difference of two
moments, and a file that resets the group to one of them.

The command reads the data that `coordinatord pipeline run` stores. A log that was compacted before the first run has
lost commits: a partition whose first known commit is later than the moment is omitted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from coordinatord.monitoring.analysis.consumer_group import METADATA, ConsumerGroup
from coordinatord.monitoring.analysis.generations import Generation, TopicPartition, generation_of
from coordinatord.monitoring.offsets_log.decode.row_types import GROUP_GENERATIONS
from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.offsets_log.source.timestamps import parse_time as parse_time  # of this module's callers
from coordinatord.monitoring.pipeline.run.state import read_state
from coordinatord.monitoring.pipeline.tables.group_log import GENERATION_COLUMNS, consumer_texts
from coordinatord.monitoring.pipeline.tables.inputs import Inputs, TableOptions


@dataclass(frozen=True, slots=True)
class Offset:
    """A committed offset and the time of its commit (epoch ms)."""

    offset: int
    committed_ms: int


@dataclass(slots=True)
class Moment:
    """A group at a moment. `generation` is None if unknown, and for share and streams groups. For a group of the
    consumer protocol it is a group epoch, with the members' partitions at that moment, and `reached` counts the members
    that had their whole target assignment (None for a classic group).
    """

    at_ms: int
    offsets: dict[TopicPartition, Offset] = field(default_factory=dict)
    generation: Generation | None = None
    reached: int | None = None

    @property
    def assigned(self) -> set[TopicPartition]:
        """All partitions that a member had."""
        members = () if self.generation is None else self.generation.members.values()
        return {partition for member in members for partition in member.assigned}

    def owner(self, partition: TopicPartition) -> str:
        """Return client id and host of a partition's owner; empty if it has none."""
        for member in self.generation.members.values() if self.generation is not None else ():
            if partition in member.assigned:
                return f"{member.instance or member.client_id} on {member.host.removeprefix('/')}"
        return ""


def check_facts(out: Path) -> None:
    """Raise SourceError if no run has stored anything, or only a run of another version."""
    read_state(out)
    if not (out / "facts").is_dir():
        raise SourceError(f"{out} has no facts: run `coordinatord pipeline run --out {out}` first")


def moment(spark: SparkSession, out: Path, group: str, at_ms: int) -> Moment:
    """Return the group's state at a moment, from the data that runs have stored in `out`. Raises SourceError for an
    unknown group.
    """
    check_facts(out)
    inputs = Inputs(spark, out, {}, now_ms=at_ms, options=TableOptions())
    is_group = F.col("group_id") == group
    commits = inputs.commits.where(is_group).select(
        "topic", "partition", "committed_offset", "log_offset", F.col("effective_ms").alias("ms")
    )
    log = inputs.facts(GROUP_GENERATIONS).where(is_group).select("log_offset", *GENERATION_COLUMNS)
    found = Moment(at_ms)
    is_known = _who_had_what(inputs, found, log, group)
    last = (
        commits.where(F.col("ms") <= at_ms)
        .groupBy("topic", "partition")
        .agg(F.max_by(F.struct("committed_offset", "ms"), "log_offset").alias("last"))
    )
    for row in last.collect():
        if row["last"]["committed_offset"] is not None:
            found.offsets[row["topic"], row["partition"]] = Offset(row["last"]["committed_offset"], row["last"]["ms"])
    if not is_known and not commits.limit(1).count():
        raise SourceError(f"nothing is known of a group {group} in {out}")
    return found


def _who_had_what(inputs: Inputs, found: Moment, log: DataFrame, group: str) -> bool:
    """Find the moment's generation or group epoch, whichever was written last. Return whether the log has any
    generation or group epoch of the group.
    """
    rows = log.where(F.col("timestamp_ms") <= found.at_ms).orderBy(F.col("log_offset").desc()).limit(1).collect()
    at = rows[0]["log_offset"] if rows else -1
    if rows:
        found.generation = generation_of(rows[0].asDict(recursive=True))
    texts: list[tuple[int, str, str]] = []
    for kind, frame in consumer_texts(inputs, f"timestamp_ms <= {found.at_ms}").items():
        texts += [(row["log_offset"], kind, row["text"]) for row in frame.where(F.col("group_id") == group).collect()]
    if texts and max(texts)[0] > at:
        consumers = ConsumerGroup(inputs.topic_names)
        for _offset, kind, text in sorted(texts):
            consumers.apply(kind, json.loads(text))
        found.generation, found.reached = consumers.as_generation(), consumers.reached
    epochs = inputs.facts(METADATA).where(F.col("group_id") == group)
    return bool(rows or texts or log.limit(1).count() or epochs.limit(1).count())


def tell(group: str, then: Moment) -> Iterator[str]:
    """Return the moment as lines of text."""
    yield f"Group {group} at {clock(then.at_ms)}"
    if then.generation is not None:
        count = len(then.generation.members)
        members = f"{count} member{'' if count == 1 else 's'}"
        if then.reached is None:
            yield f"  generation {then.generation.number}, {members}, {then.generation.protocol or 'nothing assigned'}"
        else:
            reached = "all reconciled" if then.reached == count else f"{then.reached} of them reconciled"
            yield f"  epoch {then.generation.number}, {members}, {reached}"
    yield f"  {'TOPIC':<30} {'PARTITION':>9} {'OFFSET':>15}  COMMITTED                 MEMBER"
    for partition, each in sorted(then.offsets.items()):
        where = f"{partition[0]:<30} {partition[1]:>9} {each.offset:>15}"
        yield f"  {where}  {clock(each.committed_ms):<24}  {then.owner(partition)}".rstrip()
    for partition in sorted(then.assigned - then.offsets.keys()):
        where = f"{partition[0]:<30} {partition[1]:>9} {'-':>15}"
        yield f"  {where}  {'':<24}  {then.owner(partition)}"
    if not then.offsets:
        yield "  no committed offsets are known of that moment"


def compare(one: Moment, other: Moment) -> Iterator[str]:
    """Return the differences of the other moment as lines of text."""
    yield f"From {clock(one.at_ms)} to {clock(other.at_ms)}"
    same = 0
    for partition in sorted(one.offsets.keys() | other.offsets.keys() | one.assigned | other.assigned):
        before, after = one.offsets.get(partition), other.offsets.get(partition)
        moved = one.owner(partition) != other.owner(partition)
        if (before and before.offset) == (after and after.offset) and not moved:
            same += 1
            continue
        offsets = f"{'-' if before is None else before.offset} -> {'-' if after is None else after.offset}"
        step = f" ({after.offset - before.offset:+d})" if before is not None and after is not None else ""
        owners = f"  {one.owner(partition) or 'no owner'} -> {other.owner(partition) or 'no owner'}" if moved else ""
        yield f"  {partition[0]:<30} {partition[1]:>9}  {offsets}{step}{owners}"
    if same:
        yield f"  {same} partition{'' if same == 1 else 's'} unchanged"


def csv_lines(then: Moment) -> Iterator[str]:
    """Return lines in the format of kafka-consumer-groups --reset-offsets --from-file: topic,partition,offset."""
    for (topic, partition), each in sorted(then.offsets.items()):
        yield f"{topic},{partition},{each.offset}"


def clock(at_ms: int) -> str:
    """Return a time as 2026-11-21 03:12:00.123Z; as a number beyond the calendar, which a log may contain."""
    try:
        return _clock(at_ms)
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"
