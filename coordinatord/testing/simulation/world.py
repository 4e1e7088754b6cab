"""World of a scenario: starts, deploys and crashes processes, and counts the costs.

First the group forms: all members start within a second, and time runs until all of them have their assignment. The
report counts from then on, and the scenario's planned events are relative to that time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from coordinatord.coordination.group.consumer.state import ConsumerState
from coordinatord.coordination.group.result import Dropped, Joined, Result
from coordinatord.coordination.group.state import GroupSettings
from coordinatord.coordination.group.states import STABLE, Cause
from coordinatord.testing.member.state import MemberSettings
from coordinatord.testing.simulation.engine import Engine, Link
from coordinatord.testing.simulation.faults import FaultyNode
from coordinatord.testing.simulation.node import GROUP_ID, TOPIC, ConsumerSettings, Node
from coordinatord.testing.simulation.ownership import Ownership
from coordinatord.testing.simulation.process import Process
from coordinatord.testing.simulation.scenario import Scenario
from coordinatord.testing.simulation.units import BadScenario, Rate, duration_text

START_WITHIN_MS = 1_000
FORM_LIMIT_MS = 3_600_000
"""Time limit for the formation of the group: a group that has not formed in an hour never will."""

FALSE_ALARMS = (
    Cause.SESSION_EXPIRED, Cause.NOT_REJOINED, Cause.NOT_SYNCED, Cause.JOIN_EXPIRED, Cause.NOT_REVOKED
)  # fmt: skip
"""Causes for which the coordinator drops members that it considers dead."""

Tell = Callable[[int | None, str], object]
"""Callback with the milliseconds since the group formed (None before that) and the event."""

OWN_ID = re.compile(r"(?<![\w-])[\w-]{22}(?![\w-])")
"""Pattern of the id that a member of the consumer protocol has generated."""

MEMBER_ID = re.compile(r"(member-\d+)-[0-9a-f]{32}")


class World:
    """State of one run; call `run` once, then read the counts."""

    def __init__(self, scenario: Scenario, tell: Tell | None = None, *, lossy: bool = False) -> None:
        """Prepare a run. `lossy`: links will be cut, so every request needs a deadline; otherwise only parked requests
        do.
        """
        self.scenario = scenario
        self.lossy = lossy
        self.engine = Engine(scenario.seed)
        partitions = [(TOPIC, number) for number in range(scenario.partitions)]
        self.ownership = Ownership(self.engine, partitions)
        settings = GroupSettings(initial_rebalance_delay_ms=scenario.initial_delay)
        consumer_settings = ConsumerSettings(
            scenario.consumer_session, scenario.consumer_heartbeat, scenario.assignment_interval
        )
        self.node = Node(
            self.engine,
            settings,
            scenario.partitions,
            scenario.flush,
            self._on_record,
            self._on_step,
            consumer_settings,
        )
        self.faulty = FaultyNode(self.engine, self.node, scenario.faults, self._say) if scenario.faults else None
        self.tell = tell
        self.formed_ms = 0
        self.formed_generation = 0
        self.processes: dict[int, Process] = {}  # live processes by number
        self.links = [
            Link(self.engine, str(number), scenario.latency, lossy=lossy) for number in range(scenario.members)
        ]
        self.records: list[dict[str, Any]] = []  # ledger records since the group formed
        self.expelled_alive = 0
        self.happened: Counter[str] = Counter()
        self.names: dict[str, str] = {}  # names of processes, by the generated ids of members of the consumer protocol
        self._down: set[int] = set()  # stopped on request, not restarted
        self._coming: set[int] = set()  # waiting to be restarted

    def run(self) -> None:
        """Form the group, then run for the scenario's duration. Raises BadScenario if the group does not form."""
        scenario, engine = self.scenario, self.engine
        starts = engine.chance("starts")
        for number in range(scenario.members):
            engine.at(engine.now_ms + starts.randrange(START_WITHIN_MS), self.start, number)
        began_ms = engine.now_ms
        while not self.is_formed():
            if engine.now_ms - began_ms > FORM_LIMIT_MS:
                raise BadScenario(
                    f"the group has not formed within {duration_text(FORM_LIMIT_MS)}: its members cannot keep up with "
                    "these timeouts"
                )
            engine.run_until(engine.now_ms + 100)
        self.forming_ms = engine.now_ms - began_ms
        self.formed_ms = engine.now_ms
        self.formed_generation = self.node.generation_id
        self.records.clear()
        self.expelled_alive = 0
        self.happened.clear()
        self.ownership.begin()
        word = "epoch" if scenario.is_consumer else "generation"
        self._say(f"the group has formed: {word} {self.formed_generation}, {scenario.members} members")
        self._plan()
        engine.run_until(self.formed_ms + scenario.duration)
        self.ownership.end()

    def is_formed(self) -> bool:
        """Return whether all members are in one generation and have their assignments."""
        group, consumer = self.node.group, self.node.group.consumer
        if consumer is not None:
            return (
                len(self.processes) == self.scenario.members == len(consumer.members)
                and consumer.state is ConsumerState.STABLE
                and all(each.member.is_settled for each in self.processes.values())
            )
        return (
            len(self.processes) == self.scenario.members == len(group.members)
            and group.state is STABLE
            and all(each.generation_id == group.generation_id for each in self.processes.values())
        )

    def _plan(self) -> None:
        scenario, begin_ms = self.scenario, self.formed_ms
        acts: dict[str, Callable[..., object]] = {
            "crash": self.crash,
            "restart": self.restart,
            "stop": self.stop,
            "start": self.start,
            "pause": self.pause,
            "slow": self.slow,
        }
        for event in scenario.events:
            args = (event.number, event.for_ms) if event.for_ms else (event.number,)
            self.engine.at(begin_ms + event.at_ms, acts[event.kind], *args)
        if scenario.deploy.kind != "none":
            for number in range(scenario.members):
                wave = number // scenario.deploy.size if scenario.deploy.kind == "rolling" else 0
                at_ms = begin_ms + scenario.deploy_at + wave * scenario.deploy.every_ms
                self.engine.at(at_ms, self.restart, number)
        if self.faulty is not None:
            self.faulty.begin(begin_ms)
        self._befall("crashes", scenario.crashes, lambda number: self.crash(number))
        self._befall("pauses", scenario.pauses, lambda number: self.pause(number, scenario.pauses.for_ms))
        self._befall("slow", scenario.slow, lambda number: self.slow(number, scenario.slow.for_ms))

    def _befall(self, name: str, rate: Rate, act: Callable[[int], object]) -> None:
        """Apply `act` to each member independently, at random times that do not depend on the timeouts."""
        if not rate.per_hour:
            return
        for number in range(self.scenario.members):
            chance = self.engine.chance(f"{name} {number}")
            at_ms = 0.0
            while (at_ms := at_ms + chance.expovariate(rate.per_hour) * 3_600_000) < self.scenario.duration:
                self.engine.at(self.formed_ms + round(at_ms), act, number)

    # Events of members

    def start(self, number: int) -> None:
        """Start a process with this number, unless it runs."""
        self._down.discard(number)
        self._coming.discard(number)
        if number in self.processes:
            return
        scenario = self.scenario
        name = f"member-{number}"
        settings = MemberSettings(
            GROUP_ID,
            group_instance_id=name if scenario.static else None,
            group_protocol=scenario.protocol,
            group_remote_assignor=scenario.server_assignor if scenario.is_consumer else None,
            session_timeout_ms=scenario.session,
            heartbeat_interval_ms=scenario.heartbeat,
            max_poll_interval_ms=scenario.max_poll,
            auto_commit_interval_ms=scenario.commit,
            partition_assignment_strategy=scenario.assignor,
            fetches=False,
        )
        self._say(f"{name} starts")
        self.processes[number] = Process(
            self.engine,
            self.node,
            self.links[number],
            self.ownership,
            settings,
            number=number,
            name=name,
            processing_ms=scenario.processing,
            on_end=self._ended,
            say=self._say,
            lossy=self.lossy,
            faulty=self.faulty,
        )

    def crash(self, number: int) -> None:
        """Crash the process; it starts again after `restart`."""
        process = self._process(number, "crash")
        if process is not None:
            process.crash()

    def restart(self, number: int) -> None:
        """Restart the process as in a deployment: stop, stay down for a while, start."""
        process = self._process(number, "restart")
        if process is not None:
            process.stop()

    def stop(self, number: int) -> None:
        """Stop the process for good, or until `start` is called."""
        process = self._process(number, "stop")
        if process is not None:
            self._down.add(number)
            process.stop()

    def pause(self, number: int, for_ms: int) -> None:
        """Pause the process."""
        process = self._process(number, "pause", for_ms)
        if process is not None:
            process.pause(for_ms)

    def slow(self, number: int, for_ms: int) -> None:
        """Extend the application's current batch to `for_ms`."""
        process = self._process(number, "slow", for_ms)
        if process is not None:
            process.slow(for_ms)

    def _process(self, number: int, kind: str, for_ms: int = 0) -> Process | None:
        process = self.processes.get(number)
        if process is not None:
            self.happened[kind] += 1
            self._say(f"{process.name}: {kind}" + (f" for {duration_text(for_ms)}" if for_ms else ""))
        return process

    def _ended(self, process: Process) -> None:
        number = process.number
        del self.processes[number]
        self._say(f"{process.name} is gone")
        if number not in self._down and number not in self._coming:
            self._coming.add(number)
            self.engine.at(self.engine.now_ms + self.scenario.restart, self.start, number)

    # Actions of the coordinator

    def _on_record(self, record: dict[str, Any]) -> None:
        self.records.append(record)

    def _on_step(self, result: Result) -> None:
        for change in result.changes if self.scenario.is_consumer else ():
            if type(change) is Joined:
                self.names[change.member_id] = change.client_id
        for transition in result.transitions:
            self._say(
                f"coordinator: {transition.old.value} → {transition.new.value}, "
                f"{'epoch' if self.scenario.is_consumer else 'generation'} {transition.generation_id}"
                + (f": {transition.reason}" if transition.reason or not self.scenario.is_consumer else "")
            )
        for change in result.changes:
            if type(change) is Dropped and change.cause in FALSE_ALARMS:
                self._expelled(change)

    def _expelled(self, dropped: Dropped) -> None:
        for process in self.processes.values():
            if process.member.generation.member_id == dropped.member_id:
                process.expel()
                self.expelled_alive += 1
                self._say(f"{process.name} is expelled alive: {dropped.cause}")

    def _say(self, text: str) -> None:
        if self.tell is not None:
            told = OWN_ID.sub(lambda found: self.names.get(found[0], found[0]), MEMBER_ID.sub(r"\1", text))
            self.tell(self.engine.now_ms - self.formed_ms if self.formed_ms else None, told)
