"""A generator in a process of its own: drives one server process whenever it is told to. workers.py starts it.

    python -m bench.half '{"port": 9092, "pid": 4711, "worker": 0, "workers": 1, …}'

Its first argument is the `Order`. It makes the groups that this worker coordinates, warms the server up and says
`ready`; then it answers each line of its input, `{"begin_s": …, "seconds": …}`, with what that round was, and ends with
its input. Every line is JSON. Whatever goes wrong is its last line, `{"failed": …}`: whoever started it hears of it at
once, and ends the others.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench import groups
from bench.generator import Flow, Line, drive
from bench.servers import cpu_s, pin
from coordinatord.transport.cluster.partitioner import partition_for

OFFSETS_PARTITIONS = 50
WARM_S = 0.3
REST_S, REST_TRIES = 0.002, 10

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Order:
    """Whom to drive, with what, and on which cores. `groups` are those of all workers together."""

    port: int
    pid: int
    worker: int
    workers: int
    groups: int
    connections: int
    in_flight: int
    server_cores: Sequence[int]
    generator_cores: Sequence[int]

    @property
    def name(self) -> str:
        """For people."""
        return "the only process" if self.workers == 1 else f"worker {self.worker}"


class Half:
    """One server process, what is driven against it, and what that took."""

    def __init__(self, order: Order) -> None:
        self.order = order
        names = (f"group-{number:06}" for number in range(order.groups))
        mine = [name for name in names if partition_for(name, OFFSETS_PARTITIONS) % order.workers == order.worker]
        lines = [Line(order.port) for _ in range(order.connections)]
        groups.wait_until_loaded(lines, mine)  # a server answers before it has loaded its partitions
        hands = groups.dealt(groups.one_member_groups(lines, mine), order.connections)
        self.flows = []
        for line, hand in zip(lines, hands, strict=True):
            beats = groups.heartbeats(hand)
            cycles = -(-2 * order.in_flight // len(beats))  # at least two windows
            self.flows.append(Flow(line, beats * cycles, groups.check_heartbeat))
        pin(os.getpid(), set(order.generator_cores))
        pin(order.pid, set(order.server_cores))
        drive(self.flows, WARM_S, order.in_flight)

    def round(self, begin_s: float, seconds: float) -> Json:
        """Begins when all do. Times are those of `time.perf_counter`, which all processes of a machine share."""
        time.sleep(max(0.0, begin_s - time.perf_counter()))
        before_s, began_s = cpu_s(self.order.pid), time.perf_counter()
        driven = drive(self.flows, seconds, self.order.in_flight)
        return {
            "heartbeats": driven.requests,
            "began_s": began_s,
            "wall_s": driven.wall_s,
            "server_cpu_s": cpu_at_rest_s(self.order.pid) - before_s,
            "generator_cpu_s": driven.own_cpu_s,
        }


def cpu_at_rest_s(pid: int) -> float:
    """The CPU time of a process that has been asked for nothing more. What runs on another core is accounted when that
    core's clock ticks, every few milliseconds, or something else runs there: so wait until nothing is added.
    """
    before_s = -1.0
    now_s = cpu_s(pid)
    for _ in range(REST_TRIES):
        if now_s == before_s:
            break
        time.sleep(REST_S)
        before_s, now_s = now_s, cpu_s(pid)
    return now_s


def tell(word: Json) -> None:
    print(json.dumps(word), flush=True)


def main(order: Order) -> None:
    """Until there is nothing more to do."""
    try:
        half = Half(order)
        tell({"ready": True})
        for line in sys.stdin:
            tell(half.round(**json.loads(line)))
    except Exception as why:
        tell({"failed": f"{type(why).__name__}: {why}"})
        raise


if __name__ == "__main__":
    main(Order(**json.loads(sys.argv[1])))
