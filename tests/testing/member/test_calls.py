"""Calls of the client: one at a time, arguments that make no sense, and exceptions that nobody was there to catch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import coordinatord.testing.member.client as client_module
from coordinatord.testing.member.calls import ConcurrentModificationError, ConsumerClosedError
from coordinatord.testing.member.client import Client
from coordinatord.testing.member.events import Woken
from coordinatord.testing.member.result import Assigned, Polled, Result
from coordinatord.testing.member.state import MemberSettings
from kafka_wire.records.batch import Record
from tests.daemon import Daemon, running
from tests.testing.member.client_stories import prepare, until

T0 = ("t", 0)
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("daemon"), SETTINGS) as daemon:
        prepare(daemon.bootstrap, "t", 0)
        yield daemon


def alone(**settings: Any) -> Client:
    """Nobody listens where it looks for brokers."""
    client = Client("127.0.0.1:9", MemberSettings("g", **settings))
    client.subscribe(["t"])
    return client


async def owns(client: Client) -> None:
    while not client.assignment:
        await client.poll(0.1)


async def test_a_second_poll_is_refused_and_the_first_returns() -> None:
    client = alone()
    first = asyncio.create_task(client.poll(0.3), name="first")
    await asyncio.sleep(0)
    with pytest.raises(ConcurrentModificationError, match=r"poll by .*, and poll by first has not returned yet"):
        await client.poll(0.1)
    assert await asyncio.wait_for(first, 30) == {}
    assert await client.poll(0) == {}, "released"
    client.abort()


CALLS: dict[str, Callable[[Client], Any]] = {
    "subscribe": lambda client: client.subscribe(["u"]),
    "commit": lambda client: client.commit({T0: 1}),
    "commit_async": lambda client: client.commit_async({T0: 1}),
    "seek": lambda client: client.seek(T0, 1),
    "pause": lambda client: client.pause(T0),
    "resume": lambda client: client.resume(T0),
    "rejoin": lambda client: client.rejoin(),
    "close": lambda client: client.close(),
}


async def called(client: Client, call: str) -> None:
    result = CALLS[call](client)
    if asyncio.iscoroutine(result):
        await result


@pytest.mark.parametrize("call", CALLS)
async def test_every_call_that_changes_something_is_refused_meanwhile(call: str) -> None:
    client = alone()
    first = asyncio.create_task(client.poll(0.2))
    await asyncio.sleep(0)
    with pytest.raises(ConcurrentModificationError, match=f"^KafkaConsumer is not safe.*: {call} by "):
        await called(client, call)
    assert (client.assignment, client.positions, client.metrics.join_latency.count) == (set(), {}, 0)
    assert await asyncio.wait_for(first, 30) == {}
    assert client.member.subscription == {"t"}
    assert not client.member.closed
    client.abort()


async def test_a_poll_that_is_cancelled_is_released() -> None:
    client = alone()
    first = asyncio.create_task(client.poll(30))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert await client.poll(0) == {}
    client.abort()


async def test_a_commit_that_is_cancelled_is_released() -> None:
    client = alone()
    first = asyncio.create_task(client.commit({T0: 1}))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert await client.poll(0) == {}
    client.abort()


@pytest.mark.parametrize("timeout_s", [-1, -0.0001])
async def test_negative_timeouts_are_refused(timeout_s: float) -> None:
    client = alone()
    with pytest.raises(ValueError, match="Invalid negative timeout -"):
        await client.poll(timeout_s)
    with pytest.raises(ValueError, match="Invalid negative timeout -"):
        await client.commit({T0: 1}, timeout_s)
    with pytest.raises(ValueError, match="Invalid negative timeout -"):
        await client.close(timeout_s=timeout_s)
    assert await client.poll(0) == {}
    client.abort()


async def test_after_close_nothing_can_be_called() -> None:
    client = alone()
    await client.close(timeout_s=0)
    with pytest.raises(ConsumerClosedError):
        await client.poll(0)
    await client.close()


async def test_an_exception_on_the_heartbeats_side_comes_out_of_the_next_poll(
    broker: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Heartbeats stop until then, as with Kafka's heartbeat thread, and go on after it."""
    settings = MemberSettings("heartbeats", heartbeat_interval_ms=50, session_timeout_ms=6_000)
    client = Client(broker.bootstrap, settings)
    client.subscribe(["t"])
    await owns(client)
    step, failed = client_module.step, []

    def failing(member: Any, event: Any, now_ms: int) -> Any:
        if isinstance(event, Woken) and not member.in_poll:
            failed.append(now_ms)
            raise LookupError("in the heartbeat")
        return step(member, event, now_ms)

    monkeypatch.setattr(client_module, "step", failing)
    await until(lambda: bool(failed), "a heartbeat that fails")
    await asyncio.sleep(0.2)
    assert len(failed) == 1, "it does not go on failing"
    monkeypatch.undo()
    sent = client.member.heartbeat.last_sent_ms
    with pytest.raises(LookupError, match="in the heartbeat"):
        await client.poll(10)
    await client.poll(0)
    await until(lambda: client.member.heartbeat.last_sent_ms != sent, "another heartbeat")
    assert client.assignment
    await client.close()


async def test_an_exception_of_on_change_comes_out_of_the_poll_and_the_assignment_stays(broker: Daemon) -> None:
    told: list[str] = []

    def on_change(change: Any) -> None:
        told.append(type(change).__name__)
        if isinstance(change, Assigned) and told.count("Assigned") == 1:
            raise LookupError("in the listener")

    settings = MemberSettings("listener", heartbeat_interval_ms=50, session_timeout_ms=6_000)
    client = Client(broker.bootstrap, settings, on_change=on_change)
    client.subscribe(["t"])
    with pytest.raises(LookupError, match="in the listener"):
        await asyncio.wait_for(owns(client), 30)
    assert client.assignment
    await client.poll(0.1)
    sent = client.member.heartbeat.last_sent_ms
    await until(lambda: client.member.heartbeat.last_sent_ms != sent, "heartbeats")
    await client.close()
    assert told == ["Assigned", "Revoked"]


@pytest.mark.parametrize("records", [False, True])
async def test_an_exception_of_on_change_does_not_cost_records(records: bool) -> None:
    """They and the change came with one step: the poll returns them, and the next one raises."""

    def on_change(_change: Any) -> None:
        raise LookupError("in the listener")

    client = Client("127.0.0.1:9", MemberSettings("g"), on_change=on_change)
    client.subscribe(["t"])
    polling = asyncio.create_task(client.poll(30))
    await asyncio.sleep(0)
    found = {T0: [Record(0, 0, None, b"v", [])]} if records else {}
    client._apply(Result(changes=[Assigned((T0,))], polled=Polled(found)))
    if records:
        assert await polling == found
        polling = asyncio.create_task(client.poll(0))
    with pytest.raises(LookupError):
        await polling
    assert await client.poll(0) == {}
    client.abort()


async def test_on_change_may_call_what_does_not_wait(broker: Daemon) -> None:
    client: Client
    done: list[str] = []

    def on_change(change: Any) -> None:
        if isinstance(change, Assigned):
            client.pause(*change.partitions)
            client.resume(*change.partitions)
            done.append("paused")

    settings = MemberSettings("calls back", heartbeat_interval_ms=50, session_timeout_ms=6_000)
    client = Client(broker.bootstrap, settings, on_change=on_change)
    client.subscribe(["t"])
    await asyncio.wait_for(owns(client), 30)
    assert done == ["paused"]
    await client.close()


async def test_what_on_change_raises_in_close_comes_out_of_it(broker: Daemon) -> None:
    def on_change(change: Any) -> None:
        if not isinstance(change, Assigned):
            raise LookupError("in the listener")

    settings = MemberSettings("closes", heartbeat_interval_ms=50, session_timeout_ms=6_000)
    client = Client(broker.bootstrap, settings, on_change=on_change)
    client.subscribe(["t"])
    await owns(client)
    with pytest.raises(LookupError, match="in the listener"):
        await client.close()
    assert client.member.closed


async def test_lag_and_metrics_can_be_read(broker: Daemon) -> None:
    settings = MemberSettings("lag", heartbeat_interval_ms=50, session_timeout_ms=6_000)
    async with Client(broker.bootstrap, settings) as client:
        client.subscribe(["t"])
        await owns(client)
        for _ in range(100):
            await client.poll(0.1)
            if client.partition_lag(T0) is not None and client.metrics.heartbeat_latency.count:
                break
        assert client.partition_lag(T0) == 0
        assert client.metrics.join_latency.count == 1
        assert client.metrics.fetch_latency.count > 0
        assert client.metrics.heartbeat_latency.count > 0
