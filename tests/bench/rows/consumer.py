"""The consumer protocol (KIP-848): steady heartbeats, and assignments until all members have what they are to own.

Heartbeats are those of librdkafka and the Java client in a steady group: group, member and epoch, and nothing else.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tests.bench import groups
from tests.bench.consumer_group import REBALANCE_TIMEOUT_MS, ConsumerGroup
from tests.bench.generator import Flow, WrongAnswer
from tests.bench.groups import require
from tests.bench.registry import KAFKA, KFAKE, OURS, OURS_NEVER, Arena, Column, Sample, at_most, row
from tests.bench.rows.steady import CYCLES, flows_of, heartbeat_flows, steady
from tests.bench.servers import Server

MEMBER = "bench-{:016}"
WARM_S = {"kafka": 6.0}
WARM_ELSE_S = 0.3


def members(server: Server) -> list[tuple[str, str, int]]:
    """Group, member and epoch of stable groups of one member, made when first asked for."""
    if "consumer groups" not in server.fixtures:
        groups.make_topic(server)
        line = server.line()
        names = [f"consumer-group-{number:06}" for number in range(groups.GROUPS)]
        groups.wait_until_loaded([line], names)
        found = []
        for number, name in enumerate(names):
            found.append((name, MEMBER.format(number), _joined(line, name, MEMBER.format(number))))
        line.close()
        server.fixtures["consumer groups"] = found
    made: list[tuple[str, str, int]] = server.fixtures["consumer groups"]  # type: ignore[assignment]
    return made


def _joined(line: groups.Line, group: str, member_id: str) -> int:
    """Join, get the partitions, say so. Returns the member's epoch."""
    request = ConsumerGroupHeartbeatRequest(group, member_id, 0)
    request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
    request.subscribed_topic_names = [groups.frames.TOPIC]
    request.topic_partitions = []
    answer = line.ask(request)
    for _ in range(100):
        require(answer.error_code, "ConsumerGroupHeartbeat")
        parts = [] if answer.assignment is None else answer.assignment.topic_partitions
        if sum(len(part.partitions) for part in parts) == groups.frames.PARTITIONS:
            said = ConsumerGroupHeartbeatRequest(group, member_id, answer.member_epoch, topic_partitions=parts)
            require(line.ask(said).error_code, "ConsumerGroupHeartbeat")
            return int(answer.member_epoch)
        time.sleep(0.1)
        answer = line.ask(ConsumerGroupHeartbeatRequest(group, member_id, answer.member_epoch))
    raise WrongAnswer("a group's only member does not get the partitions")


def check(request: ConsumerGroupHeartbeatRequest, response: ConsumerGroupHeartbeatResponse) -> None:
    """A member that has everything is told nothing."""
    require(response.error_code, "ConsumerGroupHeartbeat")
    if response.assignment is not None or response.member_epoch != request.member_epoch:
        raise WrongAnswer("a steady member is told something new")


def flows(server: Server) -> list[Flow]:
    """32 connections, and their groups in turn."""
    hands = groups.dealt(members(server), groups.CONNECTIONS)
    cycles = [[ConsumerGroupHeartbeatRequest(*each) for each in hand] * CYCLES for hand in hands]
    return flows_of(server, cycles, check)


def heartbeat(in_flight: int) -> Callable[[Arena, Column, float], Sample]:
    """On our column, a classic group's heartbeats right before."""

    def measure(arena: Arena, column: Column, seconds: float) -> Sample:
        server = arena.server(column)
        classic = 0.0
        if column.kind == "ours":
            classic = steady(server, "heartbeat flows", lambda: heartbeat_flows(server), seconds, in_flight).value
        sample = steady(server, "consumer heartbeat flows", lambda: flows(server), seconds, in_flight)
        if classic:
            sample.also["µs of a classic one"] = classic
        return sample

    return measure


for _in_flight in (8, 1):
    row(
        "heartbeat-848" if _in_flight == 8 else "heartbeat-848-1",
        f"consumer group heartbeat, {_in_flight} in flight",
        "µs",
        columns=[OURS, KAFKA, KFAKE],
        targets=[at_most(1.3, of="µs of a classic one"), at_most(1, of="kafka")],
    )(heartbeat(_in_flight))


def rebalance(size: int) -> Callable[[Arena, Column, float], Sample]:
    """Medians of as many rebalances as a round has room for, at least three."""

    def measure(arena: Arena, column: Column, seconds: float) -> Sample:
        server = arena.server(column)
        key = f"consumer group of {size}"
        if key not in server.fixtures:
            made = ConsumerGroup(server, f"consumers-{size}", size, 1, 2 * size, burst=False)
            made.form()
            server.fixtures[key] = made
            _replaced(made, WARM_S.get(server.kind, WARM_ELSE_S))
        group: ConsumerGroup = server.fixtures[key]  # type: ignore[assignment]
        before_s = server.cpu_s()
        took_s, heartbeats = _replaced(group, seconds)
        used_s = (server.cpu_s() - before_s) / len(took_s)
        return Sample(
            statistics.median(took_s) * 1000,
            [(each, 1) for each in took_s],
            also={"ms of CPU each": used_s * 1000, "heartbeats each": heartbeats},
        )

    return measure


def _replaced(group: ConsumerGroup, seconds: float) -> tuple[list[float], float]:
    """Seconds of each rebalance, and the median of their heartbeats."""
    until_s = time.perf_counter() + seconds
    took_s: list[float] = []
    heartbeats: list[int] = []
    while len(took_s) < 3 or time.perf_counter() < until_s:
        took_s.append(group.replace_one())
        heartbeats.append(group.heartbeats)
    return took_s, statistics.median(heartbeats)


for _size in (50, 500):
    row(
        f"rebalance-848-{_size}",
        f"consumer group of {_size}: a member joins, another one leaves, until all own what they are to own",
        "ms",
        columns=[OURS_NEVER, KAFKA, KFAKE],
        targets=[at_most(1, of="kafka")],
    )(rebalance(_size))

LARGE = (500, 10, 1_000)
"""Members, topics, partitions of each."""

MANY = Column("ours", "ours", "coordinatord, flush=never", (("log.flush", "never"), ("max.partitions", "20000")))
KAFKA_MANY = Column("kafka", "kafka", KAFKA.label, (("log.index.size.max.bytes", "4096"),))


@row(
    "assigned-848",
    "10,000 partitions, 500 members join: until all have theirs, with the interval between assignments",
    "ms",
    columns=[MANY, KAFKA_MANY, KFAKE],
    targets=[at_most(1, of="kafka")],
    rounds=1,
    quick=False,
)
def assigned(arena: Arena, column: Column, seconds: float) -> Sample:
    """The first member owns everything when the others come. kfake has no interval."""
    with arena.fresh(column) as server:
        group = ConsumerGroup(server, "consumers-many", *LARGE, burst=True)
        before_s = server.cpu_s()
        took_s = [group.form()]
        used_s = server.cpu_s() - before_s
        heartbeats = group.heartbeats
        for _ in range(2):
            group.end()
            time.sleep(1.5)
            took_s.append(group.form())
        return Sample(
            statistics.median(took_s) * 1000,
            also={
                "ms, cold": took_s[0] * 1000,
                "ms of CPU, cold": used_s * 1000,
                "heartbeats, cold": float(heartbeats),
            },
        )
