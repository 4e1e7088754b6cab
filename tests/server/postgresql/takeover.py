"""How long members are without a coordinator when a leading node is killed, and when it is stopped in order.

`python -m tests.server.postgresql.takeover [--times 50] [--groups 1000] [--leaders 1] [--kinds SIGKILL,planned] [--rest
0]` starts a PostgreSQL and three nodes with the default lease of 5 s, makes groups of one member each, and takes the
lead of a seat away TIMES times by SIGKILL and TIMES times by SIGTERM. It prints the median and the worst time from the
signal until another node has answered a heartbeat without an error, of the first group and of all groups of the seat,
and where the time went by the nodes' logs, of the median and the worst ones. No member joins again. All of it shares
this machine. `--rest`: seconds between a start and the next stop, so that the node that was stopped waits with a copy
again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from coordinatord.transport.cluster.nodes import share_of
from coordinatord.transport.cluster.partitioner import partition_for
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.errors import ErrorCode
from tests.clients.raw import Line
from tests.clients.raw_member import HEARTBEAT_VERSION, RawMember
from tests.daemon import HOST, logged_at_s
from tests.server.postgresql import server
from tests.server.postgresql.test_nodes import Node, leads, until
from tests.support.waiting import PATIENCE_S

NODES = 3
NAME = "takeover"
LINES = 20
PARTITIONS = 50
"""Of __consumer_offsets."""
SIGNALS = {"SIGKILL": signal.SIGKILL, "planned": signal.SIGTERM}
PHASES = {
    "stopping": "signal seen",
    "this node leads": "seat taken",
    "working copy made": "copy made",
    "listening": "listens",
    "groups loaded": "loaded",
}
"""By the nodes' log events."""


class Taken(NamedTuple):
    """Seconds from the signal until the first group and all groups had another coordinator. `phases`: until each event
    of PHASES, by its name there.
    """

    first_s: float
    all_s: float
    phases: dict[str, float]


SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.max.session.timeout.ms": "1800000"}


async def make_groups(holders: list[int], nodes: list[Node], count: int) -> dict[int, list[RawMember]]:
    """Groups of one member each, whose sessions outlast everything here, by seat. `holders`: the node of each seat."""
    found: dict[int, list[RawMember]] = {}
    for seat, holder in enumerate(holders):
        lines = [await Line.connect(HOST, nodes[holder].port, "making") for _ in range(LINES)]
        if seat == 0:
            await lines[0].ask(CreateTopicsRequest([CreatableTopic("topic", 1, 1)]), 7)
        names = [f"group-{number}" for number in range(count)]
        own = [
            name
            for name in names
            if share_of("__consumer_offsets", partition_for(name, PARTITIONS), len(holders)) == seat
        ]
        members = [
            RawMember(lines[number % LINES], name, {"topic": 1}, session_timeout_ms=1_800_000)
            for number, name in enumerate(own)
        ]

        async def join(some: list[RawMember]) -> None:
            for member in some:
                await member.join()

        await asyncio.gather(*(join(members[number::LINES]) for number in range(LINES)))
        for line in lines:
            line.close()
        found[seat] = members
    return found


async def answered(port: int, members: list[RawMember]) -> tuple[float, float]:
    """When a node has answered a heartbeat of the first group, and of all (time.monotonic())."""
    first_s = 0.0
    left = list(members)
    deadline_s = time.monotonic() + PATIENCE_S
    while left:
        assert time.monotonic() < deadline_s, "no node takes over"
        with contextlib.suppress(OSError):
            line = await Line.connect(HOST, port, "beating")
            while left:
                probed = left if first_s else left[:1]
                asked = [HeartbeatRequest(each.group, each.generation, each.member_id) for each in probed]
                answers = await asyncio.gather(*(line.ask(each, HEARTBEAT_VERSION) for each in asked))
                done = {id(m) for m, a in zip(probed, answers, strict=True) if a.error_code == ErrorCode.NONE}
                others = {ErrorCode(a.error_code) for a in answers} - {ErrorCode.NONE}
                assert ErrorCode.UNKNOWN_MEMBER_ID not in others, "a session has expired"
                left = [each for each in left if id(each) not in done]
                if done and not first_s:
                    first_s = time.monotonic()
                await asyncio.sleep(0.005)
        await asyncio.sleep(0.005)
    return first_s, time.monotonic()


async def holders_of(database: server.Server, seats: int) -> list[int]:
    """The index of the node that leads each seat, once all have one that listens."""

    def look() -> list[int]:
        rows = database.ask(
            NAME,
            "SELECT l.node_id FROM coordinatord_leader AS l JOIN coordinatord_node AS n ON n.holder = l.holder"
            " WHERE l.lease_until > clock_timestamp() ORDER BY l.seat",
        )
        return [int(str(node_id)) - 1 for (node_id,) in rows]

    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(Exception):
            if len(found := await asyncio.to_thread(look)) == seats:
                return found
        assert time.monotonic() < deadline_s, "some seat stays free"
        await asyncio.sleep(0.05)


def phases(nodes: list[Node], since_s: float, seat: int, leaders: int) -> dict[str, float]:
    """When each phase had come to its end, from `since_s` on (seconds since 1970)."""
    found: dict[str, float] = {}
    for node in nodes:
        took = False
        for event in node.events():
            name = str(event["event"])
            if name not in PHASES or logged_at_s(event) < since_s:
                continue
            took = took or (name == "this node leads" and (leaders == 1 or event.get("seat") == seat))
            if took or name == "stopping":
                found.setdefault(PHASES[name], logged_at_s(event) - since_s)
    return found


async def move(
    database: server.Server, nodes: list[Node], groups: dict[int, list[RawMember]], name: str, seat: int, rest_s: float
) -> Taken:
    """Take a seat away from the node that has it, once all nodes run."""
    old = (await holders_of(database, len(groups)))[seat]
    await asyncio.sleep(0.5 + rest_s)
    members = groups[seat]
    looks = [asyncio.create_task(answered(node.port, members)) for i, node in enumerate(nodes) if i != old]
    await asyncio.sleep(0.2)
    process = nodes[old].process
    assert process is not None
    moves = database.ask(NAME, "SELECT max(epoch) FROM coordinatord_leader")[0][0]
    term = int(str(moves)) + 1
    began_s, since_s = time.monotonic(), time.time()
    process.send_signal(SIGNALS[name])
    done, _ = await asyncio.wait(looks, return_when=asyncio.FIRST_COMPLETED)
    first_s, all_s = done.pop().result()
    for look in looks:
        look.cancel()
    await asyncio.to_thread(process.wait, 30)
    nodes[old].process = None
    nodes[old].launch()
    await until(lambda: any(leads(node, term) for node in nodes), "the next leader's log line")
    await asyncio.sleep(0.1)
    return Taken(first_s - began_s, all_s - began_s, phases(nodes, since_s, seat, len(groups)))


def told(one: Taken) -> str:
    """Where the time of one take-over went."""
    steps = sorted(one.phases.items(), key=lambda step: step[1])
    return ", ".join(f"{name} {seconds:.3f}" for name, seconds in steps) + f", first answer {one.first_s:.3f}"


async def measure(database: server.Server, nodes: list[Node], asked: argparse.Namespace) -> None:
    nodes[0].start()
    for node in nodes[1:]:
        node.launch()
    groups = await make_groups(await holders_of(database, asked.leaders), nodes, asked.groups)
    for name in asked.kinds.split(","):
        taken = [
            await move(database, nodes, groups, name, number % asked.leaders, asked.rest)
            for number in range(asked.times)
        ]
        for what, seconds in (
            ("first group", [each.first_s for each in taken]),
            ("all groups", [each.all_s for each in taken]),
        ):
            worst_s = max(seconds)
            print(f"{name}, {what}: median {statistics.median(seconds):.2f} s, worst {worst_s:.2f} s of {len(seconds)}")
        taken.sort(key=lambda each: each.first_s)
        print(f"  median: {told(taken[len(taken) // 2])}")
        for each in taken[-3:]:
            print(f"  among the worst: {told(each)}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--leaders", type=int, default=1)
    parser.add_argument("--kinds", default="SIGKILL,planned")
    parser.add_argument("--rest", type=float, default=0.0)
    asked = parser.parse_args()
    with server.running() as started, tempfile.TemporaryDirectory() as directory:
        url = started.make_database(NAME)
        nodes = []
        for number in range(1, NODES + 1):
            own = {"storage": url, "node.id": str(number), "storage.leaders": str(asked.leaders)}
            nodes.append(Node(Path(directory) / f"node-{number}", {**SETTINGS, **own}))
        try:
            asyncio.run(measure(started, nodes, asked))
        finally:
            for node in nodes:
                if node.process is not None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(node.pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
