"""What a process costs that does nothing yet, or only holds on to something: start, memory."""

from __future__ import annotations

import time
from typing import Any

from bench import frames, groups
from bench.generator import exchange
from bench.registry import KAFKA, KFAKE, OURS, Arena, Column, Sample, at_most, row
from bench.rows.steady import check_commit
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest

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
