"""Scenarios in real time: consumers as processes, several scenarios side by side, since nearly all of it is waiting.

Heartbeats begin anew with each rebalance, and a busy machine takes some time for one. So that this does not add up,
each happening comes as long after the last assignment as it does in the simulation.

A process is started ahead of time and joins when it is told to; it is told to stop, dies by SIGKILL, and is slow over
a record that says so. What happened is read off what the consumers told, ordered by their clocks, which are one: all of
it runs on one machine.
"""

from __future__ import annotations

import functools
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from coordinatord.testing.simulation.scenario import Scenario
from tests.daemon import REPOSITORY
from tests.reference.broker import cache_directory, exclusive, kafka_libs
from tests.support.waiting import PATIENCE_S
from tests.testing.simulation.accounts import Seen, Told, account, simulated
from tests.testing.simulation.stories import happenings

QUIET_S = 1.5  # without news a group that owns everything has formed

Command = Callable[[dict[str, Any]], list[str]]
"""From a consumer's topic, assignor and settings to the process that is one."""


def kafka_python(arguments: dict[str, Any]) -> list[str]:
    return [sys.executable, "-m", "tests.testing.simulation.real_consumer", json.dumps(arguments)]


def java(arguments: dict[str, Any]) -> list[str]:
    """The Java client 4.3: what the model is a model of."""
    settings = {name.replace("_", "."): value for name, value in arguments["settings"].items()}
    if arguments["assignor"] is not None:
        settings["partition.assignment.strategy"] = arguments["assignor"]
    return [*java_program(), arguments["topic"], *(f"{name}={value}" for name, value in settings.items())]


@functools.cache
def java_program() -> list[str]:
    """Compiled once."""
    libs = kafka_libs()
    source = Path(__file__).with_name("RealConsumer.java")
    classes = cache_directory() / "real-consumer"
    with exclusive(classes / "lock"):
        subprocess.run(["javac", "-nowarn", "-cp", f"{libs}/*", "-d", classes, source], check=True)
    return ["java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{classes}:{libs}/*", source.stem]


class Real:
    """One consumer process."""

    def __init__(self, number: int, command: list[str], told: list[Told]) -> None:
        self.number = number
        self.ready = threading.Event()
        self.generation: int | None = None
        self.process = subprocess.Popen(
            command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._told = told
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if not line.startswith("{"):
                continue  # what the Java client logs
            event = json.loads(line)
            if event["kind"] == "ready":
                self.ready.set()
            elif event["kind"] == "generation":
                self.generation = event["generation"]
            else:
                self._tell(event["at_s"], event["kind"], event["partitions"], event.get("generation", -1))

    def _tell(self, at_s: float, kind: str, partitions: Sequence[int] = (), generation: int = -1) -> None:
        self._told.append(Told(round(at_s * 1000), kind, self, tuple(partitions), generation))

    def say(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def crash(self) -> None:
        self.process.kill()
        self._tell(time.time(), "crashed")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


class Stage:
    """One scenario, its topic and its processes: those of the beginning, and one for each return."""

    def __init__(self, name: str, scenario: Scenario, bootstrap: str, command: Command) -> None:
        self.name, self.scenario, self.bootstrap = name, scenario, bootstrap
        self.predicted = simulated(scenario)
        self.told: list[Told] = []
        self.topic = "".join(each if each.isalnum() else "-" for each in name) + f"-{time.time_ns()}"
        admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        admin.create_topics([NewTopic(self.topic, scenario.partitions, 1)])
        admin.close()
        self._command = command
        self.first = [self._make(number) for number in range(scenario.members)]
        self.later = {number: self._make(number) for _at, kind, number in happenings(scenario) if kind == "start"}
        self.alive = dict(enumerate(self.first))

    def _make(self, number: int) -> Real:
        scenario = self.scenario
        settings: dict[str, object] = {
            "bootstrap_servers": self.bootstrap,
            "group_id": self.topic,
            "client_id": f"member-{number}",
            "max_poll_interval_ms": scenario.max_poll,
            "auto_commit_interval_ms": scenario.commit,
        }
        if scenario.static:
            settings["group_instance_id"] = f"member-{number}"
        assignor = None
        if scenario.is_consumer:
            settings["group_protocol"] = "consumer"
        else:
            settings |= {"session_timeout_ms": scenario.session, "heartbeat_interval_ms": scenario.heartbeat}
            [assignor] = scenario.assignor
        arguments = {"topic": self.topic, "assignor": assignor, "settings": settings}
        return Real(number, self._command(arguments), self.told)

    @property
    def processes(self) -> list[Real]:
        return [*self.first, *self.later.values()]

    def live(self) -> Seen:
        """Let it come true. Everybody is ready."""
        starts = random.Random(self.scenario.seed)
        for process in self.first:
            time.sleep(starts.random() / len(self.first))
            process.say("join")
        formed_ms = self._wait_until_formed()
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, enable_idempotence=False)
        producer.partitions_for(self.topic)
        happened_ms: list[int] = []
        for at_ms, kind, number in happenings(self.scenario):
            if kind == "polls again":  # by itself: its batch has its time
                [event] = self.scenario.events
                happened_ms.append(happened_ms[-1] + event.for_ms)
                continue
            self._wait_until(formed_ms, at_ms)
            happened_ms.append(round(time.time() * 1000) - formed_ms)
            self._act(kind, number, producer)
        self._wait_until(formed_ms, self.scenario.duration)
        ended_ms = round(time.time() * 1000)
        generation = self._latest_generation()
        producer.close()
        return account(self.scenario, self.told, formed_ms, ended_ms, happened_ms, generation)

    def _wait_until(self, formed_ms: int, at_ms: int) -> None:
        """Until that time of the story, which is late by as much as the last assignment before it was."""
        usual_ms = max((each for each in self.predicted.assigned_ms if each < at_ms), default=0)
        late_ms = 0
        while time.time() * 1000 < formed_ms + at_ms + late_ms:
            time.sleep(0.005)
            assigned_ms = [each.at_ms for each in self.told if each.kind == "assigned" and each.partitions]
            late_ms = max(0, max(assigned_ms) - formed_ms - usual_ms)

    def _act(self, kind: str, number: int, producer: Any) -> None:
        if kind == "start":
            self.alive[number] = self.later[number]
            self.alive[number].say("join")
        elif kind == "stop":
            self.alive.pop(number).say("stop")
        elif kind == "crash":
            self.alive.pop(number).crash()
        else:
            assert kind == "slow", f"{kind} is not for real processes"
            [event] = self.scenario.events
            told = [each for each in self.told if each.who is self.alive[number] and each.kind == "assigned"]
            producer.send(self.topic, b"%d" % event.for_ms, partition=told[-1].partitions[0])
            producer.flush()

    def _wait_until_formed(self) -> int:
        """All partitions are assigned, each member has some, and nothing changes any more."""
        deadline_s = time.time() + PATIENCE_S
        while time.time() < deadline_s:
            time.sleep(0.02)
            told = sorted(self.told, key=lambda each: each.at_ms)
            held: dict[int, set[int]] = {}
            for each in told:
                mine = held.setdefault(each.who.number, set())
                (mine.update if each.kind == "assigned" else mine.difference_update)(each.partitions)
            owned = sorted(partition for mine in held.values() for partition in mine)
            all_have_some = len(held) == self.scenario.members and all(held.values())
            is_quiet = told and time.time() - told[-1].at_ms / 1000 > QUIET_S
            if all_have_some and is_quiet and owned == list(range(self.scenario.partitions)):
                return told[-1].at_ms
        raise AssertionError(f"{self.name}: the group has not formed: {self.told}")

    def _latest_generation(self) -> int:
        for process in self.alive.values():
            process.say("generation")
        deadline_s = time.time() + PATIENCE_S
        while any(process.generation is None for process in self.alive.values()):
            assert time.time() < deadline_s, f"{self.name}: a consumer does not tell its generation"
            time.sleep(0.02)
        return max(process.generation or -1 for process in self.alive.values())


Lived = tuple[str, Scenario, Command]
"""A name, what happens, and with which consumers."""


def live(scenarios: Sequence[Lived], bootstrap: str) -> dict[str, Seen]:
    """All of them at the same time; what came of each, by name."""
    stages: list[Stage] = []
    try:
        for name, scenario, command in scenarios:
            stages.append(Stage(name, scenario, bootstrap, command))
        for stage in stages:
            for process in stage.processes:
                assert process.ready.wait(PATIENCE_S), "a consumer has not started"
        with ThreadPoolExecutor(len(stages)) as threads:
            seen = list(threads.map(Stage.live, stages))
        return {stage.name: each for stage, each in zip(stages, seen, strict=True)}
    finally:
        for stage in stages:
            for process in stage.processes:
                process.end()
