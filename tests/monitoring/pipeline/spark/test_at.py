"""`coordinatord pipeline at`: a group at a moment, two moments, and the file that resets it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from coordinatord.cli import cli
from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.pipeline.run.group_at import compare, csv_lines, moment, parse_time, tell
from coordinatord.monitoring.pipeline.run.ingest import Job
from coordinatord.monitoring.pipeline.run.update import run
from coordinatord.monitoring.pipeline.source.frames import Source
from kafka_wire.records.offsets import OffsetCommitKey
from tests.coordination.group.world import GROUP_ID
from tests.monitoring.pipeline.histories import Consumer, History
from tests.monitoring.pipeline.spark.test_rebalances import write_offsets

NOON_MS = 1_700_049_600_000
"""2023-11-15 12:00:00 UTC."""


@pytest.mark.parametrize(
    ("text", "told_ms"),
    [
        ("03:12", NOON_MS - 31_680_000),
        ("3:12", NOON_MS - 31_680_000),
        ("12:00:00", NOON_MS),
        ("13:00", NOON_MS - 23 * 3_600_000),
        ("2023-11-15T13:00+01:00", NOON_MS),
        ("2023-11-15 12:00", NOON_MS),
        (str(NOON_MS), NOON_MS),
    ],
)
def test_times(text: str, told_ms: int) -> None:
    assert parse_time(text, NOON_MS) == told_ms


@pytest.mark.parametrize("text", ["", "noon", "25:00", "3:99", "12"])
def test_no_times(text: str) -> None:
    with pytest.raises(SourceError, match="is no time"):
        parse_time(text, NOON_MS)


def offsets_of(world: History, until_ms: int) -> dict[tuple[str, int], int]:
    """What was committed, from the world's own log."""
    return {
        (key.topic, key.partition): value.offset
        for (key, value), at_ms in zip(world.log, world.times, strict=True)
        if isinstance(key, OffsetCommitKey) and at_ms <= until_ms
    }


def test_two_moments(spark: Any, tmp_path: Path) -> None:
    world = History(5)
    first, second = Consumer(world, "first"), Consumer(world, "second")
    first.start()
    world.run(60)
    early_ms = world.now_ms
    second.start()
    world.run(60)
    late_ms = world.now_ms
    directory, out = tmp_path / "data", tmp_path / "out"
    write_offsets(directory, world)
    run(spark, Job(Source(str(directory)), out, tables=("commits",)), now_ms=world.now_ms)

    early, late = (moment(spark, out, GROUP_ID, at_ms) for at_ms in (early_ms, late_ms))
    for then in (early, late):
        assert {partition: each.offset for partition, each in then.offsets.items()} == offsets_of(world, then.at_ms)
        assert {then.owner(partition).split()[0] for partition in then.offsets} == (
            {"first"} if then is early else {"first", "second"}
        )
    told = list(tell(GROUP_ID, early))
    assert told[1] == "  generation 1, 1 member, range"
    assert len(told) == 3 + 10
    lines = list(compare(early, late))
    moved = next(line for line in lines if "first on 127.0.0.1 -> second on 127.0.0.1" in line)
    topic, partition = moved.split()[:2]
    before, after = early.offsets[topic, int(partition)].offset, late.offsets[topic, int(partition)].offset
    assert f"{before} -> {after} ({after - before:+d})" in moved
    assert next(iter(csv_lines(early))) == f"orders,0,{early.offsets['orders', 0].offset}"
    assert list(compare(early, early))[1:] == ["  10 partitions unchanged"]

    csv = tmp_path / "reset.csv"
    arguments = ["--out", str(out), "--group", GROUP_ID, "--time", str(early_ms), "--compare", str(late_ms)]
    said = CliRunner().invoke(cli, ["pipeline", "at", *arguments, "--csv", str(csv)])
    assert said.exit_code == 0, said.output
    assert told == said.stdout.splitlines()[: len(told)]
    assert moved in said.output
    assert f"--group {GROUP_ID} --reset-offsets --from-file {csv} --execute" in said.output
    assert csv.read_text().splitlines() == list(csv_lines(early))

    before_all = moment(spark, out, GROUP_ID, early_ms - 3_600_000)
    assert not before_all.offsets
    assert before_all.generation is None
    with pytest.raises(SourceError, match="nothing is known of a group nobody"):
        moment(spark, out, "nobody", late_ms)


def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    arguments = ["pipeline", "at", "--out", str(tmp_path), "--group", "g", "--time"]
    for text, sentence in (
        ("sometime", "sometime is no time"),
        ("9" * 20, f"{'9' * 20} is no time"),
        ("0001-01-01T00:00+23:00", "is no time"),
        ("03:12", f"{tmp_path} has no facts: run `coordinatord pipeline run --out {tmp_path}` first"),
    ):
        wrong = CliRunner().invoke(cli, [*arguments, text])
        assert wrong.exit_code == 2
        assert sentence in wrong.output
        assert "starting Spark" not in wrong.output
