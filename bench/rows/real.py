"""Real clients: sixty consumers of librdkafka in one group, each with a record a second. See real_clients.py."""

from __future__ import annotations

import importlib.util

from bench.child import Generator, hear
from bench.generator import WrongAnswer
from bench.real_clients import READY_S, Json, Order
from bench.registry import KAFKA, KFAKE, OURS_FLUSHED, OURS_NEVER, Arena, Column, Sample, at_most, row
from bench.servers import Unavailable, cores

CONSUMERS = 60
WINDOWS = 8
"""A window is so many times as long as another row's round."""
WARM_S = {"kafka": 20.0}
WARM_ELSE_S = 3.0
COMPLETE = 0.9
"""Of the records of a window: a server or a generator that does not keep pace has no figure."""


def lived(arena: Arena, column: Column, module: str, seconds: float) -> Json:
    """A round of a module's clients on a server of its own: those of another one's round would go on on a shared one.
    Returns what the module says of it.
    """
    if importlib.util.find_spec("confluent_kafka") is None:
        raise Unavailable("real clients are left out: confluent-kafka is not installed (the extra `clients`)")
    with arena.fresh(column) as server:
        warm_s = WARM_S.get(server.kind, WARM_ELSE_S)
        order = Order(server.port, server.pid, CONSUMERS, warm_s, sorted(cores()[0]))
        clients = Generator("the process of consumers", module, order)
        try:
            hear([clients], READY_S + warm_s)
            server.settle()
            clients.tell({"seconds": seconds * WINDOWS})
            (word,) = hear([clients], seconds * WINDOWS)
        finally:
            clients.end()
    return word


@row(
    "real-clients",
    f"{CONSUMERS} librdkafka consumers of one group: CPU per consumer and second",
    "µs",
    columns=[OURS_NEVER, OURS_FLUSHED, KAFKA, KFAKE],
    targets=[at_most(1, of="kfake"), at_most(1, of="kafka")],
    quick=False,
)
def real_clients(arena: Arena, column: Column, seconds: float) -> Sample:
    word = lived(arena, column, "bench.real_clients", seconds)
    wall_s, used_s, requests = word["wall_s"], word["server_cpu_s"], word["requests_per_s"]
    if word["records"] < COMPLETE * CONSUMERS * wall_s:
        raise WrongAnswer(f"{word['records']} records read in {wall_s:.1f} s, one a second for each of {CONSUMERS}")
    per_s = sum(requests.values())
    return Sample(
        used_s / wall_s / CONSUMERS * 1e6,
        per_s=per_s,
        server_busy=used_s / wall_s,
        generator_busy=word["own_cpu_s"] / wall_s,
        also={"µs a request": used_s / wall_s / per_s * 1e6, **{f"{each} per s": requests[each] for each in requests}},
    )
