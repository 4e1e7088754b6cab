"""Groups on a server: made once, by the requests that a client sends, and kept for all rows that use them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench import frames
from bench.generator import Line, WrongAnswer, exchange
from bench.servers import Server
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_wire.errors import ErrorCode

GROUPS = 200
CONNECTIONS = 32
CREATE_TOPICS_VERSION = 5
IN_FLIGHT = 8  # while groups are made
LOADING = {
    ErrorCode.NONE,  # Kafka's answer to any heartbeat while it loads: better than to have members give up
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
LOADING_TRIES, LOADING_RETRY_S = 300, 0.1


@dataclass(frozen=True, slots=True)
class Member:
    group: str
    member_id: str
    generation: int


def require(error_code: int, what: str) -> None:
    if error_code != ErrorCode.NONE:
        raise WrongAnswer(f"{what} was answered with {ErrorCode(error_code).name}")


def make_topic(server: Server) -> None:
    """The topic that is committed for, once per server."""
    if "topic" in server.fixtures:
        return
    line = server.line()
    topic = CreatableTopic(frames.TOPIC, frames.PARTITIONS, 1)
    made = line.ask(CreateTopicsRequest([topic], 30_000), CREATE_TOPICS_VERSION)
    require(made.topics[0].error_code, "CreateTopics")
    line.close()
    server.fixtures["topic"] = True


def lines(server: Server, count: int = CONNECTIONS) -> list[Line]:
    return [server.line() for _ in range(count)]


def dealt(items: Sequence[Any], hands: int) -> list[list[Any]]:
    return [list(items[number::hands]) for number in range(hands)]


def _phase(connections: Sequence[Line], requests: list[Any]) -> list[Any]:
    """Send all requests over the connections; the decoded answers in the requests' order."""
    hands = dealt(requests, len(connections))
    answers = exchange(connections, [[frames.frame(each) for each in hand] for hand in hands], IN_FLIGHT)
    found: list[Any] = [None] * len(requests)
    for number, (hand, mine) in enumerate(zip(hands, answers, strict=True)):
        found[number :: len(connections)] = [
            frames.response(request, answer) for request, answer in zip(hand, mine, strict=True)
        ]
    return found


def one_member_groups(connections: Sequence[Line], names: Sequence[str]) -> list[Member]:
    """Find, join, join with the id that was given, sync: as every client does it. In phases, over all connections."""
    for found in _phase(connections, [FindCoordinatorRequest(key_type=0, coordinator_keys=[each]) for each in names]):
        require(found.coordinators[0].error_code, "FindCoordinator")
    ids = []
    for joined in _phase(connections, [frames.join(each) for each in names]):
        if joined.error_code != ErrorCode.MEMBER_ID_REQUIRED:
            raise WrongAnswer(f"a join without a member id was answered with {ErrorCode(joined.error_code).name}")
        ids.append(joined.member_id)
    members = []
    joins = [frames.join(name, member_id) for name, member_id in zip(names, ids, strict=True)]
    for name, member_id, joined in zip(names, ids, _phase(connections, joins), strict=True):
        require(joined.error_code, "JoinGroup")
        if joined.leader != member_id:
            raise WrongAnswer("a group's only member is not its leader")
        members.append(Member(name, member_id, joined.generation_id))
    syncs = [frames.sync(each.group, each.generation, each.member_id, [each.member_id]) for each in members]
    for synced in _phase(connections, syncs):
        require(synced.error_code, "SyncGroup")
        if synced.assignment != frames.ASSIGNMENT:
            raise WrongAnswer("a member did not get the assignment that it made")
    return members


def wait_until_loaded(connections: Sequence[Line], names: Sequence[str]) -> None:
    """Kafka makes its offsets topic when it is first asked for a coordinator, and then loads its partitions."""
    connections[0].ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[names[0]]))
    for _ in range(LOADING_TRIES):
        beats = _phase(connections, [HeartbeatRequest(each, 0, "nobody") for each in names])
        codes = {ErrorCode(each.error_code) for each in beats}
        if not codes & LOADING:
            return
        time.sleep(LOADING_RETRY_S)
    raise WrongAnswer(f"the groups' coordinator is not there: {', '.join(code.name for code in codes)}")


def standing(server: Server, prefix: str = "group", count: int = GROUPS) -> list[Member]:
    """Stable groups of one member each, made when first asked for."""
    if prefix not in server.fixtures:
        make_topic(server)
        connections = lines(server)
        # Names of one width: the answers to all of them have one size.
        names = [f"{prefix}-{number:06}" for number in range(count)]
        wait_until_loaded(connections, names)
        server.fixtures[prefix] = one_member_groups(connections, names)
        for line in connections:
            line.close()
    members: list[Member] = server.fixtures[prefix]  # type: ignore[assignment]
    return members


def heartbeats(members: Sequence[Member]) -> list[HeartbeatRequest]:
    return [HeartbeatRequest(each.group, each.generation, each.member_id) for each in members]


def check_heartbeat(request: HeartbeatRequest, response: HeartbeatResponse) -> None:
    require(response.error_code, "Heartbeat")
