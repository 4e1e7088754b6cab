"""How far a micro-batch goes: ends, limits, restarts, logs that shrink."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from coordinatord.monitoring.offsets_log.source.options import read_options
from coordinatord.monitoring.offsets_log.source.tail import DataLoss, FileTail, check_kept
from tests.monitoring.pipeline.directories import append, commit_batch, compact, offsets_of, write_log, write_segment

TOPIC = "__consumer_offsets"


def tail_of(path: Path, **options: str) -> FileTail:
    return FileTail(read_options({"path": str(path), **options}))


def test_ends_follow_the_log(tmp_path: Path) -> None:
    offsets = write_log(tmp_path / f"{TOPIC}-0", 500, random.Random(1))
    write_log(tmp_path / f"{TOPIC}-1", 40, random.Random(2), start=7)
    tail = tail_of(tmp_path)
    assert tail.ends() == {f"{TOPIC}-0": len(offsets), f"{TOPIC}-1": tail_of(tmp_path).ends()[f"{TOPIC}-1"]}
    for _ in range(5):
        more = append(tmp_path / f"{TOPIC}-0", 3)
        assert tail.ends()[f"{TOPIC}-0"] == more[-1] + 1 == tail_of(tmp_path).ends()[f"{TOPIC}-0"]
    write_segment(tmp_path / f"{TOPIC}-0", more[-1] + 1, [])  # rolled, and nothing in it yet
    assert tail.ends()[f"{TOPIC}-0"] == more[-1] + 1


def test_a_batch_that_is_still_being_written_is_waited_for(tmp_path: Path) -> None:
    directory = tmp_path / f"{TOPIC}-0"
    path = write_segment(directory, 0, [commit_batch(0)])
    tail = tail_of(tmp_path)
    batch = bytes(commit_batch(3))
    sound = path.read_bytes()
    for size in (1, 30, 61, len(batch) - 1):
        path.write_bytes(sound + batch[:size])
        assert tail.ends() == {f"{TOPIC}-0": 3}
    path.write_bytes(sound + batch[:70] + bytes(len(batch) - 70))  # its room is there, its bytes are not
    assert tail.ends() == {f"{TOPIC}-0": 3}
    path.write_bytes(sound + batch)
    assert tail.ends() == {f"{TOPIC}-0": 6}


@pytest.mark.parametrize("seed", range(4))
def test_limited_steps_read_every_record_once(seed: int, tmp_path: Path) -> None:
    """Steps of bounded size, with a new tail (a restart) at random, over logs that grow and are cleaned meanwhile."""
    rng = random.Random(seed)
    directories = [tmp_path / f"{TOPIC}-{number}" for number in range(3)]
    written = {d.name: write_log(d, rng.randrange(50, 300), rng) for d in directories}
    limit = {"max_bytes": 2000, "max_records": None} if seed % 2 else {"max_bytes": None, "max_records": 20}
    tail, position = tail_of(tmp_path, splitBytes="700"), {}
    seen: dict[str, list[int]] = {d.name: [] for d in directories}
    cleaned: dict[str, set[int]] = {}
    for step in range(2000):
        if rng.randrange(5) == 0:
            tail = tail_of(tmp_path, splitBytes="700")
        if step < 30 and rng.randrange(4) == 0:
            directory = rng.choice(directories)
            written[directory.name] += append(directory, rng.randint(1, 4))
        if step == 15:
            directory = directories[0]
            active = int(max(directory.glob("*.log")).stem)
            gone = {offset for offset in written[directory.name] if offset < active and offset % 2}
            cleaned[directory.name] = gone
            compact(directory, set(written[directory.name]) - gone)
        ends = tail.ends()
        reached = {**position, **tail.limited(position, ends, **limit)}  # type: ignore[arg-type]
        if reached == position and step >= 30:
            break
        parts = tail.plan(position, reached)
        records = 0
        for part in parts:
            found = offsets_of([part])
            seen[part.log.name] += found
            records += len(found)
        if limit["max_records"] is not None:
            assert records <= 20
        position = reached
    for name, offsets in written.items():
        assert len(set(seen[name])) == len(seen[name])
        assert seen[name] == sorted(seen[name])
        missing = set(offsets) - set(seen[name])
        assert missing <= cleaned.get(name, set())
    assert position == tail.ends()


def test_one_batch_goes_in_any_case(tmp_path: Path) -> None:
    for number in (0, 1):
        write_segment(tmp_path / f"{TOPIC}-{number}", 0, [commit_batch(0, 5), commit_batch(5, 5)])
    tail = tail_of(tmp_path)
    steps = [{}]
    while len(steps) < 9:
        steps.append({**steps[-1], **tail.limited(steps[-1], tail.ends(), None, 2)})
    assert [sum(step.values()) for step in steps] == [0, 5, 10, 15, 20, 20, 20, 20, 20]


def test_a_log_that_lost_what_was_read_is_refused(tmp_path: Path) -> None:
    start = {f"{TOPIC}-0": 9, f"{TOPIC}-1": 4}
    with pytest.raises(DataLoss, match=r"ends at offset 5, and this query has read up to 9.*failOnDataLoss"):
        check_kept(start, {f"{TOPIC}-0": 5, f"{TOPIC}-1": 4}, fail=True)
    with pytest.raises(DataLoss, match="was read up to offset 4 and is gone"):
        check_kept(start, {f"{TOPIC}-0": 9}, fail=True)
    assert check_kept(start, {f"{TOPIC}-0": 5}, fail=False) == {f"{TOPIC}-0": 5}
    assert check_kept(start, {f"{TOPIC}-0": 9, f"{TOPIC}-1": 5, f"{TOPIC}-2": 1}, fail=True) == start
    write_segment(tmp_path / f"{TOPIC}-7", 0, [commit_batch(0)])
    with pytest.raises(DataLoss, match="is gone, and the query still had to read its offsets 0 to 3"):
        tail_of(tmp_path).plan({}, {f"{TOPIC}-0": 3})
