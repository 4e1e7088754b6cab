"""Simulated crashes of logs that are being compacted: see compacted_history.py. tests/mutants/log.py shows that
they can fail.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from coordinatord.broker.log.simulated_disk import CrashKind
from coordinatord.broker.log.writer import FlushPolicy
from tests.broker.log.compacted_history import run
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
