"""The hot path: what stable groups send all day. Server CPU per request, one request after the other on each of 32
connections (or 8 at a time), spread evenly over 200 groups of one member.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bench import frames, groups
from bench.generator import Flow, WrongAnswer, drive
from bench.groups import Member, check_heartbeat, heartbeats, require
from bench.registry import (
    KAFKA,
    KFAKE,
    LIMIT,
    OURS,
    OURS_ALWAYS,
    OURS_NEVER,
    Arena,
    Column,
    Sample,
    at_most,
    row,
)
from bench.servers import Server
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafka_wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

# The JVM compiles what is run often, in steps; Go and Python only fill their caches.
WARM_S = {"kafka": 10.0}
WARM_ELSE_S = 0.3
CYCLES = 4  # a connection's cycle goes over its groups so often, with another offset each time
FETCH_VERSIONS = range(1, 10)  # those that clients use, but for v10, which names topics by id
STEP = 1_000  # between the offsets of one turn of a cycle and the next


def steady(server: Server, name: str, flows: Callable[[], Sequence[Flow]], seconds: float, in_flight: int) -> Sample:
    """A round; the first one on a server makes the flows and warms it up."""
    if name not in server.fixtures:
        server.fixtures[name] = made = flows()
        drive(made, min(WARM_S.get(server.kind, WARM_ELSE_S), 7 * seconds), in_flight)
    ready: Sequence[Flow] = server.fixtures[name]  # type: ignore[assignment]
    before_s = server.cpu_s()
    driven = drive(ready, seconds, in_flight)
    return Sample.cpu_per_request(driven, server.cpu_s() - before_s)


def flows_of(server: Server, cycles: Sequence[Sequence[Any]], check: Callable[[Any, Any], object] | None) -> list[Flow]:
    return [Flow(line, cycle, check) for line, cycle in zip(groups.lines(server), cycles, strict=True)]


# Heartbeats


def heartbeat_flows(server: Server) -> list[Flow]:
    if server.kind == "limit":  # it has no groups: ids as long as ours, and nothing to check
        members = [Member(f"group-{n:06}", "bench-" + f"{n:036}", 1) for n in range(groups.GROUPS)]
        check = None
    else:
        members, check = groups.standing(server), check_heartbeat
    hands = groups.dealt(members, groups.CONNECTIONS)
    return flows_of(server, [heartbeats(hand) * CYCLES for hand in hands], check)


@row(
    "heartbeat",
    "heartbeat, 8 in flight",
    "µs",
    columns=[OURS, LIMIT, KAFKA, KFAKE],
    targets=[at_most(2, of="limit"), at_most(1 / 6, of="kafka"), at_most(1 / 2, of="kfake")],
)
def heartbeat(arena: Arena, column: Column, seconds: float) -> Sample:
    server = arena.server(column)
    return steady(server, "heartbeat flows", lambda: heartbeat_flows(server), seconds, 8)


# Offsets


def check_commit(request: OffsetCommitRequest, response: OffsetCommitResponse) -> None:
    (topic,) = response.topics
    if len(topic.partitions) != len(request.topics[0].partitions):
        raise WrongAnswer("a commit was answered for other partitions")
    for partition in topic.partitions:
        require(partition.error_code, "OffsetCommit")


def commit_flows(server: Server) -> list[Flow]:
    hands = groups.dealt(groups.standing(server), groups.CONNECTIONS)
    cycles = [
        [
            frames.commit(each.group, each.generation, each.member_id, 1_000 * turn)
            for turn in range(CYCLES)
            for each in hand
        ]
        for hand in hands
    ]
    return flows_of(server, cycles, check_commit)


def committed(server: Server, members: Sequence[Member], expected: Callable[[int], bool]) -> None:
    """Ask for what was committed last, of every tenth group."""
    line = server.line()
    for member in members[::10]:
        request = frames.offset_fetch(member.group)
        response = line.ask(request)
        check_fetch(request, response)
        for partition in response.groups[0].topics[0].partitions:
            if not expected(partition.committed_offset):
                raise WrongAnswer(f"{member.group} has committed {partition.committed_offset}, which nobody sent")
    line.close()


def commits(arena: Arena, column: Column, seconds: float) -> Sample:
    """The offsets are read back after each round: the last one of its cycle that was sent for a group."""
    server = arena.server(column)
    sample = steady(server, "commit flows", lambda: commit_flows(server), seconds, 8)
    flows: list[Flow] = server.fixtures["commit flows"]  # type: ignore[assignment]
    hands = groups.dealt(groups.standing(server), groups.CONNECTIONS)
    for flow, hand in list(zip(flows, hands, strict=True))[::8]:
        # All of the round is answered, so the request before the next one is the last that its group has sent.
        turn, position = divmod((flow.next - 1) % flow.cycle, len(hand))
        committed(server, [hand[position]], lambda offset, turn=turn: offset == STEP * turn)  # type: ignore[misc]
    return sample


row(
    "commit-never",
    "commit of 4 partitions, not flushed",
    "µs",
    columns=[OURS_NEVER, KAFKA, KFAKE],
    targets=[at_most(1 / 4, of="kafka"), at_most(1, of="kfake")],
)(commits)

row(
    "commit-always",
    "commit of 4 partitions, flushed (Kafka does not)",
    "µs",
    columns=[OURS_ALWAYS, KAFKA],
    targets=[at_most(1 / 3, of="kafka"), at_most(1, of="kafka", what="p99")],
)(commits)


def check_fetch(request: OffsetFetchRequest, response: OffsetFetchResponse) -> None:
    (group,) = response.groups if request.groups else [response]
    require(group.error_code, "OffsetFetch")
    (topic,) = group.topics
    if len(topic.partitions) != frames.PARTITIONS:
        raise WrongAnswer("a fetch of offsets was answered for other partitions")
    for partition in topic.partitions:
        require(partition.error_code, "OffsetFetch")
        if partition.committed_offset < 0:
            raise WrongAnswer("a committed offset is not there")


def check_either(request: Any, response: Any) -> None:
    check = check_commit if isinstance(request, OffsetCommitRequest) else check_fetch
    check(request, response)  # type: ignore[operator]


def fetch_flows(server: Server) -> list[Flow]:
    """Each group commits, and is then asked in each version in turn: no question is like the one before it, and none
    has the answer that it had the last time.
    """
    # Its answers hold what is committed, so that nobody else may commit for its groups.
    hands = groups.dealt(groups.standing(server, "offset"), groups.CONNECTIONS)
    cycles = [
        [
            asked
            for turn in range(CYCLES)
            for each in hand
            for asked in (
                frames.commit(each.group, each.generation, each.member_id, STEP * (turn + 1)),
                *(frames.offset_fetch_in(version, each.group) for version in FETCH_VERSIONS),
            )
        ]
        for hand in hands
    ]
    return flows_of(server, cycles, check_either)


@row(
    "offset-fetch",
    "offset fetch of 4 partitions, v1 to v9 in turn, a commit before each nine",
    "µs",
    columns=[OURS_NEVER, KAFKA, KFAKE],
    targets=[at_most(1 / 4, of="kafka")],
)
def offset_fetch(arena: Arena, column: Column, seconds: float) -> Sample:
    server = arena.server(column)
    return steady(server, "offset fetch flows", lambda: fetch_flows(server), seconds, 8)
