"""`python -m bench.workers`: do two workers carry twice the heartbeats of one?

In turn: a daemon of one process, then a daemon of two workers. The work is the same for both: the same groups, as many
connections in all, as many requests in flight on each; of two workers each has its half, which is what clients make of
it that go where FindCoordinator sends them. Each server process has a core to itself, and is driven by a generator in
a process of its own (half.py). On two cores there is none left for the two workers' generators: each of these has the
core of the worker that the other one drives.

How the generators' CPU is accounted for:

- Their *time on the servers' cores* is not the servers': what a core's whole second brings is told from the CPU time
  that a server's process used per heartbeat, in the two workers' case while both are at work. They share no lock and no
  connection, so that two cores carry what each of them would: `2 * CPU each of one / CPU each of two`.
- Their *being woken* is nobody's: a server whose client sleeps pays for waking it, several microseconds where that is
  on another core, and one whose client is awake does not. No generator sleeps while it is answered, neither the one nor
  the two, pinned as they are (generator.py). That takes from the two workers some of the clock, and none of their CPU.
- What their being there does to the two workers all the same, by caches and switches between processes, is left in.

Beside it is what was carried *by the clock*: with fewer than four cores that compares a server on a core of its own
with two on what two generators leave them, and says more of the generators than of the servers.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench import groups
from bench.generator import STALLED_S, WrongAnswer
from bench.half import Order
from bench.servers import SETTINGS, cores, preferred
from tests.daemon import REPOSITORY, Daemon, StartFailed, running

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

IN_FLIGHT = 64
"""On each connection: so many that a generator is done long before a server is."""
TOGETHER_S = 0.01
"""From the word to begin to the beginning, so that all have heard it."""
SILENCE_S = 2 * STALLED_S
"""How long a generator may say nothing, beyond its round. It gives up by itself before, and says why."""

NO_DISK = {"log.flush": "never"}
"""Heartbeats write nothing, and groups that are made need not wait for a disk that others keep busy."""

Json = dict[str, Any]
Run = Callable[[float], list[Json]]


class Generator:
    """A process that drives one server process: a `module` of the bench, with its order."""

    def __init__(self, name: str, module: str, order: DataclassInstance) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, json.dumps(asdict(order))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=REPOSITORY,
        )

    def tell(self, word: Json) -> None:
        """One that has ended does not hear it; `hear` finds out why."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(word).encode() + b"\n")
            self.process.stdin.flush()

    def take(self) -> Json:
        """What it has said. WrongAnswer when that is that it has failed, or nothing any more."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        word: Json = json.loads(line) if line else {"failed": f"ended with exit status {self.process.wait()}"}
        if "failed" in word:
            raise WrongAnswer(f"{self.name}: {word['failed']}")
        return word

    def end(self) -> None:
        """At once, whatever it is doing."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def hear(generators: Sequence[Generator], seconds: float = 0.0) -> list[Json]:
    """The next word of each. WrongAnswer as soon as one has failed: nobody waits for the others."""
    until_s = time.monotonic() + seconds + SILENCE_S
    words: dict[Generator, Json] = {}
    with selectors.DefaultSelector() as selector:
        for each in generators:
            assert each.process.stdout is not None
            selector.register(each.process.stdout, selectors.EVENT_READ, each)
        while len(words) < len(generators):
            ready = selector.select(max(0.0, until_s - time.monotonic()))
            if not ready:
                silent = " and ".join(each.name for each in generators if each not in words)
                raise WrongAnswer(f"{silent}: no word for {seconds + SILENCE_S:g} s")
            for key, _ in ready:
                words[key.data] = key.data.take()
                selector.unregister(key.fileobj)
    return [words[each] for each in generators]


def orders(daemon: Daemon, connections: int, in_flight: int) -> list[Order]:
    """One for each of its processes; the first cores are the servers', the last ones the generators'."""
    everywhere = sorted(set().union(*cores()))
    count = daemon.workers
    return [
        Order(
            daemon.port + worker,
            daemon.worker_pid(worker) if count > 1 else daemon.pid,
            worker,
            count,
            groups.GROUPS,
            connections // count,
            in_flight,
            [everywhere[worker % len(everywhere)]],
            [everywhere[-1 - worker % len(everywhere)]],
        )
        for worker in range(count)
    ]


@contextlib.contextmanager
def driven(wanted: Sequence[Order]) -> Iterator[Run]:
    """`run(seconds)`: a round of all of them at the same time."""
    generators: list[Generator] = []
    try:
        generators += [Generator(f"the generator of {each.name}", "bench.half", each) for each in wanted]
        hear(generators)

        def run(seconds: float) -> list[Json]:
            begin_s = time.perf_counter() + TOGETHER_S
            for each in generators:
                each.tell({"begin_s": begin_s, "seconds": seconds})
            return hear(generators, seconds)

        yield run
    finally:
        for each in generators:
            each.end()


def measure(
    rounds: int,
    seconds: float,
    settings: Mapping[str, str] | None = None,
    connections: int = groups.CONNECTIONS,
    in_flight: int = IN_FLIGHT,
) -> Json:
    """Alone, together, alone, together … WrongAnswer when anything does not do what is asked of it, with what the
    daemons have said of it.
    """
    daemons: list[Daemon] = []
    both = {**SETTINGS, **NO_DISK, **(settings or {})}
    with tempfile.TemporaryDirectory() as directory, preferred():
        try:
            with contextlib.ExitStack() as stack:
                daemons.append(stack.enter_context(running(Path(directory, "one"), both)))
                daemons.append(stack.enter_context(running(Path(directory, "two"), both, workers=2)))
                alone, together = (
                    stack.enter_context(driven(orders(each, connections, in_flight))) for each in daemons
                )
                samples = [(alone(seconds), together(seconds)) for _ in range(rounds)]
                for each in daemons:  # what they would flush as they stop is of no use to anybody
                    each.kill()
        except (AssertionError, StartFailed) as why:  # of ours, or that a daemon did not start or end as it should
            first_line, *log_tail = str(why).splitlines()
            raise WrongAnswer("; ".join([first_line, *log_tail[-1:], *complaints(daemons)])) from why
    return {
        "rounds": [{"one": one, "two": two} for one, two in samples],
        **figures(samples),
    }


def complaints(daemons: Sequence[Daemon]) -> list[str]:
    """What they have logged as errors, and whether they have ended, to be told with what went wrong."""
    return [
        f"logged by the daemon of {daemon.workers}: {json.dumps(event)}"
        for daemon in daemons
        for event in daemon.events()
        if event.get("level") in ("error", "critical")
    ]


def figures(samples: Sequence[tuple[list[Json], list[Json]]]) -> Json:
    """Medians over the rounds. Ratios are of a round of one with the round of two that came after it: a machine has
    better seconds and worse ones.
    """

    def medians(figure: Callable[[Sequence[Json]], float]) -> Json:
        return {
            "one": statistics.median(figure(one) for one, _ in samples),
            "two": statistics.median(figure(two) for _, two in samples),
        }

    return {
        "heartbeats_per_s": medians(rate),
        "server_cpu_us": medians(cost_us),
        "server_busy": medians(lambda round_: busy(round_, "server_cpu_s")),
        "generator_busy": medians(lambda round_: busy(round_, "generator_cpu_s")),
        "at_work_together": statistics.median(overlap(two) for _, two in samples),
        "by_the_clock": statistics.median(rate(two) / rate(one) for one, two in samples),
        "without_the_generators": statistics.median(2 * cost_us(one) / cost_us(two) for one, two in samples),
    }


def rate(round_: Sequence[Json]) -> float:
    """Heartbeats per second of all processes."""
    return float(sum(half["heartbeats"] / half["wall_s"] for half in round_))


def cost_us(round_: Sequence[Json]) -> float:
    """A server's CPU time per heartbeat; of several servers that which they carry together."""
    return 1e6 * len(round_) / sum(half["heartbeats"] / half["server_cpu_s"] for half in round_)


def busy(round_: Sequence[Json], whose: str) -> float:
    """Share of a core that each server or generator used."""
    return float(statistics.mean(half[whose] / half["wall_s"] for half in round_))


def overlap(round_: Sequence[Json]) -> float:
    """Share of a round's time in which all were at work."""
    first_end_s = min(half["began_s"] + half["wall_s"] for half in round_)
    last_end_s = max(half["began_s"] + half["wall_s"] for half in round_)
    begins_s = [half["began_s"] for half in round_]
    return float((first_end_s - max(begins_s)) / (last_end_s - min(begins_s)))


@click.command()
@click.option("--rounds", default=90, type=click.IntRange(1, 999))
@click.option("--seconds", default=0.05, type=click.FloatRange(0.05, 60), help="Of each round.")
@click.option("--connections", default=groups.CONNECTIONS, type=click.IntRange(2, 64), help="In all.")
@click.option("--in-flight", default=IN_FLIGHT, type=click.IntRange(1, 512), help="On each connection.")
@click.option("--out", default=None, type=click.Path(path_type=Path), help="Write the figures there as JSON.")
def main(rounds: int, seconds: float, connections: int, in_flight: int, out: Path | None) -> None:
    """Compare one process with two workers."""
    try:
        run = measure(rounds, seconds, None, connections, in_flight)
    except WrongAnswer as why:
        raise click.ClickException(str(why)) from why
    if out is not None:
        out.write_text(json.dumps(run, indent=1) + "\n")
    rates, costs, server, generator = (
        run[name] for name in ("heartbeats_per_s", "server_cpu_us", "server_busy", "generator_busy")
    )
    lines = [
        ("", "one process", "two workers", "two / one"),
        ("by the clock, per s", f"{rates['one']:,.0f}", f"{rates['two']:,.0f}", f"{run['by_the_clock']:.2f}"),
        ("server CPU each, µs", f"{costs['one']:.2f}", f"{costs['two']:.2f}", f"{costs['two'] / costs['one']:.2f}"),
        ("each server, of a core", f"{server['one']:.0%}", f"{server['two']:.0%}", ""),
        ("each generator, of a core", f"{generator['one']:.0%}", f"{generator['two']:.0%}", ""),
        ("all at work", "", f"{run['at_work_together']:.0%}", ""),
        ("without the generators", "", "", f"{run['without_the_generators']:.2f}"),
    ]
    for what, one, two, ratio in lines:
        click.echo(f"{what:26}{one:>14}{two:>14}{ratio:>12}".rstrip())


if __name__ == "__main__":
    main()
