"""Simulated crashes by the hundred: see history.py. tests/mutants/log.py shows that they can fail."""

from __future__ import annotations

import pytest

from coordinatord.broker.log.writer import FlushPolicy
from tests.broker.log.history import run
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
    for seed in range(100):
        run(seed, flush, "power")
