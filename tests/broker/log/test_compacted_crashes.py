"""Simulated crashes of logs that are being compacted: see compacted_history.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from coordinatord.broker.log import LogError, PartitionLog, segment_swap
from coordinatord.broker.log.cleaning import _Cleaning
from coordinatord.broker.log.simulated_disk import CrashKind
from coordinatord.broker.log.writer import FlushPolicy
from tests.broker.log.compacted_history import CompactedHistory, run
from tests.broker.log.history import Violated
from tests.broker.log.world import World
from tests.support.rows import first_quick


def check(seeds: Iterable[int], flush: FlushPolicy = "always", kind: CrashKind = "power") -> None:
    histories = [run(seed, flush, kind) for seed in seeds]
    count = len(histories)
    # They are about something: crashes, some in the middle of a cleaning and of a swap; records gone; logs read.
    assert sum(history.crashes for history in histories) > count
    assert sum(history.half_swapped for history in histories) > count / 10
    assert sum(history.removed for history in histories) > count
    assert sum(history.finished_reads for history in histories) > count / 4
    assert sum(history.half_written for history in histories) > 0
    assert sum(history.full_disks for history in histories) > 0


@pytest.mark.slow
def test_compaction_loses_nothing_in_a_power_failure() -> None:
    check(range(150))


def test_compaction_loses_nothing_when_it_is_killed() -> None:
    check(range(60), kind="kill")


@pytest.mark.parametrize("flush", first_quick(["never", "interval"]))
def test_compaction_without_flushes_leaves_a_prefix_compacted(flush: FlushPolicy) -> None:
    check(range(60), flush)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("flush", "kind", "seeds"),
    [
        ("always", "power", range(1_000, 3_000)),
        ("always", "kill", range(1_000, 1_500)),
        ("interval", "power", range(1_000, 1_500)),
        ("interval", "kill", range(1_000, 1_250)),
        ("never", "power", range(1_000, 1_500)),
        ("never", "kill", range(1_000, 1_250)),
    ],
)
def test_thousands_of_histories(flush: FlushPolicy, kind: CrashKind, seeds: range) -> None:
    check(seeds, flush, kind)


# --- they can fail ----------------------------------------------------------------------------------------------------


def _until_violated(seeds: range, spoil: Callable[[World], object] | None = None) -> None:
    for seed in seeds:
        CompactedHistory(seed, "always", "power", spoil).run()


def test_a_swap_of_what_was_not_flushed_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Cleaning, "_sync", lambda self, file: None)
    with pytest.raises((Violated, LogError)):
        _until_violated(range(300))


def test_removing_the_old_segments_first_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The old ones go as soon as the new one is written: then there is a moment with neither."""
    commit = segment_swap.commit

    def hasty(disk: segment_swap.Disk, directory: str, cleaned: segment_swap.Cleaned, tag: str) -> None:
        for base_offset in cleaned.replaces:
            segment_swap.set_aside(disk, directory, base_offset)
        disk.sync_dir(directory)
        commit(disk, directory, cleaned, tag)

    monkeypatch.setattr(segment_swap, "commit", hasty)
    with pytest.raises((Violated, LogError, OSError)):
        _until_violated(range(300))


def test_forgetting_a_committed_swap_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recovery that takes `.swap` for something half done."""
    monkeypatch.setattr(segment_swap, "recover", lambda disk, directory: _remove_all(disk, directory))
    with pytest.raises((Violated, LogError)):
        _until_violated(range(300))


def _remove_all(disk: segment_swap.Disk, directory: str) -> None:
    for name in disk.listdir(directory):
        if name.endswith((".swap", ".cleaned", ".deleted")):
            disk.unlink(f"{directory}/{name}")


def test_compaction_under_a_reader_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """KAFKA-19862: who reads a log while it is compacted must not miss a tombstone."""
    monkeypatch.setattr(PartitionLog, "pins", property(lambda self: 0, lambda self, value: None), raising=False)
    with pytest.raises((Violated, LogError, OSError)):
        _until_violated(range(300))


def test_taking_aborted_records_for_committed_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    init = _Cleaning.__init__

    def blind(self: _Cleaning, disk: segment_swap.Disk, job: object, throttle: object) -> None:
        init(self, disk, job, throttle)  # type: ignore[arg-type]
        self._survey.aborted.clear()
        self._fates._coming.clear()

    monkeypatch.setattr(_Cleaning, "__init__", blind)
    with pytest.raises(Violated):
        _until_violated(range(300))
