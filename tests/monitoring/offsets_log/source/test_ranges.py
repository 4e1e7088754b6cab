"""Directories of segments, cut into ranges and read: every record once, whatever the files go through."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from coordinatord.monitoring.offsets_log.decode.projection import Wanted
from coordinatord.monitoring.offsets_log.decode.row_types import OFFSET_COMMITS, QUARANTINE
from coordinatord.monitoring.offsets_log.source import ranges, segments
from coordinatord.monitoring.offsets_log.source.ranges import Range, SegmentReplaced, plan, read
from coordinatord.monitoring.offsets_log.source.segments import Log, SourceError, find_logs
from kafka_wire.records.batch import HEADER_BYTES
from tests.monitoring.pipeline.directories import append, commit_batch, compact, offsets_of, write_log, write_segment

TOPIC = "__consumer_offsets"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / f"{TOPIC}-3"


def log_of(directory: Path) -> Log:
    (log,) = find_logs([str(directory)], TOPIC, None)
    return log


def quarantined(parts: list[Range]) -> list[dict[str, object]]:
    tables = [table for part in parts for table in read(part, Wanted(frozenset({QUARANTINE})))]
    return [row for _kind, batch in tables for row in batch.to_pylist()]


# --- finding ----------------------------------------------------------------------------------------------------------


def test_where_logs_are_found(tmp_path: Path) -> None:
    for number in (0, 7, 12):
        write_segment(tmp_path / f"{TOPIC}-{number}", 0, [commit_batch(0)])
    write_segment(tmp_path / "orders-0", 0, [commit_batch(0)])
    write_segment(tmp_path / "elsewhere" / "loose", 0, [commit_batch(0)])

    def names(*paths: str, partitions: frozenset[int] | None = None) -> list[tuple[str, int | None]]:
        found = find_logs([str(tmp_path / path) for path in paths], TOPIC, partitions)
        return [(Path(log.name).name, log.partition) for log in found]

    assert names("") == [(f"{TOPIC}-0", 0), (f"{TOPIC}-7", 7), (f"{TOPIC}-12", 12)]
    assert names("", partitions=frozenset({7, 8})) == [(f"{TOPIC}-7", 7)]
    assert names(f"{TOPIC}-*") == names("")
    assert names("*") == names("")  # the other topic's directory is not of this one
    assert names(f"{TOPIC}-7/00000000000000000000.log") == [(f"{TOPIC}-7", 7)]
    assert names("elsewhere/loose") == [("loose", None)]
    assert find_logs([f"file://{tmp_path}"], TOPIC, None) == find_logs([str(tmp_path)], TOPIC, None)


def test_what_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    write_segment(tmp_path / "a" / f"{TOPIC}-1", 0, [commit_batch(0)])
    write_segment(tmp_path / "b" / f"{TOPIC}-1", 0, [commit_batch(0)])
    write_segment(tmp_path / "c" / "orders-1", 0, [commit_batch(0)])
    with pytest.raises(SourceError, match="one replica only"):
        find_logs([str(tmp_path / "*")], TOPIC, None)
    with pytest.raises(SourceError, match="does not exist"):
        find_logs([str(tmp_path / "nowhere")], TOPIC, None)
    with pytest.raises(SourceError, match=f"no segments of {TOPIC} in .*orders-1"):
        find_logs([str(tmp_path / "c" / "orders-1")], TOPIC, None)
    with pytest.raises(SourceError, match="local directories"):
        find_logs(["s3a://bucket/data"], TOPIC, None)


# --- planning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_ranges_hold_every_record_once(seed: int, directory: Path) -> None:
    rng = random.Random(seed)
    offsets = write_log(directory, 600, rng)
    log = log_of(directory)
    assert len(log.segments()) > 2
    for step in (300, 3000, 1 << 30):
        parts = plan(log, step)
        assert offsets_of(parts) == offsets
        longest = max(part.end - part.at for part in parts)
        assert longest < step + 4000  # an index entry every kilobyte, and a batch
        assert [part.next_offset for part in parts][:-1] == [part.first_offset for part in parts][1:]
    for _ in range(20):
        first, stop = sorted(rng.choices(range(len(offsets) + 5), k=2))
        assert offsets_of(plan(log, 700, first, stop)) == offsets[first:stop]


def test_an_index_that_lies_is_not_believed(directory: Path) -> None:
    offsets = write_log(directory, 300, random.Random(1), segment_batches=1000)
    (path,) = directory.glob("*.log")
    index = path.with_suffix(".index")
    for content in (
        struct.pack(">6i", 5, 10, 9, 30, 20, 100),  # positions within batches
        struct.pack(">4i", 5, 100_000_000, 9, 200_000_000),  # beyond the file
        struct.pack(">4i", 9, 500, 5, 100),  # falling
        b"\1\2\3",
        b"",
    ):
        index.write_bytes(content)
        log = log_of(directory)
        assert offsets_of(plan(log, 2000)) == offsets
        assert offsets_of(plan(log, 2000, 100, 200)) == offsets[100:200]


# --- files that change ------------------------------------------------------------------------------------------------


def test_a_segment_that_was_cleaned_is_read_anew(directory: Path) -> None:
    offsets = write_log(directory, 600, random.Random(2))
    parts = plan(log_of(directory), 500)
    active = max(directory.glob("*.log"))
    kept = {offset for offset in offsets if offset % 3 == 0 or offset >= int(active.stem)}
    half = len(parts) // 2
    before = offsets_of(parts[:half])
    compact(directory, kept)
    rest = offsets_of(parts[half:])
    assert before == offsets[: len(before)]
    assert rest == [offset for offset in offsets[len(before) :] if offset in kept]
    with pytest.raises(SegmentReplaced, match="onReplaced=reread"):
        offsets_of(parts[:1], on_replaced="fail")


def test_a_file_that_is_open_is_read_to_its_end(directory: Path) -> None:
    """The cleaner's rename does not disturb who has the old file open."""
    offsets = write_log(directory, 600, random.Random(3))
    part = plan(log_of(directory), 1 << 30)[0]
    reading = read(part, Wanted())
    first = next(reading)
    compact(directory, {0})
    rows = [first, *reading]
    assert [o for _, batch in rows for o in batch.column("log_offset").to_pylist()] == offsets[: part.next_offset]


def test_a_log_that_is_just_being_cleaned_is_waited_for(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offsets = write_log(directory, 100, random.Random(4))
    swap = directory / f"{0:020d}.log.swap"
    swap.write_bytes(b"")
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            swap.unlink()

    monkeypatch.setattr(segments.time, "sleep", sleep)
    assert offsets_of(plan(log_of(directory), 500)) == offsets
    assert len(waited) == 3
    swap.write_bytes(b"")
    with pytest.raises(SourceError, match="was being cleaned when the broker ended"):
        plan(log_of(directory), 500)


def test_another_file_in_the_same_place_is_noticed(directory: Path) -> None:
    """The same inode with other batches in it: a restore by copying over."""
    write_log(directory, 300, random.Random(5), segment_batches=1000)
    parts = plan(log_of(directory), 1000)
    (path,) = directory.glob("*.log")
    with path.open("r+b") as file:
        file.write(b"".join(commit_batch(offset, 1) for offset in range(0, 1200, 2)))
    with pytest.raises(SegmentReplaced):
        offsets_of(parts[1:2], on_replaced="fail")
    assert all(offset % 2 == 0 for offset in offsets_of(parts[1:2]))


# --- damage -----------------------------------------------------------------------------------------------------------


def test_a_torn_tail_is_told(directory: Path) -> None:
    batches = [commit_batch(0), commit_batch(3), commit_batch(6)[:-20]]
    write_segment(directory, 0, batches, index_bytes=None)
    parts = plan(log_of(directory), 1000)
    assert offsets_of(parts, Wanted(frozenset({OFFSET_COMMITS}))) == [0, 1, 2, 3, 4, 5]
    (row,) = quarantined(parts)
    assert row["level"] == "bytes"
    assert str(row["reason"]).startswith(
        f"the last batch is cut short: {len(batches[2])} of {len(batches[2]) + 20} bytes"
    )
    assert row["position"] == len(batches[0]) + len(batches[1])
    assert row["bytes"] == bytes(batches[2])


def test_room_taken_in_advance_is_no_damage(directory: Path) -> None:
    write_segment(directory, 0, [commit_batch(0), bytes(5000)], index_bytes=None)
    parts = plan(log_of(directory), 1000)
    assert offsets_of(parts) == [0, 1, 2]
    assert quarantined(parts) == []


@pytest.mark.parametrize("field", ["length", "magic", "garbage", "long"])
def test_reading_goes_on_behind_damage(field: str, directory: Path) -> None:
    batches = [commit_batch(offset) for offset in range(0, 300, 3)]
    sizes = [len(batch) for batch in batches]
    damaged = batches[40]
    if field == "length":
        struct.pack_into(">i", damaged, 8, 1000)  # swallows the next batches; their CRCs are right all the same
    elif field == "long":
        struct.pack_into(">i", damaged, 8, 1 << 30)  # beyond the file
    elif field == "magic":
        damaged[16] = 9
    else:
        batches[40] = bytearray(b"\xee" * 777)
    write_segment(directory, 0, batches, index_bytes=None)
    parts = plan(log_of(directory), 1 << 30)
    found = offsets_of(parts, Wanted(frozenset({OFFSET_COMMITS})))
    assert found == [offset for offset in range(300) if not 120 <= offset < 123]
    (row,) = quarantined(parts)
    assert row["position"] == sum(sizes[:40])
    assert row["byte_count"] == len(batches[40])


def test_a_wrong_crc_costs_one_batch(directory: Path) -> None:
    batches = [commit_batch(offset) for offset in range(0, 30, 3)]
    batches[4][HEADER_BYTES + 9] ^= 1
    path = write_segment(directory, 0, batches)
    parts = plan(log_of(directory), 1 << 30)
    assert offsets_of(parts, Wanted(frozenset({OFFSET_COMMITS}))) == [o for o in range(30) if not 12 <= o < 15]
    (row,) = quarantined(parts)
    assert (row["level"], row["log_offset"], row["log_partition"]) == ("batch", 12, 3)
    assert "record batch is corrupt" in str(row["reason"])
    assert (row["source"], row["position"]) == (str(path), sum(len(batch) for batch in batches[:4]))


def test_batches_larger_than_a_read(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (ranges, segments):
        monkeypatch.setattr(module, "CHUNK_BYTES", 500)
    batches = [commit_batch(offset, 3, size=offset % 7 * 100) for offset in range(0, 300, 3)]
    write_segment(directory, 0, batches, index_bytes=None)
    parts = plan(log_of(directory), 3000)
    assert len(parts) > 5
    assert offsets_of(parts) == list(range(300))
    assert append(directory, 4) == [300, 301, 302, 303]
    assert offsets_of(plan(log_of(directory), 3000, 290)) == list(range(290, 304))
