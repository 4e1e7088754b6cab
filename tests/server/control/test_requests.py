"""Requests meet faults: on raw frames, against a coordinator in a thread."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from coordinatord.testing import Kafka, KafkaError, NeverFired
from kafka_wire.api.metadata import MetadataRequest
from kafka_wire.api.produce import ProduceRequest
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from kafka_wire.registry import codec
from tests.server.control.world import GROUP, JOIN_VERSION, TOPIC, Client, coordinator

NOTHING = ErrorCode.NONE
NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR
WAIT_S = 10.0
HEARTBEAT_ANSWER_BYTES = 16


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with coordinator() as started:
        yield started


@pytest.fixture
def side() -> Iterator[ThreadPoolExecutor]:
    """For requests whose answer takes its time."""
    with ThreadPoolExecutor(4) as pool:
        yield pool


def shortcut_answers(kafka: Kafka) -> int:
    """How many heartbeats the shortcut knows: each of these bytes it answers without the router's full path."""
    daemon = kafka._server._daemon  # type: ignore[attr-defined]
    routes = daemon.control.requests._router.routes
    return sum(len(route.shortcut) for route in routes.values() if route.codec.name == "Heartbeat")


def test_a_heartbeat_that_a_shortcut_would_answer_is_caught(kafka: Kafka) -> None:
    client = Client(kafka, "a").join()
    assert [client.heartbeat() for _ in range(3)] == [NOTHING] * 3
    assert shortcut_answers(kafka) == 1
    with kafka.fail("Heartbeat", "NOT_COORDINATOR", times=2) as fault:
        assert [client.heartbeat() for _ in range(3)] == [NOT_COORDINATOR, NOT_COORDINATOR, NOTHING]
        assert fault.hits == 2
    assert fault.hits == 2
    assert client.heartbeat() == NOTHING


def test_a_producer_without_acks_gets_no_response_to_a_failed_request(kafka: Kafka) -> None:
    client = Client(kafka, "a")
    host, _colon, port = kafka.bootstrap_servers.rpartition(":")
    produce = client.frame(ProduceRequest(None, 0, 1000, []), 9)
    with socket.create_connection((host, int(port)), WAIT_S) as peer, kafka.fail("Produce", "NOT_COORDINATOR") as fault:
        peer.sendall(produce + client.frame(MetadataRequest([]), 9))
        head = peer.recv(8, socket.MSG_WAITALL)
        body = peer.recv(int.from_bytes(head[:4], "big") - 4, socket.MSG_WAITALL)
        assert fault.hits == 1
    response = codec(ApiKey.METADATA, 9).decode_response(body, 1, len(body))
    assert response.brokers
    assert not response.topics


def test_a_commit_that_a_shortcut_would_answer_is_caught(kafka: Kafka) -> None:
    client = Client(kafka, "a").join()
    assert [client.commit(offset) for offset in range(1, 5)] == [NOTHING] * 4
    with kafka.fail("OffsetCommit", "NOT_COORDINATOR", nth=2):
        assert [client.commit(offset) for offset in range(5, 8)] == [NOTHING, NOT_COORDINATOR, NOTHING]
    assert kafka.committed(GROUP) == {(TOPIC, 0): 7}


def test_frames_of_one_read_are_looked_at_one_by_one(kafka: Kafka) -> None:
    """A shortcut answers many heartbeats at once: it must not pass by a fault of the third."""
    client = Client(kafka, "a").join()
    client.heartbeat()
    frame = client.heartbeat_frame()
    connection = client.socket()
    with kafka.fail("Heartbeat", "NOT_COORDINATOR", nth=3):
        connection.sendall(frame * 4)
        answers = b""
        while len(answers) < 4 * HEARTBEAT_ANSWER_BYTES:
            answers += connection.recv(4096)
    ends = range(HEARTBEAT_ANSWER_BYTES, len(answers) + 1, HEARTBEAT_ANSWER_BYTES)
    errors = [int.from_bytes(answers[end - 3 : end - 1], "big") for end in ends]
    assert errors == [NOTHING, NOTHING, NOT_COORDINATOR, NOTHING]


def test_faults_of_one_client_or_group_hit_no_other(kafka: Kafka) -> None:
    a, b = Client(kafka, "a").join(), Client(kafka, "b").join("other")
    with kafka.fail("Heartbeat", "NOT_COORDINATOR", client="a"):
        assert (a.heartbeat(), b.heartbeat("other")) == (NOT_COORDINATOR, NOTHING)
    with kafka.fail("Heartbeat", "NOT_COORDINATOR", group="other"):
        assert (a.heartbeat(), b.heartbeat("other")) == (NOTHING, NOT_COORDINATOR)
    with kafka.fail("OffsetCommit", "NOT_COORDINATOR", optional=True):
        assert (a.heartbeat(), b.heartbeat("other")) == (NOTHING, NOTHING)


def test_a_held_request_waits_until_it_is_released(kafka: Kafka, side: ThreadPoolExecutor) -> None:
    a, b = Client(kafka, "a").join(), Client(kafka, "b").join("other")
    with kafka.hold("OffsetCommit", client="a") as held:
        waiting: Future[int] = side.submit(a.commit, 5)
        held.arrived(1)
        assert b.commit(7, "other") == NOTHING
        assert not waiting.done()
        assert kafka.committed(GROUP) == {}
        assert held.release() == 1
        assert waiting.result(WAIT_S) == NOTHING
        assert kafka.committed(GROUP) == {(TOPIC, 0): 5}
        again = side.submit(a.commit, 6)
        held.arrived(2)
    assert again.result(WAIT_S) == NOTHING  # the end of the block has released it


def test_a_held_request_of_a_client_that_is_gone_is_forgotten(kafka: Kafka, side: ThreadPoolExecutor) -> None:
    a = Client(kafka, "a").join()
    connection = a.socket()
    with kafka.hold("OffsetCommit", times=1) as held:
        waiting = side.submit(a.commit, 5)
        held.arrived(1)
        connection.shutdown(socket.SHUT_RDWR)
        assert waiting.result(WAIT_S) == NOTHING  # it has asked again on a new connection
    assert a.heartbeat() == NOTHING


def test_a_delayed_request_is_processed_later(kafka: Kafka) -> None:
    a = Client(kafka, "a").join()
    began_s = time.monotonic()
    with kafka.delay("Heartbeat", 0.05, times=1):
        assert a.heartbeat() == NOTHING
        assert time.monotonic() - began_s >= 0.05
        assert a.heartbeat() == NOTHING


def test_a_dropped_request_is_not_processed(kafka: Kafka, side: ThreadPoolExecutor) -> None:
    a = Client(kafka, "a").join()
    with kafka.drop("OffsetCommit", times=1) as fault:
        waiting = side.submit(a.commit, 5)
        fault.arrived(1)
        assert kafka.committed(GROUP) == {}
        assert not waiting.done()
    # The end of the block closes the connection, so the client asks again, and is answered.
    assert waiting.result(WAIT_S) == NOTHING
    assert kafka.committed(GROUP) == {(TOPIC, 0): 5}


def test_a_request_dropped_after_it_is_processed(kafka: Kafka, side: ThreadPoolExecutor) -> None:
    a = Client(kafka, "a").join()
    with kafka.drop("OffsetCommit", after=True, times=1) as fault:
        waiting = side.submit(a.commit, 5)
        fault.arrived(1)
        assert kafka.committed(GROUP) == {(TOPIC, 0): 5}
        assert not waiting.done()
    assert waiting.result(WAIT_S) == NOTHING


def test_disconnect_before_and_after(kafka: Kafka) -> None:
    a = Client(kafka, "a").join()
    with kafka.disconnect("OffsetCommit") as fault, pytest.raises(KafkaError, match="has not answered OffsetCommit"):
        a.commit(5)
    assert fault.hits == 2  # it has tried twice
    assert kafka.committed(GROUP) == {}
    with kafka.disconnect("OffsetCommit", after=True, times=1):
        assert a.commit(6) == NOTHING  # at the second attempt
    assert kafka.committed(GROUP) == {(TOPIC, 0): 6}


def test_a_duplicate_is_processed_twice_and_answered_once(kafka: Kafka) -> None:
    a = Client(kafka, "a")
    with kafka.duplicate("Produce", client="a") as fault:
        _produce(a)
        assert fault.hits == 1
    assert kafka.records(TOPIC) == [b"x", b"x"]
    assert len(a.wire.ask(MetadataRequest(topics=None)).topics) > 0  # nothing is left on the connection


def test_a_blackhole_takes_all_of_one_client(kafka: Kafka, side: ThreadPoolExecutor) -> None:
    a, b = Client(kafka, "a").join(), Client(kafka, "b").join("other")
    with kafka.blackhole("a") as hole:
        waiting = side.submit(a.heartbeat)
        hole.arrived(1)
        assert b.heartbeat("other") == NOTHING
        assert not waiting.done()
    assert waiting.result(WAIT_S) == NOTHING


def test_a_blackhole_without_requests_does_not_fail(kafka: Kafka) -> None:
    """It is a condition, not an expectation: whether the client sends anything meanwhile is a matter of chance."""
    with kafka.blackhole("a") as hole:
        """a is silent."""
    assert hole.hits == 0


def test_a_blackhole_takes_the_answer_to_an_earlier_request_too(kafka: Kafka) -> None:
    """b waits for its join when the blackhole begins. The group goes on with b, which never hears of it."""
    a, b, gone = Client(kafka, "a").join(), Client(kafka, "b"), []
    b.member_id = b.wire.ask(b.join_request(), JOIN_VERSION).member_id
    connection = b.socket()
    connection.sendall(b.frame(b.join_request(), JOIN_VERSION))
    kafka.group(GROUP).until(lambda view: view.member("b"))
    with kafka.blackhole("b") as hole:
        assert hole.hits == 1
        joined = a.wire.ask(a.join_request(), JOIN_VERSION)
        assert {each.member_id for each in joined.members} == {a.member_id, b.member_id}
        assert Client(kafka, "c").join("other").heartbeat("other") == NOTHING
    while data := connection.recv(4096):
        gone.append(data)
    assert gone == []  # the end of the block has closed the connection
    again = Client(kafka, "b")
    again.member_id = b.member_id
    again.generation = joined.generation_id
    assert again.heartbeat() == NOTHING  # the group has it as a member


def test_a_fault_with_limits_takes_no_earlier_answer(kafka: Kafka) -> None:
    a, b = Client(kafka, "a").join(), Client(kafka, "b")
    b.member_id = b.wire.ask(b.join_request(), JOIN_VERSION).member_id
    connection = b.socket()
    connection.sendall(b.frame(b.join_request(), JOIN_VERSION))
    kafka.group(GROUP).until(lambda view: view.member("b"))
    with kafka.drop("JoinGroup", client="b", optional=True), kafka.drop("Fetch", optional=True) as fault:
        a.wire.ask(a.join_request(), JOIN_VERSION)
        assert connection.recv(4096)
        assert fault.hits == 0


def test_one_that_never_fired_says_what_came(kafka: Kafka) -> None:
    a = Client(kafka, "a").join()

    def nothing_fires() -> None:
        with kafka.fail("OffsetCommit", "NOT_COORDINATOR", client="b"):
            a.heartbeat()
            a.commit(3)

    with pytest.raises(NeverFired) as told:
        nothing_fires()
    assert str(told.value) == (
        "This fault has never fired: fail OffsetCommit with NOT_COORDINATOR (client b); no request matched. "
        "In its block there came from a 1 Heartbeat, 1 OffsetCommit. With optional=True that is fine."
    )


def test_an_error_in_the_block_is_not_hidden(kafka: Kafka) -> None:
    with pytest.raises(ZeroDivisionError), kafka.fail("OffsetCommit", "NOT_COORDINATOR"):
        1 / 0  # noqa: B018


def test_faults_outlive_a_restart(kafka: Kafka) -> None:
    with kafka.fail("Heartbeat", "NOT_COORDINATOR", times=2) as fault:
        client = Client(kafka, "a").join()
        assert client.heartbeat() == NOT_COORDINATOR
        kafka.restart(crash=True)
        assert client.heartbeat() == NOT_COORDINATOR
        assert client.heartbeat() == NOTHING
        assert fault.hits == 2


def test_without_control_the_router_is_the_daemons_own() -> None:
    """Who does not test pays for nothing: no request comes by here."""
    import asyncio
    import dataclasses

    from coordinatord.broker.log.simulated_disk import SimulatedDisk
    from coordinatord.server.daemon.daemon import Daemon
    from coordinatord.server.daemon.embedded import EmbeddedOptions, InlineWorker
    from coordinatord.testing.settings import settings_of
    from coordinatord.transport.net.router import Router

    settings = settings_of({}, in_memory=True)

    async def router(*, is_controlled: bool) -> str:
        changed = dataclasses.replace(settings, test_control_enable=is_controlled)
        loop = asyncio.get_running_loop()
        daemon = Daemon(changed, loop, log_worker=InlineWorker(), guest=EmbeddedOptions(SimulatedDisk()))
        return type(daemon.door.router).__name__

    assert asyncio.run(router(is_controlled=False)) == Router.__name__
    assert asyncio.run(router(is_controlled=True)) == "Requests"


def _produce(client: Client) -> None:
    client.wire.put(TOPIC, [(None, b"x", ())], 0, 1_700_000_000_000)
