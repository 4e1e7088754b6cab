"""A scenario with events only, in real time: kafka-python consumers as processes, and the same accounts of ownership.

A process is started ahead of time and joins when it is told to; it dies by SIGKILL, and stops by SIGTERM. What happened
is read off what the consumers told, ordered by their clocks, which are one: all of it runs on one machine.
"""

from __future__ import annotations

import json
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from coordinatord.simulation.ownership import Ownership
from coordinatord.simulation.scenario import Scenario
from tests.daemon import REPOSITORY

FORM_LIMIT_S = 60.0
READY_LIMIT_S = 60.0
TOPIC = "reality"


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of it; to be compared with a Report."""

    rebalances: int  # generations, of which each is one
    unowned_ms: int
    longest_gap_ms: int
    formed_at_s: float


class Real:
    """One consumer process."""

    def __init__(self, number: int, bootstrap: str, group: str, scenario: Scenario, told: queue.Queue[Any]) -> None:
        self.number = number
        self.ready = threading.Event()
        settings = {
            "bootstrap_servers": bootstrap,
            "group_id": group,
            "client_id": f"member-{number}",
            "session_timeout_ms": scenario.session,
            "heartbeat_interval_ms": scenario.heartbeat,
            "max_poll_interval_ms": scenario.max_poll,
        }
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.simulation.real_consumer",
                json.dumps({"topic": TOPIC, "settings": settings}),
            ],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._told = told
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            if event["kind"] == "ready":
                self.ready.set()
            else:
                self._told.put((event["at_s"], event["kind"], self, event))

    def join_group(self) -> None:
        assert self.ready.is_set(), f"consumer {self.number} has not started in time: the machine is too busy"
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def crash(self) -> None:
        self.process.kill()
        self._told.put((time.time(), "crashed", self, {}))

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def live(scenario: Scenario, bootstrap: str, group: str) -> Seen:
    """Let it come true."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(TOPIC, num_partitions=scenario.partitions, replication_factor=1)])
    admin.close()
    told: queue.Queue[Any] = queue.Queue()
    with _processes(scenario, bootstrap, group, told) as (first, later):
        starts = random.Random(scenario.seed)
        for process in first:
            time.sleep(starts.random() / len(first))
            process.join_group()
        events = _wait_until_formed(scenario, told)
        formed_at_s = time.time()
        for at_ms, act in sorted(_script(scenario, first, later), key=lambda each: each[0]):
            time.sleep(max(0.0, formed_at_s + at_ms / 1000 - time.time()))
            act()
        time.sleep(max(0.0, formed_at_s + scenario.duration / 1000 - time.time()))
        ended_at_s = time.time()
    while not told.empty():
        events.append(told.get())
    return _account(scenario, events, formed_at_s, ended_at_s)


@contextmanager
def _processes(
    scenario: Scenario, bootstrap: str, group: str, told: queue.Queue[Any]
) -> Iterator[tuple[list[Real], dict[int, Real]]]:
    """Those of the beginning, ready; and for each member that comes back, the process as which it does."""
    made: list[Real] = []

    def make(number: int) -> Real:
        made.append(Real(number, bootstrap, group, scenario, told))
        return made[-1]

    try:
        first = [make(number) for number in range(scenario.members)]
        later = {event.number: make(event.number) for event in scenario.events if event.kind in ("crash", "start")}
        for process in made:
            assert process.ready.wait(READY_LIMIT_S), "a consumer has not started"
        yield first, later
    finally:
        for process in made:
            process.end()


def _script(scenario: Scenario, first: list[Real], later: dict[int, Real]) -> Iterator[tuple[int, Any]]:
    for event in scenario.events:
        if event.kind == "crash":
            yield event.at_ms, first[event.number].crash
            yield event.at_ms + scenario.restart, later[event.number].join_group
        elif event.kind == "start":
            yield event.at_ms, later[event.number].join_group
        else:
            assert event.kind == "stop", f"{event.kind} is not for real processes"
            yield event.at_ms, lambda number=event.number: first[number].process.send_signal(signal.SIGTERM)


def _wait_until_formed(scenario: Scenario, told: queue.Queue[Any]) -> list[Any]:
    """All partitions are assigned, in one generation."""
    events: list[Any] = []
    latest: dict[int, Any] = {}
    deadline_s = time.time() + FORM_LIMIT_S
    while True:
        events.append(told.get(timeout=max(0.01, deadline_s - time.time())))
        _at_s, kind, process, event = events[-1]
        latest[process.number] = event if kind == "assigned" else {"generation": -1, "partitions": []}
        generations = {each["generation"] for each in latest.values()}
        owned = sum(len(each["partitions"]) for each in latest.values())
        if len(latest) == scenario.members and len(generations) == 1 and owned == scenario.partitions:
            return events


def _account(scenario: Scenario, events: list[Any], formed_at_s: float, ended_at_s: float) -> Seen:
    """From what the consumers told to what it cost."""
    clock: Any = SimpleNamespace(now_ms=round(formed_at_s * 1000))
    ownership = Ownership(clock, range(scenario.partitions))
    held: dict[Real, list[int]] = {}
    generations: list[int] = []
    begun = False
    for at_s, kind, process, event in sorted(events, key=lambda each: each[0]):
        if at_s > formed_at_s and not begun:
            ownership.begin()
            begun = True
            formed_generation = max(generations)
        if at_s > ended_at_s:
            break
        clock.now_ms = round(at_s * 1000)
        ownership.let_go(process, held.pop(process, []), kind)
        if kind == "assigned":
            held[process] = event["partitions"]
            ownership.take(process, event["partitions"])
            generations.append(event["generation"])
    clock.now_ms = round(ended_at_s * 1000)
    ownership.end()
    return Seen(
        max(generations) - formed_generation, sum(ownership.unowned_ms.values()), ownership.longest_gap_ms, formed_at_s
    )
