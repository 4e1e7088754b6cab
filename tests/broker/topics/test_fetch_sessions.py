"""Fetch sessions (KIP-227): a client that follows the rules sees every record, one that doesn't is told."""

from __future__ import annotations

import gc
import itertools
import tracemalloc

import pytest

from coordinatord.broker.topics import fetch_sessions
from coordinatord.broker.topics.fetch_sessions import (
    EVICTABLE_AFTER_MS,
    MAX_EPOCH,
    CachedPartition,
    FetchSessions,
    next_epoch,
)
from kafka_wire.api.delete_topics import DeleteTopicsRequest
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from kafka_wire.errors import ErrorCode
from tests.broker.topics.test_fetch import at, shown
from tests.broker.topics.world import World, batch


@pytest.fixture
def world() -> World:
    made = World()
    made.create("orders", 3)
    return made


def request(
    world: World,
    session_id: int,
    epoch: int,
    *partitions: FetchPartition,
    forget: tuple[int, ...] = (),
    version: int = 13,
) -> FetchResponse:
    topic_id = world.topics.topic_id("orders") or b"\7" * 16
    asked = FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic("orders", topic_id, list(partitions))] if partitions else [],
        forgotten_topics_data=[ForgottenTopic("orders", topic_id, list(forget))] if forget else [],
    )
    response: FetchResponse = world.call(1, version, asked)
    return response


@pytest.mark.parametrize("version", [7, 12, 13, 18])
def test_a_session_shows_what_is_new(world: World, version: int) -> None:
    opened = request(world, 0, 0, at(0), at(1), version=version)
    session_id = opened.session_id
    assert session_id > 0
    assert shown(opened) == [(0, 0, 0), (1, 0, 0)]
    assert shown(request(world, session_id, 1, version=version)) == []
    world.produce("orders", batch(b"a"), partition=1)
    news = request(world, session_id, 2, version=version)
    assert (news.session_id, shown(news)) == (session_id, [(1, 0, 1)])
    # It asks where it goes on; the other partition stays as it was.
    assert shown(request(world, session_id, 3, at(1, 1), version=version)) == []
    world.produce("orders", batch(b"a"), partition=0)
    assert shown(request(world, session_id, 4, version=version)) == [(0, 0, 1)]


def test_partitions_are_added_and_forgotten(world: World) -> None:
    session_id = request(world, 0, 0, at(0)).session_id
    for partition in range(3):
        world.produce("orders", batch(b"a"), partition=partition)
    assert shown(request(world, session_id, 1, at(2))) == [(0, 0, 1), (2, 0, 1)]
    assert shown(request(world, session_id, 2, at(2, 1), at(1), forget=(0,))) == [(1, 0, 1)]


def test_a_partition_that_had_data_comes_last_next_time(world: World) -> None:
    session_id = request(world, 0, 0, at(0), at(1), at(2)).session_id
    world.produce("orders", batch(b"a"), partition=0)
    request(world, session_id, 1)
    for partition in (1, 2):
        world.produce("orders", batch(b"a"), partition=partition)
    assert shown(request(world, session_id, 2)) == [(1, 0, 1), (2, 0, 1), (0, 0, 1)]


def test_an_error_is_shown_until_it_goes_and_then_the_partition(world: World) -> None:
    opened = request(world, 0, 0, at(0, 5))
    assert shown(opened) == [(0, ErrorCode.OFFSET_OUT_OF_RANGE, 0)]
    assert shown(request(world, opened.session_id, 1)) == [(0, ErrorCode.OFFSET_OUT_OF_RANGE, 0)]
    assert shown(request(world, opened.session_id, 2, at(0, 0))) == [(0, 0, 0)]
    assert shown(request(world, opened.session_id, 3)) == []


def test_a_deleted_topic_is_told(world: World) -> None:
    opened = request(world, 0, 0, at(0))
    world.call(20, 5, DeleteTopicsRequest([], ["orders"]))
    assert shown(request(world, opened.session_id, 1)) == [(0, ErrorCode.UNKNOWN_TOPIC_ID, 0)]


def test_wrong_epochs_and_unknown_sessions(world: World) -> None:
    session_id = request(world, 0, 0, at(0)).session_id
    wrong = request(world, session_id, 2)
    assert (wrong.error_code, wrong.session_id, wrong.responses) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0, [])
    assert request(world, session_id, 1).error_code == 0
    assert request(world, session_id, 1).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    unknown = request(world, session_id + 1, 1)
    assert (unknown.error_code, unknown.session_id) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    assert request(world, session_id, 2, version=12).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_full_request_closes_the_session_it_names(world: World) -> None:
    first = request(world, 0, 0, at(0)).session_id
    second = request(world, first, 0, at(0)).session_id
    assert second not in (0, first)
    assert request(world, first, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    # Epoch -1: and no other in its place.
    assert request(world, second, -1, at(0)).session_id == 0
    assert len(world.topics.fetching.sessions) == 0


def test_a_session_that_has_forgotten_everything_ends(world: World) -> None:
    session_id = request(world, 0, 0, at(0)).session_id
    ended = request(world, session_id, 1, forget=(0,))
    assert (ended.error_code, ended.session_id, ended.responses) == (0, 0, [])
    assert request(world, session_id, 2).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_old_clients_get_no_session(world: World) -> None:
    response = world.call(1, 6, FetchRequest(topics=[FetchTopic("orders", partitions=[at(0)])]))
    assert shown(response) == [(0, 0, 0)]
    assert len(world.topics.fetching.sessions) == 0


def test_two_requests_of_one_session_at_a_time(world: World) -> None:
    session_id = request(world, 0, 0, at(0)).session_id
    parked = world.send(1, 13, FetchRequest(max_wait_ms=500, min_bytes=1, session_id=session_id, session_epoch=1))
    assert parked.answers == 0
    overtaking = world.send(1, 13, FetchRequest(max_wait_ms=0, session_id=session_id, session_epoch=2))
    assert overtaking.response.error_code == 0
    world.pass_time(500)
    assert parked.response.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_session_that_grows_too_large_ends(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "MAX_SESSION_PARTITIONS", 2)
    assert request(world, 0, 0, at(0), at(1), at(2)).session_id == 0
    session_id = request(world, 0, 0, at(0), at(1)).session_id
    assert request(world, session_id, 1, at(2)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(world.topics.fetching.sessions) == 0


def test_partitions_of_all_sessions_together_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of sessions that grow; what ends gives its room back. Nobody is refused the fetch itself."""
    each = fetch_sessions.PARTITION_BYTES + 16
    monkeypatch.setattr(fetch_sessions, "MAX_SESSION_BYTES", 4 * each)
    first = request(world, 0, 0, at(0), at(1)).session_id
    second = request(world, 0, 0, at(0)).session_id
    assert first
    assert second
    refused = request(world, 0, 0, at(0), at(1))
    assert (refused.error_code, refused.session_id) == (0, 0)
    assert world.topics.fetching.sessions.bytes == 3 * each
    assert request(world, second, 1, at(1)).error_code == 0
    assert request(world, second, 2, at(2)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert world.topics.fetching.sessions.bytes == 2 * each, "the session that grew too large is gone"
    request(world, first, -1)
    assert world.topics.fetching.sessions.bytes == 0
    assert request(world, 0, 0, at(0), at(1), at(2)).session_id


IMPOSSIBLE = ["x" * 250, "white space", "", ".", "caf\u00e9", "\U0001f600" + "x" * 32_000]


def by_name(world: World, session_id: int, epoch: int, *names: str, forget: str = "") -> FetchResponse:
    asked = FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(name, partitions=[at(0)]) for name in names],
        forgotten_topics_data=[ForgottenTopic(forget, partitions=[0])] if forget else [],
    )
    response: FetchResponse = world.call(1, 12, asked)
    return response


def told(response: FetchResponse) -> dict[str, int]:
    return {topic.topic: each.error_code for topic in response.responses for each in topic.partitions}


def test_topics_that_cannot_exist_are_answered_and_not_kept(world: World) -> None:
    unknown = dict.fromkeys(IMPOSSIBLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    opened = by_name(world, 0, 0, "orders", *IMPOSSIBLE)
    assert told(opened) == {"orders": 0, **unknown}
    sessions = world.topics.fetching.sessions
    assert sessions.bytes == fetch_sessions.PARTITION_BYTES + len("orders")
    assert told(by_name(world, opened.session_id, 1, *IMPOSSIBLE)) == unknown
    assert told(by_name(world, opened.session_id, 2)) == {}
    assert sessions.bytes == fetch_sessions.PARTITION_BYTES + len("orders")
    assert told(by_name(world, opened.session_id, 3, "may-come")) == {"may-come": 3}
    assert told(by_name(world, opened.session_id, 4)) == {"may-come": 3}, "until it is there, or forgotten"
    assert told(by_name(world, opened.session_id, 5, forget="may-come")) == {}
    assert told(by_name(world, 0, 0, *IMPOSSIBLE)) == unknown
    assert len(sessions) == 1, "no session of nothing"


def test_a_partition_takes_what_is_counted_for_it(world: World) -> None:
    count = 2_000
    names = [f"{number:0249}" for number in range(count)]
    tracemalloc.start()
    session_id = by_name(world, 0, 0, *names).session_id
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert session_id
    assert held <= 1.2 * world.topics.fetching.sessions.bytes


# Which sessions are kept


def sessions(slots: int) -> FetchSessions:
    ids = itertools.count(1)
    return FetchSessions(slots, lambda: next(ids))


def open_session(kept: FetchSessions, size: int, now_ms: int) -> int | None:
    partitions = {("orders", index): CachedPartition(FetchPartition(index)) for index in range(size)}
    made = kept.create(partitions, uses_topic_ids=False, now_ms=now_ms)  # type: ignore[arg-type]  # str is a TopicKey
    return made.session_id if made is not None else None


def use(kept: FetchSessions, session_id: int, now_ms: int) -> None:
    found = kept._by_id[session_id]
    kept.used(found, now_ms)


def test_young_sessions_are_not_evicted() -> None:
    kept = sessions(2)
    assert [open_session(kept, size, 0) for size in (1, 1, 100)] == [1, 2, None]


def test_the_longest_idle_goes_first() -> None:
    kept = sessions(2)
    open_session(kept, 5, 0)
    open_session(kept, 5, 10)
    use(kept, 1, 20)
    assert open_session(kept, 1, 10 + EVICTABLE_AFTER_MS) is None
    assert open_session(kept, 1, 11 + EVICTABLE_AFTER_MS) == 3
    assert sorted(kept._by_id) == [1, 3]


def test_then_the_smallest_that_is_old_and_smaller() -> None:
    kept = sessions(2)
    open_session(kept, 5, 0)
    open_session(kept, 3, 0)
    now_ms = EVICTABLE_AFTER_MS + 1
    use(kept, 1, now_ms)
    use(kept, 2, now_ms)
    assert open_session(kept, 3, now_ms) is None
    assert open_session(kept, 4, now_ms) == 3
    assert sorted(kept._by_id) == [1, 3]


def test_no_slots_no_sessions() -> None:
    assert open_session(sessions(0), 1, 0) is None


def test_epochs_wrap_to_1() -> None:
    assert [next_epoch(0), next_epoch(1), next_epoch(MAX_EPOCH), next_epoch(-1)] == [1, 2, 1, -1]
