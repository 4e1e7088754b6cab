"""Worlds in which requests meet the faults of coordinatord.testing (coordinatord/server/control): the same code as in
tests.

A seed decides when a fault begins and ends, what it does, to which requests, and which of those its chance hits. All
nodes of a world share its faults, as a restarted coordinator keeps those of a test. What must hold is what must hold
in every world: a fault may lose, delay or repeat a request, and no promise of the coordinator.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from coordinatord.server.control.faults import Fault, Faults, Kind
from coordinatord.server.daemon.embedded import EmbeddedOptions
from tests.testing.simulation.invariants import Watch
from tests.testing.simulation.plan import MINUTE_MS, Plan
from tests.testing.simulation.troubles import Troubles
from tests.testing.simulation.world import World

if TYPE_CHECKING:
    from coordinatord.testing.member.send import Send
    from tests.testing.simulation.network import Cable
    from tests.testing.simulation.nodes import Node, SimulatedDaemon

MOVING = ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE")
ERRORS = {
    "Heartbeat": (*MOVING, "REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"),
    "JoinGroup": (*MOVING, "COORDINATOR_LOAD_IN_PROGRESS", "UNKNOWN_MEMBER_ID"),
    "SyncGroup": (*MOVING, "REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID"),
    "OffsetCommit": (*MOVING, "COORDINATOR_LOAD_IN_PROGRESS", "REBALANCE_IN_PROGRESS"),
    "OffsetFetch": ("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"),
    "LeaveGroup": MOVING,
    "FindCoordinator": ("COORDINATOR_NOT_AVAILABLE",),
}
"""What `fail` answers: errors that Kafka's coordinator answers now and then, too."""

APIS = (*ERRORS, "Metadata")
OFTEN = 0.6
"""How often a fault begins with another trouble."""


class FaultyWatch(Watch):
    """A request that a fault has stopped has reached its node, and was not processed."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.struck: set[Any] = set()

    def started(self, node: Node, daemon: SimulatedDaemon) -> None:
        super().started(node, daemon)
        assert daemon.control is not None
        requests = daemon.control.requests
        strike, go_on = requests._strike, requests._go_on

        def struck(fault: Fault, connection: Any, context: Any, *more: Any) -> None:
            self.checks += 1
            if fault.kind in (Kind.HOLD, Kind.DELAY, Kind.DROP):
                self.stopped.add(context)
            self.struck.add(connection)
            for cable in node.cables:
                if cable.connection is connection:
                    cable.path.disturbed_ms = self.world.engine.now_ms
            self.world.story.say(node.name, f"{connection.client_id}: {fault.description()}")
            strike(fault, connection, context, *more)

        def goes_on(stopped: Any) -> None:
            """It is processed now, and whoever has sent it is heard of now."""
            self.stopped.discard(stopped.context)
            request = stopped.context.codec.decode_request(stopped.frame, *stopped.context.where[1:])
            key = (getattr(request, "group_id", ""), getattr(request, "member_id", ""))
            if key in self.contacts:
                self.contacts[key] = (node.life, node.clock())
            go_on(stopped)

        requests._strike = struck  # type: ignore[method-assign]
        requests._go_on = goes_on  # type: ignore[method-assign]

    def delivered(self, cable: Cable, send: Send) -> None:
        key = (getattr(send.request, "group_id", ""), send.generation.member_id)
        heard = self.heartbeats.pop(key, None)
        super().delivered(cable, send)
        if cable.connection in self.struck or cable.connection.closed:
            self.struck.discard(cable.connection)
            self.heartbeats.pop(key, None)
        if heard is not None:
            self.heartbeats.setdefault(key, heard)


class FaultyWorld(World):
    """See the module."""

    watch_type = FaultyWatch

    def __init__(self, seed: int, *, plan: Plan | None = None, trace: bool = False) -> None:
        super().__init__(seed, plan=plan, trace=trace)
        self.faults = Faults(seed)
        self.guest = EmbeddedOptions(faults=self.faults)
        self.settings = replace(self.settings, test_control_enable=True)
        self.meddling = Meddling(self)
        self.troubles = self.meddling

    def _calm(self) -> None:
        self.meddling.end_all()
        super()._calm()


class Meddling(Troubles):
    """What goes wrong anyway, and faults."""

    world: FaultyWorld

    def __init__(self, world: FaultyWorld) -> None:
        super().__init__(world)
        self.chance = world.engine.chance("faults")
        self.hits: Counter[str] = Counter()

    def befall(self) -> None:
        super().befall()
        if self.chance.random() < OFTEN:
            self._begin()

    def _begin(self) -> None:
        chance, world = self.chance, self.world
        clients = sorted(world.consumers)
        client = chance.choice(clients) if clients and chance.random() < 0.5 else None
        if client is not None and chance.random() < 0.15:
            fault = world.faults.add("drop", client=client)  # a blackhole
        else:
            fault = self._fault(client)
        world.story.say("faults", f"begin to {fault.description()}")
        counted = world.counts.troubles
        counted[fault.kind.value] = counted.get(fault.kind.value, 0) + 1
        for ends, path in world.network.paths.items():
            if fault.is_blackhole and fault.client in ends:
                path.disturbed_ms = world.engine.now_ms
        self._tell(lambda requests: requests.begun(fault))
        world.engine.at(
            world.engine.now_ms + chance.choice((500, 5_000, 30_000, 2 * MINUTE_MS)), self._end, fault.number
        )

    def _fault(self, client: str | None) -> Fault:
        chance = self.chance
        kind = chance.choice([each.value for each in Kind])
        api = chance.choice(list(ERRORS if kind == Kind.FAIL else APIS))
        return self.world.faults.add(
            kind,
            api=api,
            client=client,
            error=chance.choice(ERRORS[api]) if kind == Kind.FAIL else None,
            after=kind in (Kind.DROP, Kind.DISCONNECT) and chance.random() < 0.5,
            delay_ms=chance.choice((1, 20, 500, 5_000, 30_000)) if kind == Kind.DELAY else 0,
            times=chance.choice((None, 1, 3)),
            probability=chance.choice((None, 0.5, 0.2)),
        )

    def end_all(self) -> None:
        """Everything is mended."""
        for number in list(self.world.faults.active):
            self._end(number)

    def _end(self, number: int) -> None:
        if number in self.world.faults.active:
            fault = self.world.faults.remove(number)
            self.world.faults.removed.clear()
            self.hits["blackhole" if fault.is_blackhole else fault.kind.value] += fault.hits
            self.world.story.say("faults", f"no longer {fault.description()}: {fault.hits} hits")
            self._tell(lambda requests: requests.ended(fault))

    def _tell(self, what: Any) -> None:
        """Each node, on its own loop."""
        for node in self.world.machine.workers:
            if node.daemon is not None and node.daemon.control is not None:
                node.soon(what, node.daemon.control.requests)
