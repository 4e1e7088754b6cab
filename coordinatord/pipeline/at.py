"""`coordinatord pipeline at`: what a group had committed and who read what at a moment, the difference of two moments,
and what resets the group to one of them.

It reads what `coordinatord pipeline run` has kept. A log that was compacted before the first run has lost commits: of a
partition whose first commit that is known is later than the moment, nothing is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from coordinatord.pipeline.analysis.generations import Generation, TopicPartition, generation_of
from coordinatord.pipeline.segments import SourceError
from coordinatord.pipeline.tables.inputs import Inputs, Options
from coordinatord.pipeline.tables.rebalances import generations

_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2})?")


@dataclass(frozen=True, slots=True)
class Offset:
    """A committed offset and when it was committed (epoch ms)."""

    offset: int
    committed_ms: int


@dataclass(slots=True)
class Moment:
    """Of a group. `generation` is None where none is known, and for groups of other protocols."""

    at_ms: int
    offsets: dict[TopicPartition, Offset] = field(default_factory=dict)
    generation: Generation | None = None

    def owner(self, partition: TopicPartition) -> str:
        """Client id and host of who was assigned a partition; empty for nobody."""
        for member in self.generation.members.values() if self.generation is not None else ():
            if partition in member.assigned:
                return f"{member.instance or member.client_id} on {member.host.removeprefix('/')}"
        return ""


def parse_time(text: str, now_ms: int) -> int:
    """`03:12` is the last time that it was so late (UTC); else ISO 8601, UTC unless it says otherwise, or epoch ms."""
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    try:
        if re.fullmatch(r"\d{11,}", text):
            return int(text)
        if _CLOCK.fullmatch(text):
            then = datetime.combine(now.date(), time.fromisoformat(text.zfill(5 if len(text) < 6 else 8)), UTC)
            return round((then if then <= now else then - timedelta(days=1)).timestamp() * 1000)
        then = datetime.fromisoformat(text)
    except ValueError:
        raise SourceError(f"{text} is no time: 03:12, 2026-11-21T03:12 (UTC) or milliseconds since 1970 are") from None
    return round((then if then.tzinfo is not None else then.replace(tzinfo=UTC)).timestamp() * 1000)


def moment(spark: SparkSession, out: Path, group: str, at_ms: int) -> Moment:
    """The group's state at a moment, of what runs have kept in `out`. SourceError when they never heard of it."""
    if not (out / "facts").exists():
        raise SourceError(f"{out} has no facts: run `coordinatord pipeline run --out {out}` first")
    inputs = Inputs(spark, out, {}, now_ms=at_ms, options=Options())
    is_group = F.col("group_id") == group
    made = F.coalesce("commit_timestamp_ms", "timestamp_ms")
    commits = inputs.commits.where(is_group).select("topic", "partition", "committed_offset", "at", made.alias("ms"))
    log = generations(inputs).where(is_group)
    found = Moment(at_ms, generation=_generation(log, at_ms))
    last = (
        commits.where(F.col("ms") <= at_ms)
        .groupBy("topic", "partition")
        .agg(F.max_by(F.struct("committed_offset", "ms"), "at").alias("last"))
    )
    for row in last.collect():
        if row["last"]["committed_offset"] is not None:
            found.offsets[row["topic"], row["partition"]] = Offset(row["last"]["committed_offset"], row["last"]["ms"])
    if not found.offsets and found.generation is None and not commits.limit(1).count() and not log.limit(1).count():
        raise SourceError(f"nothing is known of a group {group} in {out}")
    return found


def _generation(log: DataFrame, at_ms: int) -> Generation | None:
    rows = log.where(F.col("timestamp_ms") <= at_ms).orderBy(F.col("log_offset").desc()).limit(1).collect()
    return generation_of(rows[0].asDict(recursive=True)) if rows else None


def tell(group: str, it: Moment) -> Iterator[str]:
    """In lines."""
    yield f"Group {group} at {clock(it.at_ms)}"
    if it.generation is not None:
        count = len(it.generation.members)
        members = f"{count} member{'' if count == 1 else 's'}"
        yield f"  generation {it.generation.number}, {members}, {it.generation.protocol or 'nothing assigned'}"
    yield f"  {'TOPIC':<30} {'PARTITION':>9} {'OFFSET':>15}  COMMITTED                 MEMBER"
    for partition, each in sorted(it.offsets.items()):
        where = f"{partition[0]:<30} {partition[1]:>9} {each.offset:>15}"
        yield f"  {where}  {clock(each.committed_ms):<24}  {it.owner(partition)}".rstrip()
    if not it.offsets:
        yield "  no committed offsets are known of that moment"


def compare(one: Moment, other: Moment) -> Iterator[str]:
    """What is otherwise at the other moment."""
    yield f"From {clock(one.at_ms)} to {clock(other.at_ms)}"
    same = 0
    for partition in sorted(one.offsets.keys() | other.offsets.keys()):
        before, after = one.offsets.get(partition), other.offsets.get(partition)
        moved = one.owner(partition) != other.owner(partition)
        if before is not None and after is not None and before.offset == after.offset and not moved:
            same += 1
            continue
        offsets = f"{'-' if before is None else before.offset} -> {'-' if after is None else after.offset}"
        step = f" ({after.offset - before.offset:+d})" if before is not None and after is not None else ""
        owners = f"  {one.owner(partition) or 'nobody'} -> {other.owner(partition) or 'nobody'}" if moved else ""
        yield f"  {partition[0]:<30} {partition[1]:>9}  {offsets}{step}{owners}"
    if same:
        yield f"  {same} partition{'' if same == 1 else 's'} unchanged"


def csv_lines(it: Moment) -> Iterator[str]:
    """What --reset-offsets --from-file of Kafka's kafka-consumer-groups reads: topic,partition,offset."""
    for (topic, partition), each in sorted(it.offsets.items()):
        yield f"{topic},{partition},{each.offset}"


def clock(at_ms: int) -> str:
    """2026-11-21 03:12:00.123Z"""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"
