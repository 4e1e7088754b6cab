"""Faults of a scenario, as in coordinatord.testing; coordinatord/server/control/faults.py selects the requests.

A client has two connections: one to the group's coordinator, one for all other requests. As on the real server, a
request that a fault has stopped stops later requests on its connection, and a connection whose request was dropped
serves no further request until its client closes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from coordinatord.server.control.faults import Fault, Faults, Kind
from coordinatord.server.control.problems import ControlError
from coordinatord.testing.member.send import Send
from coordinatord.testing.simulation.engine import Engine
from coordinatord.testing.simulation.node import (
    COMMIT,
    CONSUMER_HEARTBEAT,
    GROUP_ID,
    HEARTBEAT,
    JOIN,
    LEAVE,
    SYNC,
    Answer,
    Node,
)
from coordinatord.testing.simulation.units import BadScenario, duration_ms, written_ms
from kafka_wire.api_key import ApiKey
from kafka_wire.registry import error_response

BLACKHOLE = "blackhole"

VERSIONS = {
    ApiKey.JOIN_GROUP: JOIN,
    ApiKey.HEARTBEAT: HEARTBEAT,
    ApiKey.LEAVE_GROUP: LEAVE,
    ApiKey.SYNC_GROUP: SYNC,
    ApiKey.OFFSET_COMMIT: COMMIT,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: CONSUMER_HEARTBEAT,
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.METADATA: 12,
}
"""APIs of the simulated members, and the versions of their responses."""

KEYS = {f"{key.title}Request": key for key in VERSIONS}
"""API keys by the name of the request's class."""

EXAMPLE = "write fail:OffsetCommit:NOT_COORDINATOR:times=3, delay:SyncGroup:2s:client=member-1, or blackhole:member-0"


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault in its text form: `KIND:API…:NAME=VALUE…`. It begins at `at_ms` after the group has formed, and ends
    `for_ms` later, or never.
    """

    text: str
    arguments: tuple[tuple[str, Any], ...]
    at_ms: int = 0
    for_ms: int | None = None

    def __str__(self) -> str:
        return self.text

    def add_to(self, faults: Faults) -> Fault:
        """Add the fault to `faults`. Raises ControlError."""
        return faults.add(**dict(self.arguments))


def planned_fault(value: object) -> PlannedFault:
    """Parse a fault. Raises BadScenario: names and numbers are checked like those of a test's fault."""
    text = str(value).strip()
    words: list[str] = []
    options: dict[str, str] = {}
    for part in text.split(":"):
        name, equals, given = part.partition("=")
        if not equals and part != "after":
            if options:
                raise BadScenario(f"{text[:80]!r}: {part!r} has no name: {EXAMPLE}")
            words.append(part)
        elif name in options:
            raise BadScenario(f"{text[:80]!r}: {name} is there twice")
        else:
            options[name] = given
    arguments = _named(text, words)
    at_ms = duration_ms(options.pop("at", "0"))
    lasts = options.pop("for", None)
    for name, given in options.items():
        if name not in _OPTIONS or name in arguments:
            raise BadScenario(f"{text[:80]!r}: there is no {name} here; there are {', '.join(_OPTIONS)}, at, for")
        arguments[name] = _read(text, name, given)
    made = PlannedFault(text, tuple(arguments.items()), at_ms, None if lasts is None else duration_ms(lasts))
    try:
        made.add_to(Faults())
    except ControlError as error:
        raise BadScenario(f"{text[:80]!r}: {str(error).removesuffix('.')}") from None
    return made


def _named(text: str, words: list[str]) -> dict[str, Any]:
    """Return the positional arguments by name."""
    kind, *more = words or [""]
    if kind == BLACKHOLE and len(more) == 1:
        return {"kind": Kind.DROP.value, "client": more[0]}
    if kind not in list(Kind) or len(more) != 1 + (kind in (Kind.FAIL, Kind.DELAY)):
        raise BadScenario(f"{text[:80]!r} is no fault: {EXAMPLE}")
    arguments: dict[str, Any] = {"kind": kind, "api": more[0]}
    known = {key.title for key in VERSIONS}
    if arguments["api"] not in known:
        raise BadScenario(f"{text[:80]!r}: the simulated members send {', '.join(sorted(known))}, not {more[0]}")
    if kind == Kind.FAIL:
        if more[0] == ApiKey.METADATA.title:
            raise BadScenario(f"{text[:80]!r}: Metadata cannot fail here; drop, delay or disconnect it")
        arguments["error"] = more[1]
    elif kind == Kind.DELAY:
        arguments["delay_ms"] = duration_ms(more[1])
    return arguments


_OPTIONS: dict[str, Callable[[str], Any]] = {
    "client": str, "group": str, "times": int, "nth": int, "every": int, "probability": float, "after": bool,
}  # fmt: skip


def _read(text: str, name: str, given: str) -> Any:
    if name == "after":
        if given or not text.startswith((Kind.DROP, Kind.DISCONNECT)):
            raise BadScenario(f"{text[:80]!r}: after stands alone, with drop and disconnect")
        return True
    try:
        return _OPTIONS[name](given)
    except ValueError:
        raise BadScenario(f"{text[:80]!r}: {name} is a number, not {given!r}") from None


def check_faults(faults: Sequence[PlannedFault], members: int, duration: int) -> None:
    """Raise BadScenario if a fault is for an unknown client or group, or for a time after the end."""
    for each in faults:
        arguments = dict(each.arguments)
        client, group = arguments.get("client"), arguments.get("group", GROUP_ID)
        if client is not None and client not in {f"member-{number}" for number in range(members)}:
            raise BadScenario(f"fault {each}: the clients are member-0 to member-{members - 1}, not {client}")
        if group != GROUP_ID:
            raise BadScenario(f"fault {each}: the group is called {GROUP_ID}, not {group}")
        if each.at_ms >= duration:
            raise BadScenario(f"fault {each} comes after the end, at {written_ms(duration)}")


@dataclass(slots=True, eq=False)
class _Call:
    """A request at the node. `lost` is called when its connection is closed."""

    client_id: str
    send: Send
    answer: Answer
    lost: Callable[[], object]


@dataclass(slots=True, eq=False)
class _Line:
    """A connection: its open requests, the stopped request, and the later ones that wait."""

    open: dict[_Call, None] = field(default_factory=dict)
    stopped: _Call | None = None
    waiting: list[_Call] = field(default_factory=list)

    @property
    def is_stopped(self) -> bool:
        """True if a request is stopped, so that later ones wait."""
        return self.stopped is not None


class FaultyNode:
    """Node with the faults of the scenario, which are applied to requests first. `faults` are those that have begun."""

    def __init__(
        self, engine: Engine, node: Node, planned: Sequence[PlannedFault], say: Callable[[str], object]
    ) -> None:
        self._engine = engine
        self._node = node
        self._say = say
        self._active = Faults(engine.seed)
        self.planned = planned
        self.faults: list[tuple[PlannedFault, Fault]] = []
        self._lines: dict[tuple[str, bool], _Line] = {}
        self._stopped: dict[int, list[tuple[_Line, _Call]]] = {}

    def begin(self, now_ms: int) -> None:
        """Schedule all faults once the group has formed; faults at the same time begin in the order of the scenario."""
        for each in self.planned:
            self._engine.at(now_ms + each.at_ms, self._begin, each)

    def _begin(self, planned: PlannedFault) -> None:
        fault = planned.add_to(self._active)
        self.faults.append((planned, fault))
        self._say(f"fault {fault.number} begins: {fault.description()}")
        if fault.is_blackhole:
            for (client_id, _group), line in self._lines.items():
                if client_id == fault.client and line.open:
                    fault.hit()
                    line.open.clear()
        if planned.for_ms is not None:
            self._engine.at(self._engine.now_ms + planned.for_ms, self._end, fault)

    def _end(self, fault: Fault) -> None:
        """End a fault: stopped requests continue, and clients whose request was dropped connect again."""
        self._active.remove(fault.number)
        self._say(f"fault {fault.number} ends: {fault.hits} hits")
        for line, call in self._stopped.pop(fault.number, []):
            if fault.kind is Kind.DROP and line.stopped is call:
                call.lost()
            else:
                self._go_on(line, call)

    # Requests

    def serve(self, client_id: str, send: Send, answer: Answer, lost: Callable[[], object]) -> bool:
        """Serve a request, as Node.serve: return whether it has its response already. `lost` is called when its
        connection is closed.
        """
        line = self._lines.setdefault((client_id, send.group), _Line())
        call = _Call(client_id, send, answer, lost)
        if line.is_stopped:
            line.waiting.append(call)
            return False
        return self._meet(line, call)

    def closed(self, client_id: str, group: bool) -> None:
        """Drop the unprocessed requests of a connection that the client has closed."""
        self._lines.pop((client_id, group), None)

    def _meet(self, line: _Line, call: _Call) -> bool:
        request = call.send.request
        key = KEYS[type(request).__name__]
        fault = self._active.meet(key, call.client_id, lambda: _groups_of(request))
        if fault is None:
            return self._pass(line, call)
        self._say(f"{call.client_id}: {key.title} meets fault {fault.number}")
        kind = fault.kind
        if kind is Kind.FAIL:
            call.answer(self._engine.now_ms, error_response(request, VERSIONS[key], fault.error))
            return True
        if kind is Kind.DUPLICATE or fault.after:
            self._node.serve(call.client_id, request, _nobody)
        if kind is Kind.DUPLICATE:
            return self._pass(line, call)
        if kind is Kind.DISCONNECT:
            line.open.clear()
            call.lost()
            return False
        line.stopped = call
        self._stopped.setdefault(fault.number, []).append((line, call))
        if kind is Kind.DELAY:
            self._engine.at(self._engine.now_ms + fault.delay_ms, self._go_on, line, call)
        return False

    def _go_on(self, line: _Line, call: _Call) -> None:
        """Serve a stopped request now, and then the later ones on its connection."""
        if line.stopped is not call or self._lines.get((call.client_id, call.send.group)) is not line:
            return
        line.stopped = None
        self._pass(line, call)
        while line.waiting and not line.is_stopped:
            self._meet(line, line.waiting.pop(0))

    def _pass(self, line: _Line, call: _Call) -> bool:
        line.open[call] = None

        def answered(leaves_ms: int, response: Any) -> None:
            if call in line.open:  # else its connection is closed
                del line.open[call]
                call.answer(leaves_ms, response)

        return self._node.serve(call.client_id, call.send.request, answered)


def _nobody(_leaves_ms: int, _response: Any) -> None:
    """Ignore the response."""


def _groups_of(request: Any) -> frozenset[str]:
    from coordinatord.server.control.requests import groups_of

    return groups_of(request)
