"""After a stall the event loop reads all requests that arrived meanwhile before any timer expires: no member that sent
a heartbeat in time expires, and no such connection is closed as idle.

Tested with the daemon's process, stopped for longer than its members' sessions (SIGSTOP, like a paused container or a
migrated machine), and in detail with both kinds of event loop.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from coordinatord.base.clocks.timers import Timers
from coordinatord.coordination.group.result import TimerKey
from coordinatord.transport.net.connection import TURN_REQUESTS, Connection
from kafka_wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_wire.errors import ErrorCode
from tests.clients.raw import Line
from tests.clients.raw_member import HEARTBEAT_VERSION, RawMember
from tests.daemon import HOST, Daemon, running
from tests.support.shell import Turns, make_door, request_frame
from tests.support.waiting import PATIENCE_S

SESSION_MS = 4_000
STOPPED_S = 5.0

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "connections.max.idle.ms": str(SESSION_MS),
    "log.flush": "never",
}


class Stopped:
    """Members of a stopped daemon, each in its own group."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.members: dict[str, RawMember] = {}

    async def line(self, name: str) -> Line:
        return await Line.connect(HOST, self.daemon.port, name)

    async def join(self, *names: str) -> None:
        for name in names:
            self.members[name] = RawMember(await self.line(name), name, {"topic": 1}, session_timeout_ms=SESSION_MS)
        await asyncio.gather(*(each.join() for each in self.members.values()))

    async def stop(self) -> None:
        """Stop the daemon just after it received a heartbeat of each member."""
        assert set(await asyncio.gather(*(each.heartbeat() for each in self.members.values()))) == {ErrorCode.NONE}
        os.kill(self.daemon.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.daemon.pid, signal.SIGCONT)

    def beat(self, name: str) -> asyncio.Future[Any]:
        member = self.members[name]
        assert member.line is not None
        return member.line.ask(HeartbeatRequest(name, member.generation, member.member_id), HEARTBEAT_VERSION)

    def emptied(self) -> set[object]:
        """The groups whose member expired."""
        return {event["group"] for event in self.daemon.events("group transition", new="Empty")}

    async def until_gone(self, name: str) -> None:
        """Wait until a member expires; the others continue their heartbeats."""
        async with asyncio.timeout(PATIENCE_S):
            while name not in self.emptied():
                await asyncio.gather(*(self.beat(other) for other in self.members if other != name))
                await asyncio.sleep(0.05)


async def heartbeats_in_the_sockets(daemon: Daemon) -> None:
    scene = Stopped(daemon)
    plain = [f"plain-{number}" for number in range(5)]
    reconnected = [f"reconnected-{number}" for number in range(5)]
    await scene.join(*plain, "talkative", "behind", *reconnected, "silent")
    await scene.stop()
    answers = [scene.beat(name) for name in plain]
    # More requests on one connection than a turn serves; the last one is the only one of another member.
    answers += [scene.beat("talkative") for _ in range(5 * TURN_REQUESTS)]
    scene.members["behind"].line = scene.members["talkative"].line
    answers.append(scene.beat("behind"))
    for name in reconnected:
        scene.members[name].line.close()  # type: ignore[union-attr]
        scene.members[name].line = await scene.line(name)  # not accepted yet
        answers.append(scene.beat(name))
    await asyncio.sleep(STOPPED_S)
    scene.go_on()
    told = {ErrorCode(answer.error_code) for answer in await asyncio.gather(*answers)}
    assert told == {ErrorCode.NONE}
    await scene.until_gone("silent")
    assert scene.emptied() == {"silent"}
    for member in scene.members.values():
        member.line.close()  # type: ignore[union-attr]


def test_a_stopped_process_expels_nobody_whose_heartbeats_lie_in_its_sockets(tmp_path: Path) -> None:
    with running(tmp_path, SETTINGS) as daemon:
        asyncio.run(heartbeats_in_the_sockets(daemon))


async def stopped_again_and_again(daemon: Daemon) -> None:
    scene = Stopped(daemon)
    await scene.join("alive", "silent")
    await scene.stop()
    answers = []
    for _ in range(4):
        answers.append(scene.beat("alive"))
        await asyncio.sleep(SESSION_MS / 1000)
        scene.go_on()
        await asyncio.sleep(0.02)  # for a moment, in which hardly anything can be done
        os.kill(daemon.pid, signal.SIGSTOP)
    gone = scene.emptied()
    scene.go_on()
    assert {ErrorCode(answer.error_code) for answer in await asyncio.gather(*answers)} == {ErrorCode.NONE}
    await scene.until_gone("silent")
    assert "alive" not in gone | scene.emptied()
    for member in scene.members.values():
        member.line.close()  # type: ignore[union-attr]


@pytest.mark.full
def test_a_process_that_is_stopped_again_and_again_expels_the_silent_and_nobody_else(tmp_path: Path) -> None:
    with running(tmp_path, SETTINGS) as daemon:
        asyncio.run(stopped_again_and_again(daemon))


# Close up

LOOPS = [uvloop.new_event_loop, asyncio.new_event_loop]
CLIENTS, NEWCOMERS = 10, 20
HEARTBEAT = HeartbeatRequest("g", 1, "m")

SAID = {
    "a little": {f"client-{number}": 2 for number in range(CLIENTS)},
    "more than in a turn": {f"client-{number}": 1_000 if number else 1 for number in range(2)},
    "by newcomers": {f"newcomer-{number}": 1 for number in range(NEWCOMERS)},
    "by one newcomer": {"newcomer-0": 1},
}
"""The number of heartbeats by client."""


class Bench:
    """A loop, a router with real sockets that counts heartbeats, and timers."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        turns = Turns()
        turns.call_soon = loop.call_soon  # type: ignore[method-assign,assignment]
        self.door = make_door({12: self.heartbeat}, turns, max_connections=1_000)
        self.timers = Timers(loop, self.now_ms, self.expired, self.door.connections.is_behind)
        self.heard: Counter[str] = Counter()
        self.went_off: asyncio.Future[Counter[str]] = loop.create_future()

    @staticmethod
    def now_ms() -> int:
        return int(time.monotonic() * 1000)

    def heartbeat(self, context: Any, request: HeartbeatRequest) -> HeartbeatResponse:
        self.heard[context.client_id] += 1
        return HeartbeatResponse()

    def expired(self, key: TimerKey) -> None:
        self.went_off.set_result(self.heard.copy())


async def heard_before_the_timer(said: dict[str, int]) -> Counter[str]:
    """Stall the loop while it reads: heartbeats sent meanwhile are in none of the sockets of this turn, and a timer is
    due next.
    """
    bench = Bench(asyncio.get_running_loop())
    server = await bench.loop.create_server(lambda: Connection(bench.door, "PLAINTEXT"), HOST, 0)
    address = server.sockets[0].getsockname()
    clients = {f"client-{number}": socket.create_connection(address) for number in range(CLIENTS)}
    async with asyncio.timeout(PATIENCE_S):
        while len(bench.door.connections.open) < CLIENTS:  # noqa: ASYNC110  # nobody tells of it
            await asyncio.sleep(0.001)
    bench.door.connections.is_behind()  # these clients are known
    ours, theirs = socket.socketpair()

    def hold_up() -> None:
        bench.loop.remove_reader(ours)
        for name, times in said.items():
            if name not in clients:
                clients[name] = socket.create_connection(address)
            clients[name].sendall(request_frame(HEARTBEAT, 4, 1, name) * times)
        while bench.now_ms() < deadline_ms + 10:
            time.sleep(0.001)

    bench.loop.add_reader(ours, hold_up)
    deadline_ms = bench.now_ms() + 20
    bench.timers.schedule(TimerKey("g", "session", "m"), deadline_ms)
    theirs.send(b"!")
    async with asyncio.timeout(PATIENCE_S):
        heard = await bench.went_off
    for each in (*clients.values(), ours, theirs):
        each.close()
    server.close()
    await asyncio.sleep(0.01)
    return heard


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("new_loop", LOOPS, ids=["uvloop", "asyncio"])
def test_what_lay_in_the_sockets_is_looked_at_first(
    new_loop: Callable[[], asyncio.AbstractEventLoop], said: str
) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(heard_before_the_timer(SAID[said])) == SAID[said]
