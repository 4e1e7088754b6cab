"""What a node without its lease, or without its database, answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from coordinatord.server.postgresql.lease_guard import FINDING, REFUSABLE, WRITING, Requests, TimeoutGate
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.list_offsets import ListOffsetsRequest
from kafka_wire.api.metadata import MetadataRequest
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafka_wire.client import request_frame
from kafka_wire.errors import ErrorCode


class Router:
    def __init__(self) -> None:
        self.served: list[tuple[int, int]] = []

    def serve(self, connection: Any, frames: Any, first: int, stop: int) -> int:
        self.served.append((first, stop))
        return stop - first

    def slice(self, context: Any, slices: Any) -> None:
        raise AssertionError("nothing is sliced here")

    def failed(self, connection: Any, codec: Any) -> None:
        raise AssertionError("no handler has failed")


class Peer:
    """A connection, and the line of its answers."""

    client_id = None

    def __init__(self) -> None:
        self.line = self
        self.answers: list[Any] = []
        self.closed = False

    def answer(self, context: Any, response: Any) -> None:
        self.answers.append(response)

    def close(self) -> None:
        self.closed = True


def frame(request: Any, version: int) -> tuple[bytes, int, int]:
    out = request_frame(request, version, 1, "client")[4:]
    return out, 0, len(out)


HEARTBEAT = frame(HeartbeatRequest("group", 1, "member"), 4)
COMMIT = frame(
    OffsetCommitRequest(
        "group", topics=[OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 1)])]
    ),
    8,
)
OFFSETS = frame(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("group", topics=None)]), 8)
METADATA = frame(MetadataRequest(), 9)
LIST_OFFSETS = frame(ListOffsetsRequest(-1), 7)


def gate(holds: bool = True, since_s: float | None = None) -> tuple[Requests, Router]:
    router = Router()
    lease, store = SimpleNamespace(holds=holds), SimpleNamespace(appending_since_s=since_s)
    return Requests(router, lease, store, 5.0, now_s=lambda: 100.0), router


def test_with_lease_and_database_everything_is_passed_on() -> None:
    for since_s in (None, 96.0):
        requests, router = gate(since_s=since_s)
        assert requests.serve(Peer(), [HEARTBEAT, COMMIT, OFFSETS], 0, 3) == 3
        assert router.served == [(0, 3)]


@pytest.mark.parametrize("request_frame", [HEARTBEAT, COMMIT, OFFSETS])
def test_without_its_lease_a_node_knows_no_group(request_frame: Any) -> None:
    requests, router = gate(holds=False)
    peer = Peer()
    assert requests.serve(peer, [request_frame], 0, 1) == 1
    assert not router.served
    [answer] = peer.answers
    assert ErrorCode.NOT_COORDINATOR in errors_of(answer)
    assert not peer.closed


def errors_of(answer: Any) -> list[int]:
    if hasattr(answer, "error_code") and answer.error_code:
        return [answer.error_code]
    inner = getattr(answer, "groups", None) or [p for topic in answer.topics for p in topic.partitions]
    return [each.error_code for each in inner]


def test_without_its_lease_a_node_serves_nothing_else_but_what_finds_another() -> None:
    requests, router = gate(holds=False)
    peer = Peer()
    assert requests.serve(peer, [METADATA, METADATA], 0, 2) == 1
    assert router.served == [(0, 1)]
    assert requests.serve(peer, [LIST_OFFSETS], 0, 1) == 1
    assert router.served == [(0, 1)]
    assert peer.closed
    other = Peer()
    requests.serve(other, [(b"\0\x09\0\x08\0\0\0\1\0", 0, 9)], 0, 1)
    assert other.closed, "nothing that can be decoded"


def test_without_its_database_a_node_takes_no_commits() -> None:
    requests, router = gate(since_s=94.9)
    peer = Peer()
    assert requests.serve(peer, [COMMIT, COMMIT], 0, 2) == 1
    assert errors_of(peer.answers[0]) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert requests.serve(peer, [HEARTBEAT, COMMIT], 0, 2) == 1
    assert requests.serve(peer, [OFFSETS], 0, 1) == 1
    assert router.served == [(0, 1), (0, 1)], "one by one: a shortcut would answer the commit, too"
    assert requests.refused == 1


def test_requests_that_find_a_node_are_always_served() -> None:
    assert WRITING < REFUSABLE
    assert not FINDING & REFUSABLE


class Log:
    """A gate whose epochs become durable by hand."""

    def __init__(self) -> None:
        self.flushed_epoch = 0
        self.held: list[tuple[int, Any, Any]] = []

    def hold(self, epoch: int, callback: Any, failed: Any = None) -> None:
        if epoch <= self.flushed_epoch:
            callback()
        else:
            self.held.append((epoch, callback, failed))

    def flush(self, epoch: int) -> None:
        self.flushed_epoch = epoch
        now, self.held = [h for h in self.held if h[0] <= epoch], [h for h in self.held if h[0] > epoch]
        for _epoch, callback, _failed in now:
            callback()


def test_a_response_waits_no_longer_than_its_timeout_and_is_sent_once() -> None:
    log, now = Log(), [0.0]
    waiting = TimeoutGate(log, 5.0, SimpleNamespace(holds=True), now_s=lambda: now[0])
    told: list[str] = []

    def hold(epoch: int, name: str) -> None:
        waiting.hold(epoch, lambda: told.append(f"{name} durable"), lambda: told.append(f"{name} failed"))

    hold(1, "a")
    now[0] = 1.0
    hold(2, "b")
    waiting.hold(2, lambda: told.append("no response"))
    now[0] = 5.5
    waiting.give_up()
    assert told == ["a failed"]
    log.flush(2)
    assert told == ["a failed", "b durable", "no response"]
    now[0] = 20.0
    waiting.give_up()
    assert told == ["a failed", "b durable", "no response"]
    hold(2, "at once")
    assert (told[-1], waiting.flushed_epoch, waiting.given_up) == ("at once durable", 2, 1)


def test_a_patient_response_waits_until_the_lease_is_over_and_is_sent_behind_the_others() -> None:
    log, now, lease = Log(), [0.0], SimpleNamespace(holds=True)
    waiting = TimeoutGate(log, 5.0, lease, now_s=lambda: now[0])
    told: list[str] = []
    for name, is_patient in (("produce", True), ("commit", False), ("another", True)):
        waiting.hold(1, lambda: None, lambda name=name: told.append(name), is_patient)  # type: ignore[misc]
    now[0] = 5.5
    waiting.give_up()
    assert told == ["commit"]
    waiting.hold(2, lambda: None, lambda: told.append("later"))
    lease.holds = False
    waiting.give_up()
    assert (told, waiting.given_up) == (["commit", "later", "produce", "another"], 4)
