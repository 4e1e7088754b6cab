"""Samples of partition ends, and when there is a batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.pipeline.run.ingest import POSITION, Intake, Job
from coordinatord.monitoring.pipeline.source.frames import Source
from coordinatord.monitoring.pipeline.source.partition_ends import sample
from tests.monitoring.offsets_log.source.test_end_offsets import write
from tests.monitoring.pipeline.spark.test_run import Log


def intake(data: Path, ends: str | None) -> Intake:
    """Of a log that is so small that Spark is not needed."""
    out = data.parent / "out"
    out.mkdir(exist_ok=True)
    return Intake(None, Job(Source(str(data)), out, ends))  # type: ignore[arg-type]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log with one commit, and a topic."""
    data = tmp_path / "data"
    write(data / "orders-0", 0, [(0, 5, 1_000)], [(1_000, 4)])
    Log(data / "__consumer_offsets-0").commit("group", 3, 1_000)
    return data


def test_with_samples_there_is_always_a_batch(data: Path) -> None:
    log = intake(data, str(data))
    assert log.take(7_000, with_sample=True) == {"offset_commits": 1}
    assert log.take(8_000, with_sample=False) is None
    assert log.take(9_000, with_sample=True) == {}
    assert sorted(path.name for path in (data.parent / "out" / "end_offsets").iterdir()) == ["000000000", "000000001"]
    assert intake(data, str(data)).position == log.position


def test_without_a_source_of_ends_only_new_records_make_a_batch(data: Path) -> None:
    log = intake(data, None)
    assert log.take(7_000, with_sample=True) == {"offset_commits": 1}
    assert log.take(8_000, with_sample=True) is None
    assert not (data.parent / "out" / "end_offsets").exists()


def test_a_run_reads_to_the_end_at_its_start(data: Path, tmp_path: Path) -> None:
    log = intake(data, None)
    log.stop_at_present_end()
    Log(data / "__consumer_offsets-1").commit("group", 4, 1_000)
    assert log.take(7_000, with_sample=True) == {"offset_commits": 1}
    assert log.progress == (1, 1)
    assert log.take(8_000, with_sample=True) is None
    assert intake(data, None).take(9_000, with_sample=True) == {"offset_commits": 1}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"batch": 1, "log": null}', '{"batch": "x", "log": {}}'])
def test_a_damaged_position(data: Path, text: str) -> None:
    intake(data, None).take(7_000, with_sample=True)
    (data.parent / "out" / POSITION).write_text(text)
    with pytest.raises(SourceError, match=r"position\.json is damaged: give `pipeline run` an empty directory"):
        intake(data, None)


def test_a_position_that_was_removed(data: Path) -> None:
    """Of a first batch that a crash has cut off there is none yet; later batches would be there twice."""
    out = data.parent / "out"
    intake(data, None).take(7_000, with_sample=True)
    (out / POSITION).unlink()
    assert intake(data, None).take(7_000, with_sample=True) == {"offset_commits": 1}
    Log(data / "__consumer_offsets-1").commit("group", 4, 1_000)
    assert intake(data, None).take(8_000, with_sample=True) == {"offset_commits": 1}
    (out / POSITION).unlink()
    with pytest.raises(SourceError, match=r"position\.json is missing: give `pipeline run` an empty directory"):
        intake(data, None)


def test_the_rows_of_a_sample(tmp_path: Path) -> None:
    for topic in ("orders", "pay-in"):
        write(tmp_path / f"{topic}-0", 0, [(0, 5, 1_000)], [(1_000, 4)])
    rows: list[dict[str, Any]] = sample(str(tmp_path), {}, 7_000, 60_000, is_directory=True).to_pylist()
    assert [(each["topic"], each["end_offset"], each["sampled_ms"], each["points"]) for each in rows] == [
        ("orders", 5, 7_000, [{"offset": 5, "time_ms": 1_000}]),
        ("pay-in", 5, 7_000, [{"offset": 5, "time_ms": 1_000}]),
    ]


@pytest.mark.parametrize("location", ["/none", "./none", "host"])
def test_what_is_no_place(data: Path, location: str) -> None:
    with pytest.raises(SourceError, match="a broker's log directory or HOST:PORT is wanted"):
        intake(data, location)
