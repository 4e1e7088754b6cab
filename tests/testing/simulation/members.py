"""The consumers of the simulated world: the real member and its real wire, and an application around them.

The application polls all the time, as one does that waits for records. It reads none: its partitions are paused, and
`work` says how far it has come in them, by numbers that no other commit of the world has. So each commit can be told
from all others wherever it is seen again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from coordinatord.testing.member.events import (
    Close,
    Commit,
    Failed,
    Pause,
    Poll,
    Received,
    Seek,
    Subscribe,
    Wakeup,
    Woken,
)
from coordinatord.testing.member.result import Assigned, Result
from coordinatord.testing.member.send import ANY_NODE, Send
from coordinatord.testing.member.state import Member
from coordinatord.testing.member.step import NOTHING, step
from coordinatord.testing.member.timer import NEVER
from coordinatord.testing.member.wire import Wire
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.metadata import MetadataRequest
from kafka_wire.errors import DecodeError
from tests.testing.simulation.clocks import Clock
from tests.testing.simulation.hasty import Hasty, is_for_the_leader
from tests.testing.simulation.network import Cable
from tests.testing.simulation.nodes import Node

if TYPE_CHECKING:
    from coordinatord.testing.simulation.engine import Engine
    from tests.testing.simulation.plan import GroupPlan
    from tests.testing.simulation.world import World

POLL_TIMEOUT_MS = 24 * 3_600_000
RECONNECT_BACKOFF_MS = 50
CLOSE_TIMEOUT_MS = 30_000
HEARTBEATS = (HeartbeatRequest, ConsumerGroupHeartbeatRequest)


class MemberWire(Wire):
    """The wire on a cable; says with each write which request it carries."""

    def __init__(self, world: World, client: Any, node: Node) -> None:
        super().__init__(client.name, client.answered, client.lost)
        self._fail = world.watch.fail
        self.cable: Cable = world.network.connect(client, node, self)
        self.cable.on_arrived = world.watch.unheard.arrived
        self.cable.on_delivered = world.watch.delivered
        self.cable.on_over = world.watch.over
        node.cables.add(self.cable)

    def data_received(self, data: bytes) -> None:
        try:
            for sent, response in self._connection.receive_data(data):
                self._answered(sent, response)
                if self.closed:
                    return  # by this response: those in the same bytes are to nobody
        except DecodeError as error:
            self._fail(f"{self.client_id} cannot read what {self.cable.server.name} answers: {error}")

    def _send(self, token: Any, request: Any, version: int) -> None:
        transport: Any = self._transport
        transport.meta = None if token is self else token
        super()._send(token, request, version)

    def close(self) -> None:
        if self._transport is None:
            self.cable.client_closes()
        super().close()


class Process:
    """A process of the world, which may stand still."""

    engine: Engine
    alive: bool
    paused_until_ms: int

    def soon(self, call: Callable[..., object], *args: Any) -> None:
        """Now, or when the process goes on."""
        if not self.alive:
            return
        if self.engine.now_ms < self.paused_until_ms:
            self.engine.at(self.paused_until_ms, self.soon, call, *args)
        else:
            call(*args)


class Consumer(Process):
    """One life of one process."""

    def __init__(self, world: World, group: GroupPlan, number: int) -> None:
        self.world = world
        self.engine = world.engine
        self.group = group
        self.number = number
        self.name = f"{group.group_id}.c{number}"
        world.lives += 1
        chance = world.engine.chance(f"{self.name} {world.lives}")
        self.random = chance
        self.clock = Clock(self.engine, 1 + chance.uniform(-1, 1) * world.plan.drift, chance.randrange(100_000))
        self.member = Member(world.member_settings(group, number), chance.random)
        self.alive = True
        self.stopping = False
        self.paused_until_ms = 0
        self.disturbed_ms = 0
        self.wires: dict[tuple[int, bool], MemberWire] = {}
        self.unanswered: dict[Send, tuple[int, MemberWire]] = {}
        self.hasty = Hasty(self, world.lives)
        self.metadata_stalls_ms = 0  # the next answer about metadata is so late
        self._wakes_at_ms = NEVER
        self.tell(Subscribe([group.topic]))
        self.engine.at(self.engine.now_ms + 1, self._poll)

    # What the world does to it

    def crash(self, *, told: bool) -> None:
        """SIGKILL: the kernel hangs up. Not `told`: its machine is off, and nobody does."""
        self.world.story.say(self.name, "is killed" if told else "loses its power")
        self._end(told=told)

    def stop(self) -> None:
        """Commit, leave, end."""
        if not self.stopping:
            self.stopping = True
            self.world.story.say(self.name, "stops")
            self.soon(self._close)

    def pause(self, for_ms: int) -> None:
        """Nothing of the process runs for so long."""
        self.world.story.say(self.name, f"stands still for {for_ms / 1000:g} s")
        self.paused_until_ms = max(self.paused_until_ms, self.engine.now_ms + for_ms)
        self.disturbed_ms = self.paused_until_ms

    def work(self) -> None:
        """Come further in some partitions, and commit or do not."""
        member = self.member
        if not self.alive or self.engine.now_ms < self.paused_until_ms or self.stopping or member.sync_commit:
            return
        moved = False
        for partition, state in member.partitions.items():
            if state.position is not None and self.random.random() < 0.6:
                self.tell(Seek(partition, self.world.next_serial()))
                moved = True
        if not moved:
            return
        how = self.random.random()
        if how < 0.55:
            self.tell(Commit())
        elif how < 0.8:
            if member.in_poll:
                self.tell(Wakeup())
            self.tell(Commit(None, 15_000))

    def busy_ms(self) -> int:
        """The engine's time at which it does something next that is no heartbeat."""
        member = self.member
        return self.clock.when(min(member.wake_ms, member.poll_until_ms)) if member.in_poll else self.engine.now_ms

    def is_settled(self) -> bool:
        """A member that has all it wants."""
        member = self.member
        return (
            member.is_settled
            and member.sync_commit is None
            and member.coordinator is not None
            and all(state.position is not None for state in member.partitions.values())
            and not any(type(send.request) not in HEARTBEATS for send in self.unanswered)
        )

    # The application

    def _poll(self) -> None:
        member = self.member
        if not self.alive or self.stopping or member.in_poll or member.closed:
            return
        if self.engine.now_ms < self.paused_until_ms:
            self.engine.at(self.paused_until_ms, self._poll)
        elif member.sync_commit is not None:
            self.engine.at(self.engine.now_ms + 20, self._poll)
        else:
            self.tell(Poll(POLL_TIMEOUT_MS))

    def _close(self) -> None:
        if not self.member.closed and self.member.closing is None:
            self.tell(Close(CLOSE_TIMEOUT_MS))

    def _end(self, *, told: bool = True) -> None:
        self.alive = False
        for wire in list(self.wires.values()):
            if told:
                wire.cable.client_closes()
            else:
                wire.cable.client_open = False
        self.wires.clear()
        self.world.consumer_ended(self)

    def tell(self, event: Any) -> None:
        result = step(self.member, event, self.clock())
        if result is NOTHING:
            return
        self._apply(result)
        self._schedule()

    def _apply(self, result: Result) -> None:
        world = self.world
        if result.disconnect:
            for (_, group), wire in list(self.wires.items()):
                if group:
                    wire.close()
        for transition in result.transitions:
            why = f": {transition.reason}" if transition.reason else ""
            generation_id = transition.generation.generation_id
            world.story.say(self.name, f"{transition.old} → {transition.new}, generation {generation_id}{why}")
            self.hasty.heard(transition.generation)
        for change in result.changes:
            world.watch.changed(self, change)
            if isinstance(change, Assigned):
                step(self.member, Pause([each for each in change.partitions if each in self.member.partitions]), 0)
        for send in result.sends:
            self._send(send)
        if result.closed:
            world.story.say(self.name, "has stopped")
            self._end()
            return
        if result.polled is not None:
            if result.polled.error is not None:
                world.watch.poll_failed(self, result.polled)
                self._end()
                return
            self.engine.at(self.engine.now_ms + self.random.choice((1, 1, 5, 50)), self._poll)

    def _schedule(self) -> None:
        deadline_ms = self.member.next_deadline_ms
        if deadline_ms >= NEVER or not self.alive:
            return
        when_ms = max(self.clock.when(deadline_ms), self.engine.now_ms)
        if when_ms < self._wakes_at_ms or self._wakes_at_ms < self.engine.now_ms:
            self._wakes_at_ms = when_ms
            self.engine.at(when_ms, self._wake, when_ms)

    def _wake(self, when_ms: int) -> None:
        if when_ms != self._wakes_at_ms or not self.alive:
            return
        if self.engine.now_ms < self.paused_until_ms:
            self._wakes_at_ms = self.paused_until_ms
            self.engine.at(self.paused_until_ms, self._wake, self.paused_until_ms)
            return
        self._wakes_at_ms = NEVER
        if self.member.next_deadline_ms <= self.clock():
            self.tell(Woken())
        self._schedule()

    # The network

    def _send(self, send: Send) -> None:
        node = self.world.node_for(self, send)
        if node is None:
            self.engine.at(self.engine.now_ms + RECONNECT_BACKOFF_MS, self.soon, self._fail, send)
            return
        key = (node.number if send.to == ANY_NODE else send.to, send.group)
        wire = self.wires.get(key)
        if wire is None:
            wire = self.wires[key] = MemberWire(self.world, self, node)
        if self.metadata_stalls_ms and type(send.request) is MetadataRequest:
            wire.cable.stall(self.metadata_stalls_ms)
            self.metadata_stalls_ms = 0
        self.write(send, wire)
        if send.group:
            self.hasty.follow(wire, send)

    def write(self, send: Send, wire: MemberWire) -> None:
        """Ask, and wait for an answer."""
        self.unanswered[send] = (self.engine.now_ms, wire)
        self.engine.at(self.engine.now_ms + send.timeout_ms, self.soon, self._timed_out, send)
        self.world.watch.sent(self, send, wire.cable)
        wire.ask(send, send.request)

    def answered(self, send: Send, response: Any) -> None:
        """The wire's, and None for requests that it will not have answers to."""
        sent_ms, wire = self.unanswered.pop(send)
        if not self.alive:
            return
        self.world.watch.answered(self, send, response, sent_ms, wire.cable.life)
        if send in self.hasty.sends:
            self.hasty.sends.discard(send)
            return
        if is_for_the_leader(send, response):
            self.hasty.leads()
        if response is not None:
            self.tell(Received(send, response))
        elif not send.abandoned:
            self.engine.at(self.engine.now_ms + RECONNECT_BACKOFF_MS, self.soon, self._fail, send)

    def _fail(self, send: Send) -> None:
        self.tell(Failed(send))

    def _timed_out(self, send: Send) -> None:
        found = self.unanswered.get(send)
        if found is not None:
            self.world.watch.timed_out(self, send, *found)
            found[1].close()

    def lost(self, wire: Wire) -> None:
        for key, known in list(self.wires.items()):
            if known is wire:
                del self.wires[key]
