"""How two workers are compared with one process: what is counted, and that no failure is waited for."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench import servers, workers
from tests.bench.generator import Line, WrongAnswer, exchange
from tests.bench.half import Order
from tests.bench.servers import SETTINGS
from tests.daemon import HOST, running

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


def order(port: int, worker: int) -> Order:
    return Order(port, os.getpid(), worker, 2, 20, 2, 8, [0], [0])


def listening() -> socket.socket:
    made = socket.socket()
    made.bind((HOST, 0))
    made.listen()
    return made


@pytest.mark.parametrize("before", ["", "/autogroup-4 nice 3\n", None])
def test_a_process_without_a_group_of_its_session_is_measured_as_it_is(
    before: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "autogroup"
    if before is not None:
        file.write_text(before)
    monkeypatch.setattr(servers, "AUTOGROUP", file)
    with servers.preferred():
        within = file.read_text() if before else None
    after = file.read_text() if before is not None else None
    assert (within, after) == {"": (None, ""), None: (None, None)}.get(before, ("-20", "3"))


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


def test_a_generator_that_cannot_begin_ends_the_other_one(generators: list[workers.Generator]) -> None:
    """The other one would wait for an answer for a minute: it is killed, and so did not get that far."""
    with listening() as hangs_up, listening() as never_answers:

        def hang_up() -> None:
            for _ in range(2):  # connections
                hangs_up.accept()[0].close()

        hanging_up = threading.Thread(target=hang_up)
        hanging_up.start()
        wanted = [order(never_answers.getsockname()[1], 0), order(hangs_up.getsockname()[1], 1)]
        with pytest.raises(WrongAnswer, match="the generator of worker 1: "), workers.driven(wanted):
            pytest.fail("one of them cannot have begun")
        hanging_up.join()
    assert generators[0].process.returncode == -signal.SIGKILL


def test_a_generator_that_finds_nobody_says_so(generators: list[workers.Generator]) -> None:
    with listening() as gone:
        port = gone.getsockname()[1]
    with (
        pytest.raises(WrongAnswer, match=r"worker 0: ConnectionRefusedError: .*refused"),
        workers.driven([order(port, 0)]),
    ):
        pytest.fail("there is nobody")


def test_a_connection_that_is_closed_is_not_read_for_ever() -> None:
    """A socket that has been closed can always be read: there is nothing in it."""
    with listening() as hangs_up:

        def hang_up() -> None:
            connection, _ = hangs_up.accept()
            with connection:
                connection.recv(2, socket.MSG_WAITALL)  # what is left unread would make it a reset

        hanging_up = threading.Thread(target=hang_up)
        hanging_up.start()
        line = Line(hangs_up.getsockname()[1])
        with pytest.raises(WrongAnswer, match=r"closed the connection .*, 2 answers missing"):
            exchange([line], [[b"?", b"?", b"?"]], 2)
        hanging_up.join()
        line.close()


def test_a_worker_that_dies_ends_the_comparison(tmp_path: Path, generators: list[workers.Generator]) -> None:
    with running(tmp_path, SETTINGS, workers=2) as daemon:
        with workers.driven(workers.orders(daemon, 4, 8)) as run:
            first, second = run(ROUND_S)
            assert min(first["heartbeats"], second["heartbeats"]) > 0
            os.kill(daemon.worker_pid(1), signal.SIGKILL)
            with pytest.raises(WrongAnswer, match="the generator of worker 1: "):
                run(ROUND_S)
        daemon.kill()


def test_a_generator_that_is_killed_is_not_waited_for(tmp_path: Path, generators: list[workers.Generator]) -> None:
    with running(tmp_path, SETTINGS) as daemon, workers.driven(workers.orders(daemon, 2, 8)) as run:
        generators[0].process.kill()
        with pytest.raises(WrongAnswer, match=r"the generator of the only process: ended with exit status -9"):
            run(ROUND_S)
