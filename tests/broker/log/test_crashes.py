"""Simulated crashes by the hundred: see history.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coordinatord.broker.log import DataDirectory, LogDamaged, LogError
from coordinatord.broker.log.simulated_disk import SimulatedDisk
from coordinatord.broker.log.writer import FlushPolicy
from tests.broker.log.history import History, Violated, run
from tests.broker.log.world import World
from tests.support.rows import first_quick


@pytest.mark.parametrize("part", first_quick(range(4)))
def test_power_failure_loses_nothing_acknowledged(part: int) -> None:
    histories = [run(seed) for seed in range(100 * part, 100 * part + 100)]
    assert sum(history.crashes for history in histories) > 100
    assert sum(history.acknowledgements for history in histories) > 500


@pytest.mark.parametrize("flush", first_quick(["always", "interval", "never"]))
def test_kill_loses_nothing_acknowledged(flush: FlushPolicy) -> None:
    histories = [run(seed, flush, "kill") for seed in range(100)]
    assert sum(history.crashes for history in histories) > 100


@pytest.mark.parametrize("flush", first_quick(["interval", "never"]))
def test_power_failure_without_a_flush_leaves_a_prefix(flush: FlushPolicy) -> None:
    """What was acknowledged but not flushed may go, but only from the end. `never` may refuse to start instead."""
    refused = 0
    for seed in range(100):
        history = History(seed, flush, "power")
        history.promises_durability = False
        try:
            history.run()
        except LogDamaged:
            refused += 1
    assert refused == 0 or flush == "never"


def test_acknowledging_before_the_flush_is_caught() -> None:
    """The proof that the histories above can fail: skip the journal's flush, and some seed shows a lost record."""

    def spoil(world: World) -> None:
        world.writer._flusher._flushes = False

    with pytest.raises(Violated, match="was acknowledged"):
        _run_all("always", range(200), spoil)


def test_a_disk_that_lies_about_flushing_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimulatedDisk, "datasync", lambda self, inode: None)
    with pytest.raises((Violated, LogError)):
        _run_all("always", range(200))


def test_a_start_that_begins_no_leader_epoch_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof that the histories look at the epochs of lost records."""
    monkeypatch.setattr(DataDirectory, "_begin_epoch", lambda self: None)
    histories = [History(seed, "interval", "power") for seed in range(100)]
    with pytest.raises(Violated, match="leader epoch"):
        _run_without_promises(histories)


def _run_without_promises(histories: list[History]) -> None:
    for history in histories:
        history.promises_durability = False
        history.run()


def _run_all(flush: FlushPolicy, seeds: range, spoil: Callable[[World], object] | None = None) -> None:
    for seed in seeds:
        History(seed, flush, "power", spoil).run()
