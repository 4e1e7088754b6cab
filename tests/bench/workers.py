"""`python -m tests.bench.workers`: do two workers carry twice the heartbeats of one?

In turn, on two cores: a daemon of one process, which has a core of its own, the generator the other one; then a daemon
of two workers, each with a core of its own, which it shares with the half of the generator that drives the other one.
So the generator costs the two workers time that it does not cost the one, and the table tells both figures:

- *as measured*: heartbeats per second of the two, over those of the one;
- *without the generator*: what a core's whole second brings, from the servers' CPU time per heartbeat, twice over for
  two workers. They share no lock and no connection, so nothing but the machine could come between them; how much their
  CPU time per heartbeat grows when both work says how much did.

Requests are prebuilt and answers compared (generator.py), with many in flight on few connections, so that a core's
second is the server's and not the generator's.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from coordinatord.handlers.find import partition_for
from tests.bench import groups
from tests.bench.generator import Flow, Line, drive
from tests.bench.rows.steady import check_heartbeat, heartbeats
from tests.bench.servers import SETTINGS, cores, cpu_s, pin, preferred
from tests.daemon import Daemon, running

OFFSETS_PARTITIONS = 50
CONNECTIONS = 8
IN_FLIGHT = 64
GROUPS = 200
CYCLE = 128
WARM_S = 0.3

Json = dict[str, Any]


class Half:
    """One server process and what is driven against it."""

    def __init__(self, daemon: Daemon, worker: int) -> None:
        count = daemon.workers
        self.pid = daemon.worker_pid(worker) if count > 1 else daemon.pid
        names = (f"group-{number:06}" for number in range(GROUPS * count * 4))
        mine = [name for name in names if partition_for(name, OFFSETS_PARTITIONS) % count == worker][:GROUPS]
        self.lines = [Line(daemon.port + worker) for _ in range(CONNECTIONS)]
        members = groups.one_member_groups(self.lines, mine)
        self.flows = []
        for line, hand in zip(self.lines, groups.dealt(members, CONNECTIONS), strict=True):
            beats = heartbeats(hand)
            self.flows.append(Flow(line, (beats * (CYCLE // len(beats) + 1))[:CYCLE], check_heartbeat))

    def round(self, seconds: float) -> Json:
        before_s = cpu_s(self.pid)
        driven = drive(self.flows, seconds, IN_FLIGHT)
        return {
            "heartbeats": driven.requests,
            "wall_s": driven.wall_s,
            "server_cpu_s": cpu_s(self.pid) - before_s,
            "generator_cpu_s": driven.own_cpu_s,
        }


@contextlib.contextmanager
def halves(daemon: Daemon, together: list[int]) -> Iterator[Callable[[float], list[Json]]]:
    """`run(seconds)`: a round of each of these workers at the same time, each driven by a process of its own."""
    context = multiprocessing.get_context("fork")
    ready = context.Barrier(len(together))
    pipes = []
    processes = []
    first, second = sorted(set().union(*cores()))[0], sorted(set().union(*cores()))[-1]
    for place, worker in enumerate(together):
        ours, theirs = context.Pipe()
        servers, generators = ({first}, {second}) if place == 0 else ({second}, {first})

        def work(worker: int, pipe: Any, servers: set[int], generators: set[int]) -> None:
            half = Half(daemon, worker)
            pin(os.getpid(), generators)
            pin(half.pid, servers)
            drive(half.flows, WARM_S, IN_FLIGHT)
            while seconds := pipe.recv():
                ready.wait()
                pipe.send(half.round(seconds))

        processes.append(context.Process(target=work, args=(worker, theirs, servers, generators)))
        processes[-1].start()
        pipes.append(ours)

    def run(seconds: float) -> list[Json]:
        for pipe in pipes:
            pipe.send(seconds)
        return [pipe.recv() for pipe in pipes]

    try:
        yield run
    finally:
        for pipe in pipes:
            with contextlib.suppress(OSError):
                pipe.send(0)
        for process in processes:
            process.join(20)


def measure(rounds: int, seconds: float) -> Json:
    """Alone, together, alone, together …"""
    with tempfile.TemporaryDirectory() as directory, preferred(), contextlib.ExitStack() as stack:
        one = stack.enter_context(running(Path(directory, "one"), SETTINGS))
        two = stack.enter_context(running(Path(directory, "two"), SETTINGS, workers=2))
        alone = stack.enter_context(halves(one, [0]))
        together = stack.enter_context(halves(two, [0, 1]))
        samples = [(alone(seconds), together(seconds)) for _ in range(rounds)]
    return {
        "rounds": [{"one": one_half, "two": two_halves} for one_half, two_halves in samples],
        **figures(samples),
    }


def figures(samples: list[tuple[list[Json], list[Json]]]) -> Json:
    """Medians over the rounds."""
    rate_one = statistics.median(rate(one) for one, _ in samples)
    rate_two = statistics.median(rate(two) for _, two in samples)
    cost_one = statistics.median(cost_us(one) for one, _ in samples)
    cost_two = statistics.median(cost_us(two) for _, two in samples)
    return {
        "heartbeats_per_s": {"one": rate_one, "two": rate_two},
        "server_cpu_us": {"one": cost_one, "two": cost_two},
        "generator_busy": {
            "one": statistics.median(busy(one) for one, _ in samples),
            "two": statistics.median(busy(two) for _, two in samples),
        },
        "as_measured": rate_two / rate_one,
        "without_the_generator": 2 * cost_one / cost_two,
    }


def rate(round_: list[Json]) -> float:
    """Heartbeats per second of all processes."""
    return float(sum(half["heartbeats"] / half["wall_s"] for half in round_))


def cost_us(round_: list[Json]) -> float:
    """The servers' CPU time per heartbeat."""
    spent_s = sum(half["server_cpu_s"] for half in round_)
    return float(spent_s / sum(half["heartbeats"] for half in round_) * 1e6)


def busy(round_: list[Json]) -> float:
    """Share of a core that each generator used."""
    return float(statistics.mean(half["generator_cpu_s"] / half["wall_s"] for half in round_))


@click.command()
@click.option("--rounds", default=7, type=click.IntRange(1, 99))
@click.option("--seconds", default=1.5, type=click.FloatRange(0.05, 60), help="Of each round.")
@click.option("--out", default=None, type=click.Path(path_type=Path), help="Write the figures there as JSON.")
def main(rounds: int, seconds: float, out: Path | None) -> None:
    """Compare one process with two workers on two cores."""
    run = measure(rounds, seconds)
    if out is not None:
        out.write_text(json.dumps(run, indent=1) + "\n")
    rates, costs, shares = run["heartbeats_per_s"], run["server_cpu_us"], run["generator_busy"]
    click.echo(f"{'':24}{'one process':>14}{'two workers':>14}{'two / one':>12}")
    click.echo(f"{'heartbeats per second':24}{rates['one']:14,.0f}{rates['two']:14,.0f}{run['as_measured']:12.2f}")
    more = costs["two"] / costs["one"]
    click.echo(f"{'server CPU each, µs':24}{costs['one']:14.2f}{costs['two']:14.2f}{more:12.2f}")
    click.echo(f"{'generator, of a core':24}{shares['one']:14.0%}{shares['two']:14.0%}")
    click.echo(f"{'without the generator':52}{run['without_the_generator']:12.2f}")


if __name__ == "__main__":
    main()
