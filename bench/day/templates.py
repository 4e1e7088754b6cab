"""Recorded requests as templates: what each client family says, in which order, on which of its connections.

All of it comes from tests/golden/traffic. A template is a request as its client sent it, decoded; whoever plays it
(play.py) puts other names, ids, generations and offsets into it and writes it with the version's encoder, which
gives the recorded bytes where nothing is changed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from kafka_wire.errors import UnknownApiError
from kafka_wire.headers import read_request_header
from kafka_wire.registry import codec
from tests.clients import recorded
from tests.clients.recorded import Request

FETCH, LIST_OFFSETS, METADATA, COMMIT, OFFSET_FETCH, FIND = 1, 2, 3, 8, 9, 10
JOIN, HEARTBEAT, LEAVE, SYNC, API_VERSIONS, LEADER_EPOCH = 11, 12, 13, 14, 18, 23
POSITIONS = (LIST_OFFSETS, METADATA, OFFSET_FETCH, LEADER_EPOCH)
"""What a member asks for between an assignment and its first fetch."""
START = (*POSITIONS, API_VERSIONS, FIND)

FIRST, STAYING, NEWCOMER = "1", "4", "5"
"""Members by their client ids: who was there from the beginning to the end, and the two that joined last."""
NEW_SESSION, FINAL_EPOCH = 0, -1
LATER = 100
"""Roles from here on are connections that come in steady times."""


@dataclass(frozen=True, slots=True)
class Template:
    """A request as it was sent. `role` is which of its client's connections it went over, by number.

    `message` is None where there is no codec for its version; then `raw` is what is behind its client id.
    """

    at_ms: float
    api_key: int
    api_version: int
    role: int
    message: Any
    raw: bytes


@dataclass(frozen=True, slots=True)
class Script:
    """A member's life in one client family."""

    family: str
    #: in order, before its first JoinGroup
    start: Sequence[Template]
    #: the first two JoinGroups, and that of a member that is told to rejoin
    join: Template
    join_with_id: Template
    rejoin: Template
    lead: Template
    follow: Template
    #: between its first assignment and its first fetch, and between a later one and the fetch after that
    assigned: Sequence[Template]
    reassigned: Sequence[Template]
    #: the first fetch, and one after it that names partitions
    fetch: Template
    fetch_on: Template
    #: its fetches name what has changed only (KIP-227)
    has_sessions: bool
    #: what it has lost it takes out of its session; otherwise it begins another one on another connection
    forgets: bool
    #: for each member that was recorded what it sends while nothing happens, but for fetches
    steady: Sequence[Sequence[Template]]
    steady_ms: float
    commit: Template
    #: it commits what it has read since, and not all that it has
    commits_what_moved: bool
    leave: Template
    #: ends its fetch session, if it does
    end_session: Template | None
    #: roles of connections that its client closes when it has its coordinator
    brief: frozenset[int]


def template(request: Request, role: int) -> Template:
    """One request, decoded where it can be."""
    try:
        used = codec(request.api_key, request.api_version)
    except UnknownApiError:
        size = int.from_bytes(request.data[8:10], "big", signed=True)
        raw = request.data[10 + max(size, 0) :]
        return Template(request.at_ms, request.api_key, request.api_version, role, None, raw)
    _, start = read_request_header(request.data, 0, len(request.data), used.flexible)
    message = used.decode_request(request.data, start, len(request.data))
    return Template(request.at_ms, request.api_key, request.api_version, role, message, b"")


def of_member(requests: Iterable[Request], number: str) -> list[Request]:
    return [request for request in requests if request.client_id.endswith(f"-{number}")]


def first_of(templates: Sequence[Template], *api_keys: int) -> int:
    """Where the first request of one of these APIs is."""
    return next(at for at, each in enumerate(templates) if each.api_key in api_keys)


class Roles:
    """Which connection of the newcomer's a request belongs to: its own, or, of other members, that of its API."""

    def __init__(self, newcomer: Sequence[Request]) -> None:
        self.own: dict[int, int] = {}
        self._of_api: dict[int, int] = {}
        for request in newcomer:
            role = self.own.setdefault(request.connection, len(self.own))
            self._of_api[request.api_key] = role
        self._later: dict[int, int] = {}

    def play(self, request: Request, opened: Mapping[int, float] = MappingProxyType({})) -> Template:
        """As a template. One that was `opened` meanwhile is another connection."""
        if request.connection in opened:
            role = self._later.setdefault(request.connection, LATER + len(self._later))
        else:
            role = self.own.get(request.connection, self._of_api.get(request.api_key, self._of_api[HEARTBEAT]))
        return template(request, role)

    def play_all(
        self, requests: Iterable[Request], opened: Mapping[int, float] = MappingProxyType({})
    ) -> list[Template]:
        return [self.play(each, opened) for each in requests]


@functools.cache
def script(family: str) -> Script:
    """What the recordings of a family tell."""
    rebalance, steady, close = (recorded.read(family, phase) for phase in recorded.PHASES)
    settled = [each for each in of_member(steady.requests, NEWCOMER) if each.connection not in steady.opened]
    roles = Roles([*of_member(rebalance.requests, NEWCOMER), *settled])
    first, staying, newcomer = (
        roles.play_all(of_member(rebalance.requests, number)) for number in (FIRST, STAYING, NEWCOMER)
    )
    begin, synced = first_of(newcomer, JOIN), first_of(newcomer, SYNC)
    joins = [each for each in newcomer if each.api_key == JOIN]
    fetches = [each for each in newcomer if each.api_key == FETCH]
    leaving = roles.play_all(of_member(close.requests, NEWCOMER), close.opened)
    quiet = [
        [
            each
            for each in roles.play_all(of_member(steady.requests, number), steady.opened)
            if each.api_key not in (FETCH, LEAVE)
        ]
        for number in (FIRST, STAYING, NEWCOMER)
    ]
    commits = [each for member in quiet for each in member if each.api_key == COMMIT]
    has_sessions = fetches[0].message.session_epoch == NEW_SESSION
    return Script(
        family=family,
        start=newcomer[:begin],
        join=joins[0],
        join_with_id=joins[1],
        rejoin=next(each for each in reversed(staying) if each.api_key == JOIN),
        lead=next(each for each in reversed(first) if each.api_key == SYNC and each.message.assignments),
        follow=newcomer[synced],
        assigned=[each for each in newcomer[begin : newcomer.index(fetches[0])] if each.api_key in START],
        reassigned=_last_positions(staying),
        fetch=fetches[0],
        fetch_on=next(each for each in fetches[1:] if each.message.topics),
        has_sessions=has_sessions,
        forgets=any(
            each.message.forgotten_topics_data for each in (*first, *staying, *leaving) if each.api_key == FETCH
        ),
        steady=quiet,
        steady_ms=steady.origin["ended_ms"] - steady.origin["began_ms"],
        commit=commits[0],
        commits_what_moved=len({_partitions(each) for each in commits}) > 1,
        leave=next(each for each in leaving if each.api_key == LEAVE),
        end_session=next(
            (
                each
                for each in leaving
                if has_sessions and each.api_key == FETCH and each.message.session_epoch == FINAL_EPOCH
            ),
            None,
        ),
        brief=frozenset(roles.own[number] for number in rebalance.closed if number in roles.own),
    )


def _last_positions(requests: Sequence[Template]) -> list[Template]:
    """What was asked for behind the last SyncGroup that brought something."""
    for at in range(len(requests) - 1, -1, -1):
        if requests[at].api_key == SYNC:
            after = requests[at + 1 :]
            asked = [each for each in after[: first_of(after, HEARTBEAT)] if each.api_key in POSITIONS]
            if asked:
                return asked
    return []


def _partitions(commit: Template) -> int:
    return sum(len(topic.partitions) for topic in commit.message.topics)
