"""Server-side assignors of the consumer protocol: 10,000 partitions to 500 members, from nothing, after half of the
members went, and after as many came. Kafka's own assignor does the same in a warm JVM.
"""

from __future__ import annotations

import random
import time
from statistics import median

from coordinatord.coordination.group.consumer.assignors import ASSIGNORS
from coordinatord.coordination.group.consumer.assignors.spec import Assignment
from tests.bench.registry import KAFKA, OURS, Arena, Column, Sample, at_most, row
from tests.bench.servers import Unavailable
from tests.coordination.group.consumer.assignor_cases import Question, group_spec, topics_of
from tests.reference.broker import ReferenceUnavailable, kafka_libs
from tests.reference.server_assignors import ask

MEMBERS, TOPICS, PARTITIONS = 500, 10, 1_000
TIMES = 5
STEPS = ("half gone", "half come")


def history() -> Question:
    """Three epochs of one group."""
    chance = random.Random(848)
    topics = {chance.randbytes(16).hex(): PARTITIONS for _ in range(TOPICS)}
    members = [[f"{chance.getrandbits(128):032x}", None, list(topics), TOPICS] for _ in range(MEMBERS)]
    epochs = [
        {"topics": topics, "homogeneous": True, "members": each} for each in (members, members[: MEMBERS // 2], members)
    ]
    return {"do": "assign", "assignor": "uniform", "epochs": epochs}


def slices_ms(epoch: Question, target: Assignment) -> tuple[Assignment, list[float]]:
    """An assignment, and how long others waited each time."""
    waits = []
    running = ASSIGNORS["uniform"](group_spec(epoch, target), topics_of(epoch))
    while True:
        began_s = time.perf_counter()
        try:
            next(running)
        except StopIteration as finished:
            waits.append((time.perf_counter() - began_s) * 1e3)
            return finished.value, waits
        waits.append((time.perf_counter() - began_s) * 1e3)


def ours() -> Sample:
    """Our assignor: medians, and the longest of the slices' medians."""
    runs: list[list[list[float]]] = []
    for _ in range(TIMES):
        target: Assignment = {}
        runs.append([])
        for epoch in history()["epochs"]:
            target, waits = slices_ms(epoch, target)
            runs[-1].append(waits)
    first, *later = (median(sum(run[number]) for run in runs) for number in range(3))
    longest = max(
        median(slice_ms) for number in range(3) for slice_ms in zip(*(run[number] for run in runs), strict=True)
    )
    return Sample(first, also={**dict(zip(STEPS, later, strict=True)), "longest slice": longest})


def kafkas(asked: Question) -> Sample:
    """Kafka's assignor, which has no slices."""
    try:
        [answered] = ask(kafka_libs(), [{**asked, "do": "time"}])
    except ReferenceUnavailable as missing:
        raise Unavailable(str(missing)) from missing
    first, *later = (float(each) for each in answered)
    return Sample(first, also=dict(zip(STEPS, later, strict=True)))


@row(
    "assignment",
    "10,000 partitions to 500 members, uniform",
    "ms",
    columns=[OURS, KAFKA],
    targets=[
        at_most(50),
        *(at_most(50, what=step) for step in STEPS),
        at_most(10, what="longest slice"),
    ],
)
def assignment(arena: Arena, column: Column, seconds: float) -> Sample:
    """No server is asked: the event loop waits as long as this process."""
    return ours() if column is OURS else kafkas(history())
