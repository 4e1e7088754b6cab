"""`partition_ends`: when there is something new, and what a look sees. Spark reads it in test_run and test_follow."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.pipeline.source.partition_ends import PartitionEnds, StreamReader, sampler
from tests.monitoring.offsets_log.source.test_end_offsets import write

ALL = ReadAllAvailable()


def reader(**options: str) -> StreamReader:
    made = PartitionEnds(options).streamReader(None)
    assert isinstance(made, StreamReader)
    return made


def test_there_is_always_something_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock_s = [1_000.0]
    monkeypatch.setattr("time.time", lambda: clock_s[0])
    live = reader(path=str(tmp_path))
    start = live.initialOffset()
    first = live.latestOffset(start, ALL)
    assert first == {"at_ms": 1_000_000}
    clock_s[0] = 1_005
    assert live.latestOffset(first, ALL) == {"at_ms": 1_005_000}
    clock_s[0] = 900
    assert live.latestOffset(first, ALL) == first, "a clock that is set back is waited for"


def test_a_run_that_ends_looks_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock_s = [1_000.0]
    monkeypatch.setattr("time.time", lambda: clock_s[0])
    once = reader(path=str(tmp_path))
    once.prepareForTriggerAvailableNow()
    first = once.latestOffset(once.initialOffset(), ALL)
    clock_s[0] = 1_005
    assert once.latestOffset(first, ALL) == first


def test_where_nobody_tells_there_is_nothing() -> None:
    nobody = reader()
    assert nobody.latestOffset(nobody.initialOffset(), ALL) == nobody.initialOffset()
    assert not nobody.place.look()


def test_what_a_look_sees(tmp_path: Path) -> None:
    for topic in ("orders", "pay-in", "pay-out"):
        write(tmp_path / f"{topic}-0", 0, [(0, 5, 1_000)], [(1_000, 4)])
    place = reader(path=str(tmp_path), topics="pay-*", nowMs="7000").place
    assert [(each.topic, each.end_offset, each.sampled_ms) for each in place.look()] == [
        ("pay-in", 5, 7_000),
        ("pay-out", 5, 7_000),
    ]
    [batch] = PartitionEnds({"path": str(tmp_path), "topics": "orders"}).reader(None).read(None)
    [row] = batch.to_pylist()
    assert (row["topic"], row["end_offset"], row["points"]) == ("orders", 5, [{"offset": 5, "time_ms": 1_000}])


def test_options_of_a_broker_have_their_types() -> None:
    assert reader(bootstrap="h:1", windowMs="30000").place.window_ms == 30_000
    place = reader(bootstrap="h:1", **{"kafka.request_timeout_ms": "500", "kafka.security_protocol": "SSL"}).place
    assert place.broker == {"request_timeout_ms": 500, "security_protocol": "SSL"}


@pytest.mark.parametrize("location", ["/none", "./none", "host"])
def test_what_is_no_place(spark: object, location: str) -> None:
    with pytest.raises(SourceError, match="a broker's log directory or HOST:PORT is wanted"):
        sampler(spark, location, {}, is_directory=False)  # type: ignore[arg-type]
