"""What a process costs that does nothing yet: start, memory."""

from __future__ import annotations

import time

from bench.registry import KAFKA, KFAKE, OURS, Arena, Column, Sample, at_most, row

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
