"""Where partitions end, by the directory of a broker's log and by a broker."""

from __future__ import annotations

import dataclasses
import errno
import os
import shutil
import struct
from pathlib import Path

import pytest
from kafka import KafkaProducer

from coordinatord.monitoring.analysis.offset_timeline import Point, end_offsets_at
from coordinatord.monitoring.offsets_log.source.end_offsets import (
    MAX_POINTS,
    RecordTimes,
    from_broker,
    from_directories,
    points_of,
)
from coordinatord.monitoring.offsets_log.source.segments import (
    INDEX_CHUNK_BYTES,
    INDEX_ENTRY,
    Log,
    Segment,
    SourceError,
    find_logs,
    index_entries,
)
from kafka_wire.records.batch import build_batch
from tests.daemon import running

TIME_ENTRY = struct.Struct(">qi")


def write(
    directory: Path, base_offset: int, batches: list[tuple[int, int, int]], entries: list[tuple[int, int]]
) -> None:
    """A segment of batches (offset, records, first timestamp) and its time index, filled up with zeros."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{base_offset:020d}.log"
    data = b""
    for offset, count, time_ms in batches:
        data += build_batch([(b"k", b"v")] * count, time_ms, offset)
    path.write_bytes(data)
    index = b"".join(TIME_ENTRY.pack(time_ms, offset - base_offset) for time_ms, offset in entries)
    path.with_suffix(".timeindex").write_bytes(index + bytes(3 * TIME_ENTRY.size))


def test_of_a_directory(tmp_path: Path) -> None:
    write(tmp_path / "orders-3", 10, [(10, 5, 1_000), (15, 5, 2_000)], [(1_000, 14), (2_000, 19)])
    write(tmp_path / "orders-3", 20, [(20, 1, 3_000), (30, 2, 4_000)], [(3_000, 20)])
    write(tmp_path / "__consumer_offsets-0", 0, [(0, 1, 1_000)], [])
    (tmp_path / "empty-0").mkdir()
    [ending] = from_directories([str(tmp_path)], 9_000)
    assert (ending.topic, ending.partition, ending.sampled_ms) == ("orders", 3, 9_000)
    assert (ending.log_start_offset, ending.end_offset) == (10, 32)
    assert ending.points == (Point(15, 1_000), Point(20, 2_000), Point(21, 3_000), Point(32, 4_000))
    record_time = RecordTimes([str(tmp_path)])
    assert record_time("orders", 3, 17) == 2_000
    assert record_time("orders", 3, 19) == 2_000, "the last record of its batch and its segment"
    assert record_time("orders", 3, 25) == 4_000, "the cleaner took those between"
    assert record_time("orders", 3, 32) is None
    assert record_time("orders", 9, 0) is None


def test_earlier_ends_behind_the_last_entries_of_the_indexes(tmp_path: Path) -> None:
    """Kafka adds an entry every 4 KiB: of what came since, the batches have the times. A clock that goes back adds no
    point, as in a time index.
    """
    times = [1_000, 2_000, 3_000, 2_500, 4_000]
    batches = [(2 * number, 2, time_ms) for number, time_ms in enumerate(times)]
    write(tmp_path / "orders-3", 0, batches, [(1_000, 1), (2_000, 3)])
    size = len(build_batch([(b"k", b"v")] * 2, 1_000, 0))
    (tmp_path / "orders-3" / f"{0:020d}.index").write_bytes(INDEX_ENTRY.pack(3, size))
    [ending] = from_directories([str(tmp_path)], 9_000)
    assert ending.points == (Point(2, 1_000), Point(4, 2_000), Point(6, 3_000), Point(10, 4_000))
    [later] = from_directories([str(tmp_path)], 9_000, with_points=False)
    assert points_of(str(tmp_path), later) == list(ending.points)
    assert end_offsets_at(2_500, ending.points) == (4, 6), (
        "of a group that lost its members then, the last four came since"
    )


def test_records_that_were_deleted_within_a_segment(tmp_path: Path) -> None:
    """DeleteRecords moves the first offset, and leaves the segment as it is. A worker of coordinatord has a file of its
    own.
    """
    for topic in ("cut", "whole", "anew", "of-a-worker"):
        write(tmp_path / f"{topic}-0", 10, [(10, 40, 1_000)], [])
    checkpoint = tmp_path / "log-start-offset-checkpoint"
    checkpoint.write_text("0\n3\ncut 0 30\nanew 0 51\nwhole 1 30\n")
    checkpoint.with_name(f"{checkpoint.name}.worker-1").write_text("0\n2\ncut 0 20\nof-a-worker 0 50\n")
    checkpoint.with_name(f"{checkpoint.name}.tmp").write_text("0\n1\nwhole 0 50\n")

    def starts() -> dict[str, int]:
        return {each.topic: each.log_start_offset for each in from_directories([str(tmp_path)], 9_000)}

    assert starts() == {"anew": 10, "cut": 30, "of-a-worker": 50, "whole": 10}
    for damaged in (b"", b"0\n", b"1\n1\ncut 0 30\n", b"0\n2\ncut 0 30\n", b"0\n1\ncut 0 \xff\n", b"0\n1\ncut 30\n"):
        checkpoint.write_bytes(damaged)
        assert starts()["cut"] == 20, damaged
    checkpoint.unlink()
    checkpoint.mkdir()
    assert starts()["cut"] == 20


def test_earlier_ends_are_read_later(tmp_path: Path) -> None:
    """What was written meanwhile does not count: the end offset is that of the look."""
    write(tmp_path / "orders-3", 10, [(10, 5, 1_000), (15, 5, 2_000)], [(1_000, 14), (2_000, 19)])
    [known] = from_directories([str(tmp_path)], 9_000)
    [ending] = from_directories([str(tmp_path)], 9_000, with_points=False)
    assert ending == dataclasses.replace(known, points=())
    write(tmp_path / "orders-3", 20, [(20, 1, 3_000)], [(3_000, 20)])
    assert points_of(str(tmp_path), ending) == list(known.points) == [Point(15, 1_000), Point(20, 2_000)]
    shutil.rmtree(tmp_path / "orders-3")
    assert points_of(str(tmp_path), ending) == []


def test_what_is_deleted_while_it_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("deleted-0", "orders-0"):
        write(tmp_path / name, 0, [(0, 5, 1_000)], [])
    listed = Log.segments

    def segments(log: Log) -> list[Segment]:
        found = listed(log)
        if log.name == "deleted-0":
            shutil.rmtree(log.directory)
        return found

    monkeypatch.setattr(Log, "segments", segments)
    assert [each.topic for each in from_directories([str(tmp_path)], 9_000)] == ["orders"]


def test_a_long_index_is_thinned(tmp_path: Path) -> None:
    write(tmp_path / "t-0", 0, [(0, 1, 1)], [(number + 1, number) for number in range(5 * MAX_POINTS)])
    [ending] = from_directories([str(tmp_path)], 9_000)
    assert MAX_POINTS / 2 < len(ending.points) <= MAX_POINTS + 1
    assert ending.points[-1] == Point(5 * MAX_POINTS, 5 * MAX_POINTS)


def test_indexes_are_read_as_far_as_there_are_entries(tmp_path: Path) -> None:
    """A running broker gives the indexes of its active segment 10 MiB at once: too much to read once for each row."""
    batches = [(number, 1, 1_000 + number) for number in range(2_000)]
    write(tmp_path / "orders-3", 0, batches, [(1_000 + number, number) for number in range(0, 2_000, 50)])
    index, size = b"", len(build_batch([(b"k", b"v")], 1_000, 0))
    for number in range(50, 2_000, 50):
        index += INDEX_ENTRY.pack(number, number * size)
    path = tmp_path / "orders-3" / f"{0:020d}.index"
    path.write_bytes(index)
    for suffix in (".index", ".timeindex"):
        os.truncate(path.with_suffix(suffix), 10 << 20)
    before = bytes_read()
    [ending] = from_directories([str(tmp_path)], 9_000)
    assert (ending.end_offset, ending.points[-1]) == (2_000, Point(2_000, 2_999))
    record_time = RecordTimes([str(tmp_path)])
    assert [record_time("orders", 3, offset) for offset in range(0, 2_000, 40)] == list(range(1_000, 3_000, 40))
    assert bytes_read() - before < 10 << 20


def test_an_index_longer_than_one_read(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    write(directory, 0, [(0, 1, 1)], [])
    entries = 2 * INDEX_CHUNK_BYTES // INDEX_ENTRY.size + 7
    data = b"".join(INDEX_ENTRY.pack(number + 1, number + 1) for number in range(entries))
    (directory / f"{0:020d}.index").write_bytes(data + bytes(2 * INDEX_CHUNK_BYTES) + b"\0\0\0")
    [segment] = Log("t-0", str(directory), 0).segments()
    found = index_entries(dataclasses.replace(segment, size=1 << 30))
    assert found.tolist() == [[number + 1, number + 1] for number in range(entries)]


def test_what_cannot_be_read_is_a_sentence_with_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "orders-3", 0, [(0, 5, 1_000)], [])
    listed = os.listdir

    def refused(path: str) -> list[str]:
        if path.endswith("orders-3"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr(os, "listdir", refused)
    for read in (
        lambda: from_directories([str(tmp_path)], 9_000),
        lambda: find_logs([str(tmp_path / "orders-3")], "orders", None),
    ):
        with pytest.raises(SourceError, match=f"^{tmp_path}/orders-3 cannot be read: Permission denied$"):
            read()
    assert from_directories([str(tmp_path)], 9_000, frozenset({"payments"})) == [], "nobody asks for that topic"


def bytes_read() -> int:
    """What this process has read so far, from whatever."""
    return int(Path("/proc/self/io").read_text().split("rchar:")[1].split()[0])


def test_what_is_no_directory(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is not a directory"):
        from_directories([str(tmp_path / "none")], 0)


def test_of_a_broker(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        producer = KafkaProducer(bootstrap_servers=daemon.bootstrap)
        for _ in range(3):
            producer.send("orders", b"x").get(timeout=10)
        producer.close()
        endings = from_broker(daemon.bootstrap, 5_000, [("orders", 0), ("orders", 7), ("gone", 0)])
    assert [(each.topic, each.partition, each.log_start_offset, each.end_offset) for each in endings] == [
        ("orders", 0, 0, 3)
    ]
    with pytest.raises(SourceError, match="no broker answers at"):
        from_broker("127.0.0.1:1", 5_000, [("orders", 0)], {"bootstrap_timeout_ms": 3_000})
