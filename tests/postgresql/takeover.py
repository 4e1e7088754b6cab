"""How long members are without a coordinator when the leading node is killed, and when it is stopped in order.

`python -m tests.postgresql.takeover [TIMES] [GROUPS]` starts a PostgreSQL and three nodes with the default lease of
5 s, makes groups of one member each, and takes the lead away TIMES times by SIGKILL and TIMES times by SIGTERM. It
prints the median and the worst time from the signal until another node has answered a heartbeat without an error, of
the first group and of all. No member joins again. All of it shares this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.errors import ErrorCode
from tests.clients.raw import Line
from tests.clients.raw_member import HEARTBEAT_VERSION, RawMember
from tests.daemon import HOST
from tests.postgresql import server
from tests.postgresql.test_nodes import Node, connected, leads, until

NODES = 3
LINES = 20
WAIT_S = 120.0
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.max.session.timeout.ms": "1800000"}


async def make_groups(node: Node, count: int) -> list[RawMember]:
    """Groups of one member each, whose sessions outlast everything here."""
    lines = [await connected(node) for _ in range(LINES)]
    await lines[0].ask(CreateTopicsRequest([CreatableTopic("topic", 1, 1)]), 7)
    members = [
        RawMember(lines[number % LINES], f"group-{number}", {"topic": 1}, session_timeout_ms=1_800_000)
        for number in range(count)
    ]

    async def join(own: list[RawMember]) -> None:
        for member in own:
            await member.join()

    await asyncio.gather(*(join(members[number::LINES]) for number in range(LINES)))
    for line in lines:
        line.close()
    return members


async def answered(port: int, members: list[RawMember]) -> tuple[float, float]:
    """When a node has answered a heartbeat of the first group, and of all (time.monotonic())."""
    first_s = 0.0
    left = list(members)
    deadline_s = time.monotonic() + WAIT_S
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


async def leading(nodes: list[Node]) -> int:
    """The index of the node that answers."""
    found = asyncio.Event()
    index = -1

    async def look(number: int) -> None:
        nonlocal index
        (await connected(nodes[number])).close()
        index = number
        found.set()

    tasks = [asyncio.create_task(look(number)) for number in range(NODES)]
    await found.wait()
    for task in tasks:
        task.cancel()
    return index


async def move(nodes: list[Node], members: list[RawMember], number: int, term: int) -> tuple[float, float]:
    """Take the lead away from the leading node; seconds until the first group and all have another coordinator."""
    old = await leading(nodes)
    await asyncio.sleep(0.5)
    looks = [asyncio.create_task(answered(node.port, members)) for i, node in enumerate(nodes) if i != old]
    await asyncio.sleep(0.2)
    process = nodes[old].process
    assert process is not None
    began_s = time.monotonic()
    process.send_signal(number)
    done, _ = await asyncio.wait(looks, return_when=asyncio.FIRST_COMPLETED)
    first_s, all_s = done.pop().result()
    for look in looks:
        look.cancel()
    await asyncio.to_thread(process.wait, 30)
    nodes[old].process = None
    nodes[old].launch()
    await until(lambda: any(leads(node, term) for node in nodes), "the next leader's log line")
    return first_s - began_s, all_s - began_s


async def measure(nodes: list[Node], times: int, count: int) -> None:
    nodes[0].start()
    for node in nodes[1:]:
        node.launch()
    members = await make_groups(nodes[await leading(nodes)], count)
    term = 1
    for number, told in ((signal.SIGKILL, "SIGKILL"), (signal.SIGTERM, "planned")):
        taken = []
        for _ in range(times):
            term += 1
            taken.append(await move(nodes, members, number, term))
        for what, seconds in zip(("first group", f"all {count}"), zip(*taken, strict=True), strict=True):
            print(f"{told}, {what}: median {statistics.median(seconds):.2f} s, worst {max(seconds):.2f} s of {times}")


def main() -> None:
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000
    with server.running() as started, tempfile.TemporaryDirectory() as directory:
        url = started.make_database("takeover")
        nodes = []
        for number in range(1, NODES + 1):
            own = {"storage": url, "node.id": str(number)}
            nodes.append(Node(Path(directory) / f"node-{number}", {**SETTINGS, **own}))
        try:
            asyncio.run(measure(nodes, times, count))
        finally:
            for node in nodes:
                if node.process is not None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(node.pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
