"""What is not wanted is not decoded: counted at the two places where values are, and at the opening of files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coordinatord.monitoring.offsets_log.decode import chunk, compiling, kernels, plain
from coordinatord.monitoring.offsets_log.decode.chunk import decode
from coordinatord.monitoring.offsets_log.decode.projection import Names, Wanted
from coordinatord.monitoring.offsets_log.source import ranges
from coordinatord.monitoring.offsets_log.source.segments import find_logs
from kafka_wire.records.batch import build_batch
from kafka_wire.records.offsets import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from tests.monitoring.pipeline.directories import commit_batch, write_segment
from tests.monitoring.pipeline.logs import START_MS, encoded

GROUPS, TOPICS, TURNS = 5, 4, 30


def log() -> bytes:
    """In each turn every group commits for every topic, and has a generation."""
    batches, offset = b"", 0
    for turn in range(TURNS):
        for group in range(GROUPS):
            records = [
                encoded(1, 4, OffsetCommitKey(f"g{group}", f"t{topic}", 0), OffsetCommitValue(turn))
                for topic in range(TOPICS)
            ]
            records.append(
                encoded(2, 4, GroupMetadataKey(f"g{group}"), GroupMetadataValue("consumer", turn, "", "", 1))
            )
            batches += build_batch(records, START_MS, offset)
            offset += len(records)
    return batches


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Values that are decoded: of commits by the kernel, of the others one by one."""
    counts: Counter[str] = Counter()
    compiling.compile_loops()  # which would replace the counting function
    run_programs, decode_value = kernels.run_programs, plain.decode_value

    def count_commits(buf: Any, at: Any, end: Any, versions: Any, code: Any, *rest: Any) -> None:
        counts["values" if code is chunk.VALUE.code else "keys"] += int((at >= 0).sum())
        run_programs(buf, at, end, versions, code, *rest)

    def count_others(record_type: int, value: bytes) -> Any:
        counts["values" if record_type < 2 else "others"] += 1
        return decode_value(record_type, value)

    monkeypatch.setattr(kernels, "run_programs", count_commits)
    monkeypatch.setattr(plain, "decode_value", count_others)
    return counts


COMMITS = frozenset({"offset_commits"})


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(
    ("wanted", "values", "others"),
    [
        (Wanted(), GROUPS * TOPICS * TURNS, GROUPS * TURNS),
        (Wanted(COMMITS), GROUPS * TOPICS * TURNS, 0),
        (Wanted(frozenset({"group_generations"})), 0, GROUPS * TURNS),
        (Wanted(frozenset({"transaction_markers"})), 0, 0),
        (Wanted(COMMITS, groups=(Names(["g3"]),)), TOPICS * TURNS, 0),
        (Wanted(groups=(Names(["g3", "g4"]),)), 2 * TOPICS * TURNS, 2 * TURNS),
        (Wanted(COMMITS, topics=(Names(["t*"]), Names(["t1"]))), GROUPS * TURNS, 0),
        (Wanted(COMMITS, groups=(Names(["nobody"]),)), 0, 0),
        (Wanted(COMMITS, first_offset=0, next_offset=TOPICS + 1), TOPICS, 0),
    ],
)
def test_values(counted: Counter[str], compiled: bool, wanted: Wanted, values: int, others: int) -> None:
    data = np.frombuffer(bytearray(log()), np.uint8)
    decoded = decode(data, 0, len(data), 0, wanted, compiled=compiled)
    assert (counted["values"], counted["others"]) == (values, others)
    rows = Counter({kind: sum(batch.num_rows for batch in batches) for kind, batches in decoded.tables.items()})
    assert (rows["offset_commits"], rows["group_generations"]) == (values, others)


def test_other_partitions_are_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        write_segment(tmp_path / f"__consumer_offsets-{number}", 0, [commit_batch(0)])
    opened: list[str] = []
    real = open

    def counting(path: Any, *arguments: Any, **options: Any) -> Any:
        opened.append(str(path))
        return real(path, *arguments, **options)

    monkeypatch.setattr(ranges, "open", counting, raising=False)
    logs = find_logs([str(tmp_path)], "__consumer_offsets", frozenset({2}))
    rows = [row for each in logs for part in ranges.plan(each, 1000) for row in ranges.read(part, Wanted())]
    assert len(rows) == 1
    assert opened
    assert all("__consumer_offsets-2" in path for path in opened)
