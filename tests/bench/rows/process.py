"""What a process costs that does nothing yet, or only holds on to something: start, memory."""

from __future__ import annotations

import time
from typing import Any

from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.heartbeat import HeartbeatRequest
from tests.bench import frames, groups
from tests.bench.generator import Line, WrongAnswer, exchange
from tests.bench.groups import check_heartbeat
from tests.bench.registry import KAFKA, KFAKE, OURS, Arena, Column, Sample, at_most, row
from tests.bench.rows.steady import check_commit

MIB = 1 << 20
IDLE_S = 1.0  # after the first answer


@row(
    "start",
    "process start to first answered request, empty data",
    "s",
    columns=[OURS, KAFKA, KFAKE],
    targets=[at_most(0.3)],
    rounds=3,
)
def start(arena: Arena, column: Column, seconds: float) -> Sample:
    """Asked every millisecond. Kafka's directory has been formatted before."""
    with arena.fresh(column) as server:
        time.sleep(IDLE_S)
        arena.remembered.setdefault(column.key, []).append(server.resident_bytes() / MIB)
        return Sample(server.start_s)


@row(
    "idle-memory",
    "resident, idle, a second after the start",
    "MiB",
    columns=[OURS, KAFKA, KFAKE],
    targets=[at_most(45)],
    rounds=3,
)
def idle_memory(arena: Arena, column: Column, seconds: float) -> Sample:
    """Of the servers that `start` has started, where that has been measured."""
    if not arena.remembered.get(column.key):
        start(arena, column, seconds)
    return Sample(arena.remembered[column.key].pop())


# Per committed partition

MANY_TOPIC = "bench-many"
MANY_PARTITIONS = 100
OFFSET_GROUPS = 1_000


def _many(group: str, partitions: int) -> Any:
    request = frames.commit(group, -1, "", 1_000_000, partitions)
    request.topics[0].name = MANY_TOPIC
    return request


@row("partition-memory", "resident per committed partition", "bytes", targets=[at_most(300)], rounds=1)
def partition_memory(arena: Arena, column: Column, seconds: float) -> Sample:
    """1,000 groups commit one partition each, then 99 more each: the growth by the latter."""
    with arena.fresh(column) as server:
        lines = groups.lines(server)
        made = lines[0].ask(
            CreateTopicsRequest([CreatableTopic(MANY_TOPIC, MANY_PARTITIONS, 1)], 30_000), groups.CREATE_TOPICS_VERSION
        )
        groups.require(made.topics[0].error_code, "CreateTopics")
        names = [f"many-{number:06}" for number in range(OFFSET_GROUPS)]
        before = 0
        for partitions in (1, MANY_PARTITIONS):
            before = server.resident_bytes()
            requests = [_many(name, partitions) for name in names]
            hands = groups.dealt(requests, len(lines))
            answers = exchange(lines, [[frames.frame(each) for each in hand] for hand in hands], groups.IN_FLIGHT)
            for hand, mine in zip(hands, answers, strict=True):
                for request, answer in zip(hand, mine, strict=True):
                    check_commit(request, frames.response(request, answer))
            time.sleep(IDLE_S)
        grown = server.resident_bytes() - before
        return Sample(grown / (OFFSET_GROUPS * (MANY_PARTITIONS - 1)), also={"MiB grown": grown / MIB})


# Connections

CONNECTIONS = 10_000
AT_A_TIME = 500  # less than a listen backlog


@row("idle-connections", "resident with 10,000 idle connections", "MiB", targets=[at_most(250)], rounds=1, quick=False)
def idle_connections(arena: Arena, column: Column, seconds: float) -> Sample:
    """Each has asked for one heartbeat, as a client that is between two of them."""
    beat = HeartbeatRequest("nobody", 1, "nobody")
    wire = frames.frame(beat)
    with arena.fresh(column) as server:
        lines: list[Line] = []
        while len(lines) < CONNECTIONS:
            more = [server.line() for _ in range(AT_A_TIME)]
            exchange(more, [[wire] for _ in more], 1)
            lines += more
        time.sleep(IDLE_S)
        resident = server.resident_bytes()
        # They are still there: the first and the last are answered once more.
        for line in (lines[0], lines[-1]):
            try:
                check_heartbeat(beat, line.ask(beat))
            except WrongAnswer as told:
                if "UNKNOWN_MEMBER_ID" not in str(told):
                    raise
        for line in lines:
            line.close()
        return Sample(resident / MIB)
