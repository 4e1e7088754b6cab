"""How two workers are compared with one process: what is counted, and that no failure is waited for."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import workers
from bench.generator import WrongAnswer
from bench.servers import SETTINGS
from tests.daemon import running

pytestmark = pytest.mark.full

ROUND_S = 0.05


@pytest.fixture
def generators(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[workers.Generator]]:
    """All that are started. None outlives its test, however that ends."""
    started: list[workers.Generator] = []

    class Noted(workers.Generator):
        def __init__(self, name: str, module: str, order: Any) -> None:
            super().__init__(name, module, order)
            started.append(self)

    monkeypatch.setattr(workers, "Generator", Noted)
    yield started
    assert [each.name for each in started if each.process.poll() is None] == []


def test_both_do_the_same_work_and_its_cpu_is_counted(generators: list[workers.Generator]) -> None:
    run = workers.measure(1, ROUND_S, connections=4)
    (round_,) = run["rounds"]
    assert [len(round_["one"]), len(round_["two"])] == [1, 2]
    for half in [*round_["one"], *round_["two"]]:
        assert half["heartbeats"] >= 2 * workers.IN_FLIGHT  # a window on each of its connections
        assert half["server_cpu_s"] > 0
        assert half["wall_s"] >= ROUND_S
    assert run["without_the_generators"] > 0
    assert len(generators) == 3


def test_what_two_carry_is_told_of_their_own_cpu() -> None:
    """One at 2 µs carries 500,000 in a second of its core; two at 2 and 4 µs carry 500,000 and 250,000, whatever the
    generators left them of the clock. A bad second of the machine makes both worse, and not their ratio.
    """

    def half(heartbeats: int, server_cpu_us: float, slow: float) -> workers.Json:
        cpu_s = slow * heartbeats * server_cpu_us / 1e6
        return {
            "heartbeats": heartbeats,
            "began_s": 0.0,
            "wall_s": 1.0,
            "server_cpu_s": cpu_s,
            "generator_cpu_s": 0.25,
        }

    samples = [
        ([half(400_000, 2, slow)], [half(200_000, 2, slow), half(50_000, 4, slow)]) for slow in (1.0, 3.0, 1.5, 1.0)
    ]
    found = workers.figures(samples)
    assert found["without_the_generators"] == pytest.approx(1.5)
    assert found["by_the_clock"] == pytest.approx(250_000 / 400_000)
    assert found["generator_busy"] == {"one": 0.25, "two": 0.25}
    assert found["server_busy"]["one"] == pytest.approx(0.8 * 1.25)  # the median of 1, 3, 1.5 and 1
    assert workers.overlap([{"began_s": 0.0, "wall_s": 1.0}, {"began_s": 0.5, "wall_s": 1.5}]) == pytest.approx(0.25)


def test_a_worker_that_dies_ends_the_comparison(tmp_path: Path, generators: list[workers.Generator]) -> None:
    with running(tmp_path, SETTINGS, workers=2) as daemon:
        with workers.driven(workers.orders(daemon, 4, 8)) as run:
            first, second = run(ROUND_S)
            assert min(first["heartbeats"], second["heartbeats"]) > 0
            os.kill(daemon.worker_pid(1), signal.SIGKILL)
            with pytest.raises(WrongAnswer, match="the generator of worker 1: "):
                run(ROUND_S)
        daemon.kill()
