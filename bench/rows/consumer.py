"""The consumer protocol (KIP-848): steady heartbeats, and assignments until all members have what they are to own.

Heartbeats are those of librdkafka and the Java client in a steady group: group, member and epoch, and nothing else.
"""

from __future__ import annotations

import statistics
import time

from bench import frames, groups
from bench.consumer_group import REBALANCE_TIMEOUT_MS, ConsumerGroup
from bench.generator import Flow, Line, WrongAnswer
from bench.groups import require
from bench.registry import KAFKA, KFAKE, OURS, OURS_NEVER, Arena, Column, Sample, at_most, row
from bench.rows.steady import CYCLES, flows_of, heartbeat_flows, steady
from bench.servers import Server
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

MEMBER = "bench-{:016}"
SIZE = 500
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


def _joined(line: Line, group: str, member_id: str) -> int:
    """Join, get the partitions, say so. Returns the member's epoch."""
    request = ConsumerGroupHeartbeatRequest(group, member_id, 0)
    request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
    request.subscribed_topic_names = [frames.TOPIC]
    request.topic_partitions = []
    answer = line.ask(request)
    for _ in range(100):
        require(answer.error_code, "ConsumerGroupHeartbeat")
        parts = [] if answer.assignment is None else answer.assignment.topic_partitions
        if sum(len(part.partitions) for part in parts) == frames.PARTITIONS:
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


@row(
    "heartbeat-848",
    "consumer group heartbeat, 8 in flight",
    "µs",
    columns=[OURS, KAFKA, KFAKE],
    targets=[at_most(1.3, of="µs of a classic one"), at_most(1, of="kafka")],
)
def heartbeat(arena: Arena, column: Column, seconds: float) -> Sample:
    """On our column, a classic group's heartbeats right before."""
    server = arena.server(column)
    classic = 0.0
    if column.kind == "ours":
        classic = steady(server, "heartbeat flows", lambda: heartbeat_flows(server), seconds, 8).value
    sample = steady(server, "consumer heartbeat flows", lambda: flows(server), seconds, 8)
    if classic:
        sample.also["µs of a classic one"] = classic
    return sample


@row(
    "rebalance-848-500",
    f"consumer group of {SIZE}: a member joins, another one leaves, until all own what they are to own",
    "ms",
    columns=[OURS_NEVER, KAFKA, KFAKE],
    targets=[at_most(1, of="kafka")],
)
def rebalance(arena: Arena, column: Column, seconds: float) -> Sample:
    """Medians of as many rebalances as a round has room for, at least three."""
    server = arena.server(column)
    if "consumer group" not in server.fixtures:
        made = ConsumerGroup(server, f"consumers-{SIZE}", SIZE, 2 * SIZE)
        made.form()
        server.fixtures["consumer group"] = made
        _replaced(made, WARM_S.get(server.kind, WARM_ELSE_S))
    group: ConsumerGroup = server.fixtures["consumer group"]  # type: ignore[assignment]
    before_s = server.cpu_s()
    took_s, heartbeats = _replaced(group, seconds)
    used_s = (server.cpu_s() - before_s) / len(took_s)
    return Sample(
        statistics.median(took_s) * 1000,
        [(each, 1) for each in took_s],
        also={"ms of CPU each": used_s * 1000, "heartbeats each": heartbeats},
    )


def _replaced(group: ConsumerGroup, seconds: float) -> tuple[list[float], float]:
    """Seconds of each rebalance, and the median of their heartbeats."""
    until_s = time.perf_counter() + seconds
    took_s: list[float] = []
    heartbeats: list[int] = []
    while len(took_s) < 3 or time.perf_counter() < until_s:
        took_s.append(group.replace_one())
        heartbeats.append(group.heartbeats)
    return took_s, statistics.median(heartbeats)
