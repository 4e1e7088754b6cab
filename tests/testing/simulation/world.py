"""A world from one seed: nodes, groups of members, a network, disks, clocks; what goes wrong with them; what must hold.

A world lives through chapters. In each there is first mayhem for some minutes: members and nodes are killed, stopped,
paused, paths are cut, disks fail, the power fails, partitions move to other nodes. Then everything is mended, and
within a bound every group must be Stable with all its members, every partition owned, nothing unanswered, and the
logs must say what the nodes have in memory, before and after compaction. Then hours pass in which little happens.

Where nothing happens but heartbeats, time is skipped: the deadlines of both sides move by the same amount, as if they
had been sent and answered. `Counts` tells how much of the time that was.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from coordinatord.base.config import Settings
from coordinatord.base.observe.logger import silent
from coordinatord.broker.log.errors import LogFailed
from coordinatord.broker.topics.names import OFFSETS_TOPIC
from coordinatord.coordination.group.states import STABLE
from coordinatord.coordination.service.groups import GroupActor
from coordinatord.server.daemon.embedded import EmbeddedOptions
from coordinatord.testing.member.send import ANY_NODE, Send
from coordinatord.testing.member.state import MemberSettings
from coordinatord.testing.simulation.engine import START_MS, Engine
from coordinatord.transport.cluster.partitioner import partition_for
from coordinatord.transport.net.router import Router
from tests.testing.simulation.clocks import machine_clock_hidden
from tests.testing.simulation.invariants import Violated, Watch
from tests.testing.simulation.members import Consumer
from tests.testing.simulation.network import Network
from tests.testing.simulation.nodes import Machine, Node, chance_of
from tests.testing.simulation.operators import Operator
from tests.testing.simulation.plan import HOUR_MS, MINUTE_MS, SECOND_MS, GroupPlan, Plan
from tests.testing.simulation.story import Story
from tests.testing.simulation.troubles import Troubles

NEW_MEMBER_JOIN_MS = 300_000
"""Kafka's constant: a newcomer whose connection broke while its join was parked stays for so long."""

AWAY_MS = 60_000
"""Longer than any node is away."""

QUIET_MS = 6 * HOUR_MS
"""The mean time between two things that happen in quiet hours."""

LOOK_MS = 1_000
"""How often the nodes are looked at from inside while much happens."""


@dataclass(slots=True)
class Counts:
    """How much has happened."""

    virtual_ms: int = 0
    skipped_ms: int = 0
    troubles: dict[str, int] = field(default_factory=dict)
    rebalances: int = 0
    checks: int = 0


class World:
    """See the module; `run` once."""

    watch_type = Watch
    machine_type = Machine
    guest: EmbeddedOptions | None = None  # with faults for requests: faulty.py

    def __init__(self, seed: int, *, plan: Plan | None = None, trace: bool = False) -> None:
        self.seed = seed
        self.plan = plan = plan or Plan.of(seed)
        self.engine = Engine(seed)
        self.story = Story(self.engine, is_traced=trace)
        self.random = self.engine.chance("world")
        self.lives = 0
        self.serial = 0
        self.groups = {group.group_id: group for group in plan.groups}
        self.settings = replace(
            Settings(),
            offsets_topic_num_partitions=plan.offsets_partitions,
            offsets_topic_segment_bytes=plan.segment_bytes,
            offsets_retention_minutes=plan.retention_minutes,
            num_partitions=plan.topic_partitions,
            log_flush=plan.flush,
            log_cleaner_backoff_ms=10 * MINUTE_MS,
            log_cleaner_min_cleanable_ratio=0.1,
            rebalance_ledger_enable=False,
        )
        self.watch = self.watch_type(self)
        self.network = Network(self.engine)
        self.machine = self.machine_type(self)
        self.consumers: dict[str, Consumer] = {}
        self.counts = Counts()
        self.troubles = Troubles(self)
        self.operator = Operator(self)
        self.asleep: set[str] = set()  # groups without members for a while
        self.is_mayhem = False
        self.loads = self.engine.chance("loads")

    def next_serial(self) -> int:
        self.serial += 1
        return self.serial

    # The story of the world

    def run(self) -> Counts:
        """Live through all chapters. `Violated` names what does not hold."""
        with simulated(self.machine):
            try:
                self._run()
            finally:
                self.counts.virtual_ms = self.engine.now_ms - START_MS
                self.counts.rebalances = self.watch.rebalances
                self.counts.checks = self.watch.checks
                for node in self.machine.nodes:
                    if node.loop is not None:
                        node.loop.end()
        return self.counts

    def _run(self) -> None:
        self.machine.start()
        for group in self.plan.groups:
            for number in range(group.members):
                self.engine.at(self.engine.now_ms + self.random.randrange(5_000), self.start_consumer, group, number)
        self._calm()
        for _ in range(self.plan.chapters):
            self._mayhem()
            self._calm()
            self._rest()
            self._quiet()

    def pass_time(self, for_ms: int) -> None:
        """With a look at everything now and then."""
        end_ms = self.engine.now_ms + for_ms
        while self.engine.now_ms < end_ms:
            self.engine.run_until(min(end_ms, self.engine.now_ms + LOOK_MS))
            self.watch.look()

    def load_ms(self) -> int:
        """How long a disk takes until a partition can be read."""
        return self.loads.choice((0, 0, 1, 20, 200, 1_000))

    def node_started(self) -> None:
        """Somebody wants to know at once what became of the offsets."""
        if self.loads.random() < 0.5:
            self.engine.at(self.engine.now_ms + self.loads.choice((1, 10, 100, 500)), self.operator.look_at_offsets)

    def _mayhem(self) -> None:
        self.story.say("world", "mayhem")
        self.is_mayhem = True
        end_ms = self.engine.now_ms + self.plan.mayhem_ms
        while self.engine.now_ms < end_ms:
            self.pass_time(1 + int(self.random.expovariate(self.plan.troubles_per_minute) * MINUTE_MS))
            self.troubles.befall()
        self.is_mayhem = False

    def _calm(self) -> None:
        """Mend everything; all must be well within the bound."""
        self.story.say("world", "everything is mended")
        for path in self.network.paths.values():
            if path.is_cut:
                self.network.mend(path)
        for node in self.machine.workers:
            if node.daemon is not None:
                node.worker.slow_ms, node.worker.fault = 0, None
        if not self.machine.is_on:
            self.machine.start()
        self.asleep.clear()
        for group in self.plan.groups:
            for number in range(group.members):
                self.start_consumer(group, number)
        began_ms = self.engine.now_ms
        bound_ms = AWAY_MS + NEW_MEMBER_JOIN_MS + max(
            3 * (each.session_ms + each.rebalance_ms) for each in self.plan.groups
        )  # fmt: skip
        while (unsettled := self.unsettled()) is not None:
            if self.engine.now_ms - began_ms > bound_ms:
                self.watch.fail(f"after {bound_ms / 1000:g} s without any trouble {unsettled}")
            self.pass_time(LOOK_MS)
        self.story.say("world", f"all is well after {(self.engine.now_ms - began_ms) / 1000:g} s")

    def unsettled(self) -> str | None:
        """What is not as it should be when nothing goes wrong any more."""
        for node in self.machine.workers:
            if node.daemon is None or node.stopping:
                return f"{node.name} does not run"
            if node.daemon.coordinator.is_loading:
                return f"{node.name} loads"
        for group in self.plan.groups:
            actor = self.actor(group.group_id)
            if group.group_id in self.asleep:
                if actor is not None and actor.group.members:
                    return f"{group.group_id} has members"
                continue
            if actor is None or actor.group.state is not STABLE:
                return f"{group.group_id} is {actor.group.state.value if actor else 'nowhere'}"
            live = actor.group
            owned: list[tuple[str, int]] = []
            mine = [each for each in self.consumers.values() if each.group is group]
            for consumer in mine:
                member = consumer.member
                if not consumer.is_settled() or consumer.stopping:
                    return f"{consumer.name} is {member.state.value} and has not got all it wants"
                if member.generation.generation_id != live.generation_id:
                    return f"{consumer.name} is in generation {member.generation.generation_id}"
                if member.generation.member_id not in live.members:
                    return f"{consumer.name} is no member"
                owned += member.assignment
            if len(live.members) != len(mine):
                return f"{group.group_id} has {len(live.members)} members for {len(mine)} consumers"
            if sorted(owned) != [(group.topic, number) for number in range(self.plan.topic_partitions)]:
                return f"{group.group_id}: {sorted(owned)} are owned"
        return None

    def leader_of(self, group_id: str) -> Node | None:
        """The node that coordinates a group, if it runs."""
        partition = partition_for(group_id, self.plan.offsets_partitions)
        node = self.machine.nodes[partition % self.machine.count]
        return None if node.daemon is None else node

    def actor(self, group_id: str) -> GroupActor | None:
        """The group, where it is served."""
        node = self.leader_of(group_id)
        return None if node is None or node.daemon is None else node.daemon.coordinator.actors.get(group_id)

    def _rest(self) -> None:
        """Compare logs and memory, before and after compaction."""
        self.operator.look_at_offsets()
        self.pass_time(5 * SECOND_MS)
        self._settle_logs()
        self.watch.at_rest()
        for node in self.machine.workers:
            daemon = node.daemon
            assert daemon is not None
            for partition in range(self.plan.offsets_partitions):
                log = daemon.data.get(OFFSETS_TOPIC, partition)
                if log is not None and log.segments and daemon.nodes.owns(OFFSETS_TOPIC, partition):
                    daemon.writer.roll(log)
            self.engine.at(self.engine.now_ms + 100, daemon.compaction.look)
        self.pass_time(5 * SECOND_MS)
        self._settle_logs()
        self.watch.at_rest()

    def _settle_logs(self) -> None:
        """Until nothing is under way to a disk."""
        while any(node.is_writing for node in self.machine.workers):
            self.engine.run_until(self.engine.now_ms + 1)

    def _quiet(self) -> None:
        """Hours with a little work, and little else. A group may have no members meanwhile, and lose its offsets."""
        self._send_to_sleep()
        end_ms = self.engine.now_ms + self.plan.quiet_ms
        while self.engine.now_ms < end_ms:
            self.pass_time(10 * SECOND_MS)
            until_ms = min(end_ms, self.engine.now_ms + int(self.random.expovariate(1 / QUIET_MS)))
            while self.engine.now_ms < until_ms:
                busy_ms = min([until_ms, *(each.busy_ms() for each in self.consumers.values())])
                if busy_ms - self.engine.now_ms > MINUTE_MS and self._is_idle():
                    self._skip(busy_ms - self.engine.now_ms - SECOND_MS)
                    self.engine.run_until(busy_ms)
                self.pass_time(min(10 * SECOND_MS, max(1, until_ms - self.engine.now_ms)))
            self.troubles.work()
            if self.random.random() < 0.3:
                self.troubles.kill_member()
        self._rest()
        self._calm()

    def _send_to_sleep(self) -> None:
        if len(self.groups) > 1 and self.random.random() < 0.5:
            group_id = self.random.choice(list(self.groups))
            self.asleep.add(group_id)
            self.story.say("world", f"{group_id} is not needed for now")
            for consumer in list(self.consumers.values()):
                if consumer.group.group_id == group_id:
                    consumer.stop()

    def _is_idle(self) -> bool:
        """Whether heartbeats are all that there is to do until somebody's next deadline, and none is under way: a late
        answer would set the session of its member, who is put off, back to now.
        """
        now_ms = self.engine.now_ms
        return (
            len(self.consumers) == sum(each.members for each in self.plan.groups if each.group_id not in self.asleep)
            and self.unsettled() is None
            and all(now_ms > node.disturbed_ms for node in self.machine.workers)
            and all(now_ms > each.disturbed_ms and not each.unanswered for each in self.consumers.values())
        )

    def _skip(self, for_ms: int) -> None:
        """As if heartbeats had gone to and fro for so long."""
        if for_ms <= 0:
            return
        self.counts.skipped_ms += for_ms
        for consumer in self.consumers.values():
            local_ms = int(for_ms * consumer.clock.rate)
            heartbeat = consumer.member.heartbeat
            heartbeat.heartbeat.deadline_ms += local_ms
            heartbeat.session.deadline_ms += local_ms
        for node in self.machine.workers:
            daemon = node.daemon
            assert daemon is not None
            local_ms = int(for_ms * node.clock.rate)
            for actor in daemon.coordinator.actors.values():
                for member_id, member in actor.group.members.items():
                    member.heard_ms += local_ms
                    key = (actor.group.group_id, member_id)
                    for heard in (self.watch.contacts, self.watch.heartbeats):
                        if key in heard:
                            heard[key] = (heard[key][0], heard[key][1] + local_ms)
                key = (node.life, actor.group.group_id)
                self.watch.known_since[key] = node.clock() + local_ms
            for connection in daemon.connections.open:
                connection.last_active_ms += local_ms

    # Members

    def member_settings(self, group: GroupPlan, number: int) -> MemberSettings:
        """Those of a process that starts now."""
        return group.member_settings(number)

    def start_consumer(self, group: GroupPlan, number: int) -> None:
        name = f"{group.group_id}.c{number}"
        if name not in self.consumers and group.group_id not in self.asleep:
            self.story.say(name, "starts")
            self.consumers[name] = Consumer(self, group, number)

    def consumer_ended(self, consumer: Consumer) -> None:
        """It is gone; another one of its name comes later."""
        if self.consumers.get(consumer.name) is consumer:
            del self.consumers[consumer.name]
        self.watch.process_ended(consumer)
        after_ms = self.random.choice((200, 2_000, 20_000, 2 * MINUTE_MS))
        self.engine.at(self.engine.now_ms + after_ms, self.start_consumer, consumer.group, consumer.number)

    def node_for(self, consumer: Consumer, send: Send) -> Node | None:
        """Whom a request goes to; None: nobody by that address."""
        if send.to != ANY_NODE and not send.group:
            number = send.to
        elif send.group:
            number = int(consumer.member.coordinator_address[0].removeprefix("node-"))
        else:
            number = consumer.random.randrange(self.machine.count)
        return self.machine.nodes[number] if number < len(self.machine.nodes) else None


@contextlib.contextmanager
def simulated(machine: Machine) -> Iterator[None]:
    """Everything that this process shares with a world is the world's for a while."""

    before: Callable[..., Any] = Router.failed

    def failed(connection: Any, codec: Any) -> None:
        error = sys.exc_info()[1]
        if isinstance(error, LogFailed):
            before(connection, codec)  # it came between the log's failure and the stop
        elif isinstance(error, Violated):
            raise error
        else:
            raise Violated(f"a handler of {codec.name} failed for {connection.client_id}: {error!r}")

    Router.failed = staticmethod(failed)  # type: ignore[assignment]
    try:
        with silent(), machine_clock_hidden(machine.world.load_ms), chance_of(machine):
            yield
    finally:
        Router.failed = staticmethod(before)  # type: ignore[assignment]
