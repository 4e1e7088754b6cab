"""Three nodes or more, of which one leads or several do and at least one waits, PostgreSQL with a proxy before each
node, and the faults, which a seed chooses.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from coordinatord.server.postgresql.store import GAVE_UP
from tests.server.postgresql.loss.proxy import Proxy
from tests.server.postgresql.server import Server
from tests.server.postgresql.test_nodes import Node

LEAST_NODES = 3
LEASE_MS = 3_000
MIND_S = 0.05

SETTINGS = {
    "storage.lease.ms": str(LEASE_MS),
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "offsets.commit.timeout.ms": "1000",
}

STORED = {
    "a former leader's row behind a later one's": (
        "SELECT DISTINCT p.topic, b.partition FROM (SELECT topic_id, partition, leader_epoch, lag(leader_epoch)"
        " OVER (PARTITION BY topic_id, partition ORDER BY base_offset) AS before FROM coordinatord_batch) AS b"
        " JOIN coordinatord_partition AS p USING (topic_id, partition) WHERE b.leader_epoch < b.before"
    ),
    "rows that do not follow each other": (
        "SELECT DISTINCT p.topic, b.partition FROM (SELECT topic_id, partition, base_offset, coalesce(lag(last_offset)"
        " OVER (PARTITION BY topic_id, partition ORDER BY base_offset), -1) AS before FROM coordinatord_batch) AS b"
        " JOIN coordinatord_partition AS p USING (topic_id, partition) WHERE b.base_offset <> b.before + 1"
    ),
    "the end is not behind the last row": (
        "SELECT p.topic, p.partition FROM coordinatord_partition AS p WHERE p.end_offset <> (SELECT"
        " coalesce(max(last_offset), -1) + 1 FROM coordinatord_batch AS b WHERE b.topic_id = p.topic_id"
        " AND b.partition = p.partition)"
    ),
    "the term of another seat": (
        "SELECT p.topic, p.partition FROM coordinatord_partition AS p JOIN coordinatord_leader AS l"
        " ON l.seat = p.seat AND l.epoch <> p.leader_epoch"
    ),
}
"""Questions that find (topic, partition); no answer is right."""


class Cluster:
    """Nodes that have ended are started again, as by a supervisor, until `close`."""

    def __init__(
        self,
        directory: Path,
        server: Server,
        mutation: str = "",
        leaders: int = 1,
        settings: Mapping[str, str] = SETTINGS,
    ) -> None:
        self.server = server
        self.leaders = leaders
        self.lease_ms = int(settings["storage.lease.ms"])
        self.nodes: list[Node] = []
        self.proxies: list[Proxy] = []
        self.faults: Counter[str] = Counter()
        self._directory = directory
        self._mutation = mutation
        self._settings = settings
        self._minding: asyncio.Task[None] | None = None

    @property
    def ports(self) -> list[int]:
        return [node.port for node in self.nodes]

    @property
    def bootstrap(self) -> list[str]:
        return [node.bootstrap for node in self.nodes]

    async def start(self) -> None:
        """Start the nodes, one more than lead at a time; the first ones lead soon."""
        name = self.server.make_database("loss").rsplit("/", 1)[1]
        for number in range(1, max(LEAST_NODES, self.leaders + 1) + 1):
            proxy, hosts = await self._make_proxy()
            own = {"storage": f"postgresql://coordinatord@{hosts}/{name}", "node.id": str(number)}
            node = Node(
                self._directory / f"node-{number}", {**self._settings, **own, "storage.leaders": str(self.leaders)}
            )
            node.mutation = self._mutation
            self.nodes.append(node)
            self.proxies.append(proxy)
            node.launch()
        self._minding = asyncio.create_task(self._mind())

    async def _make_proxy(self) -> tuple[Proxy, str]:
        """One that listens, and its place as libpq's URI names it."""
        proxy = Proxy(self.server.port)
        return proxy, f"127.0.0.1:{await proxy.start()}"

    async def _mind(self) -> None:
        while True:
            for node in self.nodes:
                if node.process is not None and node.process.poll() is not None:
                    node.process = None
                if node.process is None:
                    node.launch()
            await asyncio.sleep(MIND_S)

    async def close(self) -> None:
        if self._minding is not None:
            self._minding.cancel()
        for node in self.nodes:
            if node.process is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(node.pid, signal.SIGCONT)
                    node.kill()
        for proxy in self.proxies:
            await proxy.close()

    def leader(self, seat: int = 0) -> int:
        """The index of the node that the database names; some node if it cannot say."""
        try:
            [(node_id,)] = self.server.ask("loss", f"SELECT node_id FROM coordinatord_leader WHERE seat = {seat}")
        except Exception:
            return 0
        return max(0, int(str(node_id)) - 1)

    def moves(self) -> int:
        """How often a seat was taken."""
        [(count,)] = self.server.ask("loss", "SELECT max(epoch) FROM coordinatord_leader")
        return int(str(count))

    def problems(self) -> list[str]:
        """What is wrong in the database: rows of a former leader behind those of a later one, rows that are missing at
        a partition's end, and partitions that another seat's term has. Nothing is compacted here.
        """
        return [
            f"{what}: partition {partition} of {topic}"
            for what, question in STORED.items()
            for topic, partition in self.server.ask("loss", question)
        ]

    # Faults

    async def fault(self, chance: random.Random) -> str:
        """One fault, or two at once, from beginning to end; what it was."""
        kinds = self.kinds()
        names = [chance.choice(sorted(kinds))]
        if chance.random() < 0.25:
            names.append(chance.choice(sorted(kinds.keys() - names)))
        leader = await asyncio.to_thread(self.leader, chance.randrange(self.leaders))
        told = []
        for name in names:
            self.faults[name] += 1
            target = leader if chance.random() < 0.8 else chance.randrange(len(self.nodes))
            told.append((name, target, chance.random()))
            if self.leaders > 1:  # two at once are of one leader or of two
                leader = await asyncio.to_thread(self.leader, chance.randrange(self.leaders))
        await asyncio.gather(*(kinds[name](target, share) for name, target, share in told))
        return " and ".join(f"{name} of node {target + 1}" for name, target, _share in told)

    def kinds(self) -> dict[str, Callable[[int, float], Awaitable[None]]]:
        """By name: what is done with a node, and how much of it, from 0 to 1."""
        return {
            "SIGKILL": self._kill,
            "SIGTERM": self._terminate,
            "SIGSTOP": self._pause,
            "database killed": self._kill_database,
            "connections cut": self._cut,
            "connections held up": self._hold_up,
        }

    async def _kill(self, target: int, share: float) -> None:
        self.signal(target, signal.SIGKILL)

    async def _terminate(self, target: int, share: float) -> None:
        self.signal(target, signal.SIGTERM)

    async def _pause(self, target: int, share: float) -> None:
        """For up to three leases: short ones end before anybody takes over."""
        self.signal(target, signal.SIGSTOP)
        await asyncio.sleep(share * 3 * self.lease_ms / 1_000)
        self.signal(target, signal.SIGCONT)

    async def _kill_database(self, target: int, share: float) -> None:
        await asyncio.to_thread(self.server.kill)
        await asyncio.sleep(share)
        await asyncio.to_thread(self.server.start)

    async def _cut(self, target: int, share: float) -> None:
        for _ in range(1 + int(share * 5)):
            self.proxies[target].cut()
            await asyncio.sleep(0.05)

    async def _hold_up(self, target: int, share: float) -> None:
        self.proxies[target].hold_up()
        await asyncio.sleep(share * 2 * self.lease_ms / 1_000)
        self.proxies[target].go_on()

    def signal(self, target: int, number: int) -> None:
        """To a node, if it runs."""
        process = self.nodes[target].process
        if process is not None and process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)


def errors(nodes: list[Node]) -> list[object]:
    """What nodes said that none should: the lost lead is logged as an error and is none here, nor is a stop (SIGTERM)
    that did not wait longer for a database that was away.
    """
    return [
        event
        for node in nodes
        for event in node.events(level="error")
        if event["event"] != "the log could not be closed"
        and "another node leads" not in str(event.get("error"))
        and event.get("error") != GAVE_UP
    ]
