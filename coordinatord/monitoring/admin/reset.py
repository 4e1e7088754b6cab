"""Target offsets of a reset: the forms of Kafka's kafka-consumer-groups --reset-offsets, computed as Kafka does.

Source: Kafka 4.3, org.apache.kafka.tools.OffsetsUtils and consumer.group.ConsumerGroupCommand. Pure: offsets, bounds
and the present time are arguments.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

TopicPartition = tuple[str, int]
Offsets = Mapping[TopicPartition, int]

DURATION = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:[.,](\d{0,9}))?S)?)?", re.IGNORECASE
)
"""The format that java.time.Duration.parse accepts."""
DATETIME = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{1,2}:\d{1,2}:\d{1,2})(?:\.(\d{1,3}))?(Z|[+-]\d{2}(?::?\d{2})?)?")
"""Kafka's YYYY-MM-DDThh:mm:ss.sss, also without the fraction; without a zone it is UTC."""


class ResetError(Exception):
    """The requested reset is not possible; a sentence without its full stop."""


@dataclass(frozen=True, slots=True)
class Move:
    """One partition of a plan. `before` is None if nothing is committed; `why` is the reason why an offset was
    changed.
    """

    before: int | None
    after: int
    why: str = ""


def duration_ms(text: str) -> int:
    """Return `PnDTnHnMnS` in milliseconds. Raises ResetError."""
    match = DURATION.fullmatch(text.strip())
    if match is None or match[3] in ("T", "t") or all(match[group] is None for group in (2, 4, 5, 6)):
        raise ResetError(f"{text} is no duration: PnDTnHnMnS is wanted, like PT15M or P1DT12H")
    sign, days, _, hours, minutes, seconds, fraction = match.groups()
    total = int(days or 0) * 86_400_000 + int(hours or 0) * 3_600_000 + int(minutes or 0) * 60_000
    part = int((fraction or "").ljust(3, "0")[:3] or 0)
    total += int(seconds or 0) * 1000 + (-part if (seconds or "").startswith("-") else part)
    return -total if sign == "-" else total


def datetime_ms(text: str) -> int:
    """Return `YYYY-MM-DDThh:mm:ss.sss`, with `Z` or `+hh:mm` or in UTC, in epoch milliseconds. Raises ResetError."""
    match = DATETIME.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError
        zone = match[3] or "Z"
        at = datetime.strptime(match[1], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)
        offset = datetime.strptime("+0000" if zone == "Z" else zone.ljust(5, "0"), "%z").utcoffset()
    except ValueError:
        raise ResetError(f"{text} is no time: YYYY-MM-DDThh:mm:ss.sss is wanted, in UTC unless it has a zone") from None
    assert offset is not None
    # Java reads the fraction as a number of milliseconds: .5 is 5 ms.
    return round((at - offset).timestamp()) * 1000 + int(match[2] or 0)


def partitions_named(texts: Iterable[str]) -> tuple[list[TopicPartition], list[str]]:
    """Return the partitions (`orders:0,1`) and the whole topics that --topic names. Raises ResetError."""
    named: list[TopicPartition] = []
    topics: list[str] = []
    for text in texts:
        if ":" not in text:
            topics.append(text)
            continue
        topic, _, numbers = text.partition(":")
        parts = numbers.split(",")
        if not topic or not all(part.isascii() and part.isdigit() for part in parts):
            raise ResetError(f"--topic {text}: a topic, or a topic and its partitions (orders:0,1), is wanted")
        named += [(topic, int(part)) for part in parts]
    return named, topics


def plan_of(text: str, group: str, *, is_only_group: bool) -> dict[TopicPartition, int]:
    """Return the offsets for a group in a file: `topic,partition,offset`, or with the group in front. Raises
    ResetError.
    """
    found: dict[str, dict[TopicPartition, int]] = {}
    try:
        rows = [row for row in csv.reader(io.StringIO(text), strict=True) if row]
    except csv.Error as error:
        raise ResetError(f"the file is no CSV: {error}") from None
    width = len(rows[0]) if rows else 0
    if rows and (width not in (3, 4) or (width == 3 and not is_only_group)):
        raise ResetError(
            "line 1 of the file: topic,partition,offset is wanted" if is_only_group else
            "line 1 of the file: group,topic,partition,offset is wanted for several groups"
        )  # fmt: skip
    for number, row in enumerate(rows, 1):
        try:
            if len(row) != width or int(row[-1]) < 0:
                raise ValueError  # Kafka rejects a negative offset here, not in --to-offset
            of_group, topic = (group if width == 3 else row[0]), row[-3]
            found.setdefault(of_group, {})[topic, int(row[-2])] = int(row[-1])
        except ValueError:
            wanted = "topic,partition,offset" if width == 3 else "group,topic,partition,offset"
            raise ResetError(f"line {number} of the file: {wanted} is wanted") from None
    if group not in found:
        raise ResetError(f"the file has no offsets for group {group}")
    return found[group]


def groups_in(text: str) -> list[str]:
    """Return the groups of a file with lines of group,topic,partition,offset. Raises ResetError."""
    try:
        rows = [row for row in csv.reader(io.StringIO(text), strict=True) if row]
    except csv.Error as error:
        raise ResetError(f"the file is no CSV: {error}") from None
    if not rows or any(len(row) != 4 for row in rows):
        raise ResetError("lines of group,topic,partition,offset are wanted in the file")
    return list(dict.fromkeys(row[0] for row in rows))


def clamped(wanted: Offsets, starts: Offsets, ends: Offsets, before: Offsets) -> dict[TopicPartition, Move]:
    """Return the moves to the offsets, limited to their partitions' bounds."""
    moves: dict[TopicPartition, Move] = {}
    for each, offset in wanted.items():
        if offset > ends[each]:
            moves[each] = Move(before.get(each), ends[each], f"{offset} is beyond the end")
        elif offset < starts[each]:
            moves[each] = Move(before.get(each), starts[each], f"{offset} is before the beginning")
        else:
            moves[each] = Move(before.get(each), offset)
    return moves


def shifted(partitions: Collection[TopicPartition], by: int, before: Offsets) -> dict[TopicPartition, int]:
    """Return the target offsets of --shift-by. Raises ResetError if nothing is committed for one of the partitions."""
    missing = sorted(each for each in partitions if each not in before)
    if missing:
        topic, number = missing[0]
        raise ResetError(
            f"--shift-by: the group has committed nothing for {topic}-{number}, so there is nothing to shift"
        )
    return {each: before[each] + by for each in partitions}


def at_time(found: Mapping[TopicPartition, int], ends: Offsets, before: Offsets) -> dict[TopicPartition, Move]:
    """Return the moves to the offsets of a time; to the end where no record is that late."""
    return {
        each: Move(before.get(each), ends[each], "no record is that late: the end")
        if offset < 0
        else Move(before.get(each), offset)
        for each, offset in found.items()
    }


def current(partitions: Collection[TopicPartition], before: Offsets, ends: Offsets) -> dict[TopicPartition, Move]:
    """Return the moves to the committed offsets; to the end where nothing is committed."""
    return {
        each: Move(before[each], before[each])
        if each in before
        else Move(None, ends[each], "nothing was committed: the end")
        for each in partitions
    }


def to_csv(offsets: Mapping[str, Offsets], *, with_group: bool) -> str:
    """Return the offsets in the format of --from-file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for group, of_group in sorted(offsets.items()):
        for (topic, number), offset in sorted(of_group.items()):
            writer.writerow([*([group] if with_group else []), topic, number, offset])
    return text.getvalue()
