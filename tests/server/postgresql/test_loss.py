"""Nothing that was acknowledged is lost, and nothing old is told as true, whatever is killed, stopped or cut off.

`COORDINATORD_LOSS_SEED` repeats a run's faults; what happens between them depends on the machine.
`COORDINATORD_LOSS_FAULTS` sets their number.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import secrets
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from coordinatord.broker.topics.names import OFFSETS_TOPIC
from coordinatord.transport.cluster.nodes import share_of
from coordinatord.transport.cluster.partitioner import partition_for
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.errors import ErrorCode
from tests.clients.members import ConsumerProcess
from tests.clients.raw import Line
from tests.daemon import HOST
from tests.server.postgresql.loss import real
from tests.server.postgresql.loss.cluster import SETTINGS, Cluster, errors
from tests.server.postgresql.loss.history import (
    ABORTED,
    COMMITTED,
    UNKNOWN,
    Read,
    Records,
    Register,
    Transactions,
    Write,
    group_problems,
)
from tests.server.postgresql.loss.registers import PATIENT_S, TOPIC, Looker, Writer
from tests.server.postgresql.server import Server

pytestmark = [pytest.mark.full, pytest.mark.postgresql]

FAULTS = int(os.environ.get("COORDINATORD_LOSS_FAULTS") or 20)
REGISTERS = 3
MEMBERS = 2
GOING_ON_S = 300.0
HANGS_S = 20.0


# The checks of histories


def test_a_history_without_a_fault_has_no_problem() -> None:
    register = Register([Write(0, 1, 2), Write(1, 3), Write(2, 5, 6)])
    register.reads = [Read(-1, 0, 1.5, 1), Read(0, 2.5, 2.6, 1), Read(1, 4, 4.1, 2), Read(2, 7, 7.1, 2)]
    assert register.problems("r") == []


@pytest.mark.parametrize(
    ("reads", "problem"),
    [
        ([Read(-1, 2.5, 2.6, 1)], "node 1 said -1 when 0 had been acknowledged"),
        ([Read(0, 6.5, 6.6, 2)], "node 2 said 0 when 2 had been acknowledged"),
        ([Read(1, 4, 4.1, 2), Read(0, 4.2, 4.3, 1)], "node 1 said 0 when 1 had been read"),
        ([Read(1, 2.1, 2.5, 1)], "node 1 said 1, which nobody had written yet"),
        ([Read(9, 7, 8, 3)], "node 3 said 9, which nobody had written yet"),
    ],
)
def test_a_register_that_lies_is_noticed(reads: list[Read], problem: str) -> None:
    register = Register([Write(0, 1, 2), Write(1, 3), Write(2, 5, 6)], reads)
    assert register.problems("r") == [f"r: {problem}"]


def test_a_read_that_began_before_an_acknowledgement_may_be_older() -> None:
    assert Register([Write(0, 1, 2)], [Read(-1, 1.9, 9, 1)]).problems("r") == []


def test_lost_and_misplaced_records_are_noticed() -> None:
    records = Records({b"a", b"b", b"c"})
    records.acknowledge(("t", 0), 0, b"a")
    records.acknowledge(("t", 0), 1, b"b")
    records.there["t", 0] = {0: b"a", 1: b"b", 2: b"c"}
    assert records.problems() == []
    records.there["t", 0] = {0: b"a", 1: b"x"}
    assert len(records.problems()) == 2
    records.acknowledge(("t", 0), 1, b"c")
    assert "both acknowledged" in records.problems()[0]


@pytest.mark.parametrize(
    ("outcome", "there", "is_right"),
    [
        (COMMITTED, ([b"x"], [b"x"]), True),
        (COMMITTED, ([], []), False),
        (COMMITTED, ([b"x"], []), False),
        (COMMITTED, ([b"x", b"x"], [b"x", b"x"]), False),
        (ABORTED, ([], []), True),
        (ABORTED, ([b"x"], [b"x"]), False),
        (UNKNOWN, ([], []), True),
        (UNKNOWN, ([b"x"], [b"x"]), True),
        (UNKNOWN, ([], [b"x"]), False),
    ],
)
def test_transactions_are_there_or_not(outcome: str, there: tuple[list[bytes], list[bytes]], is_right: bool) -> None:
    found = Transactions({b"x": outcome}, {("t", number): values for number, values in enumerate(there)}).problems()
    assert (not found) is is_right


def test_a_group_that_goes_back_or_shares_a_partition_is_noticed() -> None:
    def assigned(generation: int, position: int | None) -> dict[str, object]:
        return {"kind": "assigned", "generation": generation, "partitions": [0], "positions": {"0": position}}

    committed = {"kind": "committed", "offsets": {"0": 7}}
    assert group_problems({"a": [assigned(1, 0), committed], "b": [assigned(2, 7)]}) == []
    assert group_problems({"a": [assigned(1, 0), committed], "b": [assigned(2, None)]}) == []
    assert group_problems({"a": [assigned(1, 0), committed], "b": [assigned(2, 6)]}) == [
        "b begins partition 0 at 6, 7 was committed before"
    ]
    assert group_problems({"a": [assigned(1, 0)], "b": [assigned(1, 0)]}) == [
        "partition 0 is a's and b's in generation 1"
    ]


# The clients, and the play


class Play:
    """The clients of a cluster, and what they know."""

    def __init__(self, cluster: Cluster, *, is_real: bool = True) -> None:
        self.cluster = cluster
        self.is_real = is_real
        self.writers: list[Writer] = []
        self.lookers: list[Looker] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.clients: list[real.Client] = []
        self.members: dict[str, ConsumerProcess] = {}
        self.recovery_s: list[float] = []

    async def begin(self) -> None:
        """Create the topics, and let everybody work."""
        await self._create_topics()
        ports = self.cluster.ports
        self.writers = [Writer(f"register-{number}", ports) for number in range(REGISTERS)]
        seats = {self.seat_of(each) for each in self.writers}
        assert len(seats) == self.cluster.leaders, "each seat has a register"
        registers = {each.group: each.register for each in self.writers}
        self.lookers = [Looker(number, port, registers) for number, port in enumerate(ports, 1)]
        self.tasks = [asyncio.create_task(each.run()) for each in (*self.writers, *self.lookers)]
        if not self.is_real:
            return
        bootstrap = self.cluster.bootstrap
        self.clients = [real.Producing(bootstrap), real.Transacting(bootstrap)]
        for number in range(MEMBERS):
            self.members[f"member-{number}"] = ConsumerProcess(
                ",".join(bootstrap),
                "real",
                real.RECORDS,
                session_timeout_ms=10_000,
                heartbeat_interval_ms=500,
                **real.SETTINGS,
            )

    async def _create_topics(self) -> None:
        topics = {TOPIC: 1, real.RECORDS: real.RECORDS_PARTITIONS, real.PAIRS: real.PAIRS_PARTITIONS}
        deadline_s = time.monotonic() + GOING_ON_S
        left = dict(topics)
        while left:
            assert time.monotonic() < deadline_s, "no node creates topics"
            for port in self.cluster.ports:
                with contextlib.suppress(OSError):
                    line = await Line.connect(HOST, port, "set-up")
                    wanted = [CreatableTopic(name, count, 1) for name, count in left.items()]
                    made = await line.ask(CreateTopicsRequest(wanted), 7)
                    line.close()
                    done = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
                    for each in made.topics:
                        if each.error_code in done:
                            left.pop(each.name)
            await asyncio.sleep(0.1)

    def _counts(self) -> list[int]:
        """What each client has got done."""
        counts = [each.progress for each in (*self.writers, *self.clients)]
        counts.append(sum(each.answers for each in self.lookers))
        return counts + [sum(each.counts["committed"] for each in self.members.values())] * bool(self.members)

    async def until_all_go_on(self) -> None:
        """Every client gets something done from now on."""
        began_s, before = time.monotonic(), self._counts()
        patient_s = began_s
        while not all(now > then for now, then in zip(self._counts(), before, strict=True)):
            self._check()
            told = [now - then for now, then in zip(self._counts(), before, strict=True)]
            if time.monotonic() - patient_s > HANGS_S:
                patient_s = time.monotonic()
                for client, done in zip(self.clients, told[len(self.writers) :], strict=False):
                    if not done:
                        client.leave_behind()
            assert time.monotonic() - began_s < GOING_ON_S, f"some client does not go on: {told}"
            await asyncio.sleep(0.02)
        self.recovery_s.append(time.monotonic() - began_s)

    def _check(self) -> None:
        for task in self.tasks:
            if task.done():
                task.result()
        for client in self.clients:
            if client.problem is not None:
                raise client.problem

    async def stop_writers(self) -> None:
        """Of the registers."""
        for writer in self.writers:
            writer.is_stopping = True
        await asyncio.gather(*self.tasks[: len(self.writers)])

    async def end(self) -> list[str]:
        """Stop writing, look once more, and hold everything against everything. What is wrong."""
        await self.stop_writers()
        for each in self.clients:
            await asyncio.to_thread(each.stop)
        now_s = time.monotonic()
        await until(
            lambda: all(any(read.asked_s > now_s for read in each.register.reads[-9:]) for each in self.writers),
            "a last look at each register",
        )
        found = [problem for each in self.writers for problem in each.register.problems(each.group)]
        if self.is_real:
            found += await asyncio.to_thread(self._end_of_real)
        return found + await asyncio.to_thread(self.cluster.problems)

    def _end_of_real(self) -> list[str]:
        for each in self.members.values():
            each.terminate()
        producing, transacting = self.clients
        assert isinstance(producing, real.Producing)
        assert isinstance(transacting, real.Transacting)
        bootstrap = self.cluster.bootstrap
        producing.records.there = real.read_all(bootstrap, real.RECORDS, real.RECORDS_PARTITIONS)
        pairs = real.read_all(bootstrap, real.PAIRS, real.PAIRS_PARTITIONS)
        transacting.transactions.there = {partition: list(values.values()) for partition, values in pairs.items()}
        return [
            *producing.records.problems(),
            *transacting.transactions.problems(),
            *group_problems({name: each.events for name, each in self.members.items()}),
        ]

    def seat_of(self, writer: Writer) -> int:
        """The seat of its group's coordinator."""
        partition = partition_for(writer.group, int(SETTINGS["offsets.topic.num.partitions"]))
        return share_of(OFFSETS_TOPIC, partition, self.cluster.leaders)

    async def until_moved(self, moves: int) -> None:
        """Some seat was taken since."""
        deadline_s = time.monotonic() + GOING_ON_S
        while await asyncio.to_thread(self.cluster.moves) == moves:
            assert time.monotonic() < deadline_s, "nobody takes over"
            await asyncio.sleep(0.1)

    async def until_looked_at(self, writers: list[Writer], nodes: set[int]) -> None:
        """Each register was read at one of these nodes from now on."""
        now_s, ids = time.monotonic(), {number + 1 for number in nodes}
        await until(
            lambda: all(
                any(read.asked_s > now_s and read.node in ids for read in each.register.reads[-9:]) for each in writers
            ),
            "a look at the next leader",
        )

    def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        for each in self.members.values():
            if each.process.poll() is None:
                each.kill()

    def summary(self) -> str:
        acknowledged = sum(each.progress for each in self.writers)
        reads = sum(len(each.register.reads) for each in self.writers)
        told = f"{acknowledged:,} commits acknowledged, {reads:,} looks"
        if self.is_real:
            told += f"; kafka-python: {self.clients[0].progress:,} records, {self.clients[1].progress:,} transactions, "
            told += f"{sum(each.counts['committed'] for each in self.members.values()):,} commits of its group"
            told += f"; {sum(each.left_behind for each in self.clients)} of its producers hung and were left behind"
        times = sorted(self.recovery_s)
        faults = ", ".join(f"{count} {name}" for name, count in sorted(self.cluster.faults.items()))
        return (
            f"{faults}; the lead was taken {self.cluster.moves()} times\n{told}\n"
            f"all clients went on within {times[len(times) // 2]:.1f} s (median) and {times[-1]:.1f} s (worst)"
        )


async def until(condition: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + GOING_ON_S
    while not condition():
        assert time.monotonic() < deadline_s, f"waited {GOING_ON_S:g} s for {what}"
        await asyncio.sleep(0.02)


async def played(directory: Path, server: Server, seed: int, faults: int, leaders: int) -> str:
    chance = random.Random(seed)
    cluster = Cluster(directory, server, leaders=leaders)
    play = Play(cluster)
    try:
        await cluster.start()
        await play.begin()
        await play.until_all_go_on()
        for number in range(faults):
            began = await cluster.fault(chance)
            print(f"fault {number + 1}: {began}")
            await play.until_all_go_on()
        problems = await play.end()
        assert not problems, "\n".join(problems[:20])
        assert not errors(cluster.nodes)
        return play.summary()
    finally:
        play.close()
        await cluster.close()


@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("leaders", [1, 2, 3])
def test_nothing_acknowledged_is_lost(leaders: int, tmp_path: Path, victim: Server) -> None:
    seed = int(os.environ.get("COORDINATORD_LOSS_SEED") or secrets.randbelow(1 << 32))
    print(f"\nCOORDINATORD_LOSS_SEED={seed}")
    print(asyncio.run(played(tmp_path, victim, seed, FAULTS, leaders)))


# The checker notices nodes without one of their guards


class Mutant(NamedTuple):
    """Code that is run in each node's process before the program, and what its guard is for."""

    code: str
    provoke: Callable[[Play, int], Awaitable[None]]
    """Done with the leader of a seat."""
    settings: Mapping[str, str] = SETTINGS


async def failed(play: Play, seat: int) -> None:
    """The database dies under commits, and the node soon after it."""
    leader = await asyncio.to_thread(play.cluster.leader, seat)
    kinds = play.cluster.kinds()
    await kinds["database killed"](leader, 0.2)
    await asyncio.sleep(0.5)
    await kinds["SIGKILL"](leader, 0)


async def killed_while_held_up(play: Play, seat: int) -> None:
    """A node dies whose commits do not reach the database."""
    leader = await asyncio.to_thread(play.cluster.leader, seat)
    proxy = play.cluster.proxies[leader]
    proxy.hold_up()
    await asyncio.sleep(0.5)
    play.cluster.signal(leader, signal.SIGKILL)
    await asyncio.sleep(0.1)
    proxy.go_on()


async def late(play: Play, seat: int) -> None:
    """A commit reaches the database when another node leads already, and has not written anything yet."""
    own = [each for each in play.writers if play.seat_of(each) == seat]
    leader, moves = await asyncio.to_thread(play.cluster.leader, seat), await asyncio.to_thread(play.cluster.moves)
    proxy = play.cluster.proxies[leader]
    proxy.hold_up()
    try:
        await asyncio.sleep(0.2)
        for each in own:
            each.is_paused = True  # after the commit that is under way
        await play.until_moved(moves)
        await play.until_looked_at(own, {number for number in range(len(play.cluster.nodes)) if number != leader})
    finally:
        proxy.go_on()
    await asyncio.sleep(0.5)
    for each in own:
        each.is_paused = False


async def taken_over(play: Play, seat: int, begin: Callable[[int], object]) -> int:
    """Another node leads, and has acknowledged commits, since `begin` has done something to the leader, which is told.
    Nothing that this one has waits for the database, so it answers while it believes in its lease.
    """
    leader = await asyncio.to_thread(play.cluster.leader, seat)
    for each in play.writers:
        each.is_paused = True
    await until(lambda: not any(each.is_busy for each in play.writers), "commits under way")
    await asyncio.sleep(0.2)
    begin(leader)
    before = [each.progress for each in play.writers]
    for each in play.writers:
        each.avoids = play.cluster.ports[leader]
        each.is_paused = False
    await until(
        lambda: all(each.progress > then for each, then in zip(play.writers, before, strict=True)),
        "the next leader to acknowledge commits",
    )
    return leader


async def cut_off(play: Play, seat: int) -> None:
    """A node does not reach the database until after another one has taken over."""
    leader = await taken_over(play, seat, lambda leader: play.cluster.proxies[leader].hold_up())
    await asyncio.sleep(play.cluster.lease_ms / 4_000)
    reached_again(play, leader)


async def stopped(play: Play, seat: int) -> None:
    """Another node takes over from one that is stopped. When it wakes up it has questions in its sockets, and cannot
    learn from the database that it leads no more.
    """

    def stop(leader: int) -> None:
        play.cluster.signal(leader, signal.SIGSTOP)
        play.cluster.proxies[leader].hold_up()

    leader = await taken_over(play, seat, stop)
    await asyncio.sleep(0.2)
    play.cluster.signal(leader, signal.SIGCONT)
    await asyncio.sleep(0.5)
    reached_again(play, leader)


def reached_again(play: Play, leader: int) -> None:
    play.cluster.proxies[leader].go_on()
    for each in play.writers:
        each.avoids = None


PATIENT = {**SETTINGS, "offsets.commit.timeout.ms": str(round(PATIENT_S * 1_000))}
SLOW_CLOCK = "from coordinatord.server.postgresql import lease; real = lease.now_s; lease.now_s = lambda: 0.81 * real()"
"""Almost as slow as the margin allows."""
SLOW = {**SETTINGS, "storage.lease.ms": "6000"}

MUTANTS = {
    "no lease": Mutant(
        "from coordinatord.server.postgresql.lease import Lease\n"
        "from coordinatord.server.postgresql.sharing import InTouch\n"
        "Lease.holds = InTouch.holds = property(lambda self: True)",
        stopped,
    ),
    "a lease without a margin": Mutant(f"{SLOW_CLOCK}; lease.MARGIN = 0.0", cut_off, SLOW),
    "answers although the commit failed": Mutant(
        "from coordinatord.server.postgresql import store; import contextlib; Away = store.Away\n"
        "def once(self, attempt):\n"
        "    with contextlib.suppress(Away):\n"
        "        attempt()\n"
        "store.PostgresStore._until_done = once",
        failed,
    ),
    "answers before the commit": Mutant(
        "from coordinatord.server.postgresql.store import PostgresStore\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "later, append = ThreadPoolExecutor(1), PostgresStore.append\n"
        "PostgresStore.append = lambda *of: later.submit(append, *of) and None",
        killed_while_held_up,
    ),
}


async def caught(directory: Path, server: Server, mutant: Mutant, leaders: int, times: int = 10) -> list[str]:
    """What is wrong after faults that this guard is for; ends with the first problem."""
    cluster = Cluster(directory, server, mutant.code, leaders, mutant.settings)
    play = Play(cluster, is_real=False)
    try:
        await cluster.start()
        await play.begin()
        found: list[str] = []
        for number in range(times):
            await play.until_all_go_on()
            await mutant.provoke(play, number % leaders)
            await play.until_all_go_on()
            found = [problem for each in play.writers for problem in each.register.problems(each.group)]
            if found:
                break
        return found
    finally:
        play.close()
        await cluster.close()


@pytest.mark.timeout(2_400)
@pytest.mark.parametrize("leaders", [1, 2])
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_node_without_a_guard_is_noticed(mutant: str, leaders: int, tmp_path: Path, victim: Server) -> None:
    found = asyncio.run(caught(tmp_path, victim, MUTANTS[mutant], leaders))
    assert found


@pytest.mark.timeout(2_400)
@pytest.mark.parametrize(
    "mutant",
    [
        Mutant("", stopped),
        Mutant(SLOW_CLOCK, cut_off, SLOW),
        Mutant("", late, PATIENT),
        Mutant("", killed_while_held_up),
    ],
    ids=["stopped", "a slow clock", "a late commit", "killed while held up"],
)
def test_a_node_with_its_guards_is_not_blamed(mutant: Mutant, tmp_path: Path, victim: Server) -> None:
    assert not asyncio.run(caught(tmp_path, victim, mutant, leaders=2, times=2))
