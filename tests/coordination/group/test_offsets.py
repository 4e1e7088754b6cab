"""Offsets: who may commit when, what is fetched, deleted and expired, and when the group goes with them."""

from __future__ import annotations

from typing import Any

import pytest

from coordinatord.coordination.group import events
from coordinatord.coordination.group.classic.step import step
from coordinatord.coordination.group.offsets.committed import fetch_offsets
from coordinatord.coordination.group.result import NOTHING
from kafka_wire.api.offset_commit import OffsetCommitRequest
from kafka_wire.api.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kafka_wire.api.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kafka_wire.errors import ErrorCode
from kafka_wire.records.offsets import OffsetCommitValue
from kafka_wire.schema import ZERO_UUID
from tests.coordination.group.world import TOPIC_ID, World, commit_topic, subscription

RETENTION_MS = 1_000_000


def errors_of(reply: Any) -> list[int]:
    return [partition.error_code for topic in reply.topics for partition in topic.partitions]


def fetched(world: World, topic: str = "t", *partitions: int, topic_id: bytes = ZERO_UUID) -> list[tuple[int, int]]:
    """(offset, leader epoch) of each partition."""
    topics = [OffsetFetchRequestTopics(topic, topic_id, list(partitions or (0,)))]
    response = fetch_offsets(world.group, OffsetFetchRequestGroup("g", topics=topics))
    assert response.error_code == 0
    return [(p.committed_offset, p.committed_leader_epoch) for p in response.topics[0].partitions]


def delete_request(**topics: list[int]) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        "g",
        [OffsetDeleteRequestTopic(t, [OffsetDeleteRequestPartition(p) for p in ps]) for t, ps in topics.items()],
    )


# Commit


def test_a_commit_without_a_member_creates_a_simple_group() -> None:
    world = World()
    reply = world.commit(topics=[commit_topic("t", {0: 5, 1: 6}), commit_topic("u", {0: 7})])
    assert errors_of(reply) == [0, 0, 0]
    assert [(topic.name, topic.topic_id) for topic in reply.topics] == [("t", TOPIC_ID), ("u", TOPIC_ID)]
    assert world.group.exists
    assert world.group.metadata is None
    assert fetched(world, "t", 0, 1) == [(5, -1), (6, -1)]
    key, value = world.log[0]
    assert (key.group, key.topic, key.partition) == ("g", "t", 0)
    assert value == OffsetCommitValue(offset=5, commit_timestamp=world.now_ms, topic_id=TOPIC_ID)


@pytest.mark.parametrize(("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_generation_of_a_group_that_is_not_there(version: int, error: ErrorCode) -> None:
    world = World()
    assert errors_of(world.commit("m", 0, version=version)) == [error]
    assert not world.group.exists


def test_by_state_generation_and_member() -> None:
    world = World()
    unknown, illegal = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION
    world.join()
    assert errors_of(world.commit("anybody", -1)) == [0]  # Empty
    assert errors_of(world.commit("anybody", 0)) == [unknown]
    member_id, _ = world.enter()
    assert errors_of(world.commit(member_id, 0)) == [0]  # PreparingRebalance
    assert errors_of(world.commit(member_id, -1)) == [illegal]
    assert errors_of(world.commit(member_id, 1)) == [illegal]
    assert errors_of(world.commit("", -1)) == [unknown]
    world.leave(next(iter(world.group.pending_members)))
    world.advance(3_000)
    assert errors_of(world.commit(member_id, 1)) == [ErrorCode.REBALANCE_IN_PROGRESS]  # CompletingRebalance
    assert errors_of(world.commit(member_id, 0)) == [illegal]
    world.sync(member_id, {})
    assert errors_of(world.commit(member_id, 1)) == [0]  # Stable
    assert errors_of(world.commit("stray", 1)) == [unknown]
    assert errors_of(world.commit("", -1)) == [unknown]
    assert errors_of(world.commit(member_id, 1, group_instance_id="i")) == [unknown]
    dead = world.group
    world.tell(events.Unload())
    request = OffsetCommitRequest("g", 1, member_id, topics=[commit_topic("t", {0: 1})])
    assert errors_of(step(dead, events.Commit.of(request, 9), 0).reply) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_a_fenced_member_does_not_commit() -> None:
    world = World(initial_rebalance_delay_ms=0)
    old = world.join(group_instance_id="i").member_id
    world.sync(old, {})
    world.join(group_instance_id="i")
    assert errors_of(world.commit(old, 1, group_instance_id="i")) == [ErrorCode.FENCED_INSTANCE_ID]


def test_metadata_that_is_too_long_fails_by_itself() -> None:
    world = World()
    short = commit_topic("t", {0: 1}, committed_metadata="m" * 4_096)
    long = commit_topic("u", {0: 2}, committed_metadata="m" * 4_097)
    assert errors_of(world.commit(topics=[short, long])) == [0, ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert len(world.log) == 1


def test_metadata_is_counted_in_utf_16_units() -> None:
    world = World()
    fits = commit_topic("t", {0: 1}, committed_metadata="😀" * 2_048)
    too_long = commit_topic("t", {1: 1}, committed_metadata="😀" * 2_049)
    umlauts = commit_topic("t", {2: 1}, committed_metadata="ü" * 4_096)
    assert errors_of(world.commit(topics=[fits, too_long, umlauts])) == [0, ErrorCode.OFFSET_METADATA_TOO_LARGE, 0]


def test_null_metadata_is_stored_as_empty_and_the_leader_epoch_is_kept() -> None:
    world = World()
    world.commit(topics=[commit_topic("t", {0: 1}, committed_leader_epoch=3, committed_metadata=None)])
    assert world.log[0][1].metadata == ""
    assert fetched(world) == [(1, 3)]


def test_the_retention_of_v2_to_v4_becomes_a_time_of_expiry() -> None:
    world = World()
    world.commit(retention_time_ms=10_000, version=2)
    value = world.log[0][1]
    assert value.expire_timestamp == world.now_ms + 10_000
    assert (value.leader_epoch, value.topic_id) == (-1, ZERO_UUID)  # the value is logged as v1, which has neither
    world.commit(retention_time_ms=2**63 - 1, version=2)
    assert world.log[1][1].expire_timestamp == 2**63 - 1
    world.commit(retention_time_ms=-(2**63), version=2)
    assert world.log[2][1].expire_timestamp == 0


def test_a_group_all_of_whose_commits_were_refused_exists_nevertheless() -> None:
    world = World()
    world.commit(topics=[commit_topic("t", {0: 1}, committed_metadata="m" * 5_000)])
    assert world.group.exists
    assert world.log == []


# Fetch


def test_what_was_never_committed_is_minus_one() -> None:
    world = World()
    assert fetched(world, "t", 0, 1) == [(-1, -1), (-1, -1)]
    world.commit()
    assert fetched(world, "t", 0, 1) == [(5, -1), (-1, -1)]
    assert fetched(world, "other") == [(-1, -1)]
    response = fetch_offsets(None, OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", ZERO_UUID, [0])]))
    assert response.topics[0].partitions[0].metadata == ""


def test_all_topics() -> None:
    world = World()
    everything = OffsetFetchRequestGroup("g", topics=None)
    assert fetch_offsets(world.group, everything).topics == []
    assert fetch_offsets(None, everything).topics == []
    world.commit(topics=[commit_topic("t", {0: 5, 3: 6}), commit_topic("u", {1: 7})])
    response = fetch_offsets(world.group, everything, require_stable=True)
    found = {(t.name, p.partition_index): p.committed_offset for t in response.topics for p in t.partitions}
    assert found == {("t", 0): 5, ("t", 3): 6, ("u", 1): 7}
    assert response.group_id == "g"


def test_an_offset_of_an_earlier_topic_by_that_name_is_not_shown_to_those_who_ask_by_id() -> None:
    world = World()
    world.commit()
    assert fetched(world, topic_id=TOPIC_ID) == [(5, -1)]
    assert fetched(world, topic_id=b"x" * 16) == [(-1, -1)]
    assert fetched(world, topic_id=ZERO_UUID) == [(5, -1)]
    world.commit(retention_time_ms=10_000)  # stored without an id
    assert fetched(world, topic_id=b"x" * 16) == [(5, -1)]


# OffsetDelete


def test_offset_delete_by_kind_of_group() -> None:
    world = World()
    request = delete_request(t=[0, 9], u=[0])
    assert world.tell(request).reply.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    world.commit(topics=[commit_topic("t", {0: 5}), commit_topic("u", {0: 7})])
    assert errors_of(world.tell(request).reply) == [0, 0, 0]
    assert [value for _, value in world.log[-2:]] == [None, None]
    assert world.group.offsets == {}
    assert world.group.exists
    world.group.group_id = ""
    assert world.tell(request).reply.error_code == ErrorCode.INVALID_GROUP_ID


def test_consumers_protect_the_topics_they_are_subscribed_to() -> None:
    world = World()
    world.stable(protocols={"range": subscription("t", "v")})
    (leader,) = world.group.members
    world.commit(leader, 1, topics=[commit_topic("t", {0: 5}), commit_topic("u", {0: 7})])
    reply = world.tell(delete_request(t=[0], u=[0])).reply
    assert errors_of(reply) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, 0]
    assert list(world.group.offsets) == ["t"]
    world.leave(leader)
    assert errors_of(world.tell(delete_request(t=[0])).reply) == [0]


@pytest.mark.parametrize("metadata", [b"", b"\x00\x00\x00\x00\x00\x09", b"\xff\xff" + b"\x00" * 8])
def test_and_all_topics_while_nobody_can_tell(metadata: bytes) -> None:
    world = World()
    world.stable(protocols={"range": metadata})
    assert errors_of(world.tell(delete_request(t=[0])).reply) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


def test_during_its_first_rebalance_a_group_of_consumers_protects_everything() -> None:
    world = World()
    world.enter()
    assert errors_of(world.tell(delete_request(other=[0])).reply) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


def test_members_that_are_no_consumers_protect_everything() -> None:
    world = World()
    world.stable(protocol_type="connect")
    assert world.tell(delete_request(t=[0])).reply.error_code == ErrorCode.NON_EMPTY_GROUP


# DeleteGroups


def test_a_group_without_members_is_deleted_with_its_offsets() -> None:
    world = World()
    (member_id,) = world.stable()
    world.commit(member_id, 1, topics=[commit_topic("t", {0: 1, 1: 2})])
    assert world.tell(events.Delete()).reply.error_code == ErrorCode.NON_EMPTY_GROUP
    world.leave(member_id)
    world.join()  # an id that was handed out does not hold it up
    result = world.tell(events.Delete())
    assert (result.reply.group_id, result.reply.error_code) == ("g", 0)
    assert [type(key).__name__ for key, _ in result.records] == ["OffsetCommitKey"] * 2 + ["GroupMetadataKey"]
    assert all(value is None for _, value in result.records)
    assert not world.group.exists
    assert len(world.wheel) == 0
    assert not world.replayed().exists


def test_a_group_that_is_not_there_cannot_be_deleted() -> None:
    world = World()
    assert world.tell(events.Delete()).reply.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    world.commit()
    assert world.tell(events.Delete()).reply.error_code == 0
    assert world.tell(events.Delete()).reply.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_deleted_group_can_be_made_anew() -> None:
    world = World()
    (member_id,) = world.stable()
    world.leave(member_id)
    world.tell(events.Delete())
    world.stable()
    assert world.group.generation_id == 1


# Expiry (KIP-211)


def test_simple_groups_expire_from_the_commit_and_go_when_nothing_is_left() -> None:
    world = World()
    world.commit()
    world.advance(500_000)
    world.commit(topics=[commit_topic("t", {1: 6})])
    world.advance(499_999)
    assert world.tell(events.Expire(RETENTION_MS)) is NOTHING
    world.advance(1)
    world.tell(events.Expire(RETENTION_MS))
    assert fetched(world, "t", 0, 1) == [(-1, -1), (6, -1)]
    world.advance(500_000)
    world.tell(events.Expire(RETENTION_MS))
    assert not world.replayed().exists


def test_a_group_that_had_members_expires_from_when_it_became_empty() -> None:
    world = World()
    (member_id,) = world.stable()
    world.commit(member_id, 1)
    world.advance(9_000)
    world.leave(member_id)
    world.advance(RETENTION_MS - 1)
    assert world.tell(events.Expire(RETENTION_MS)) is NOTHING
    world.advance(1)
    result = world.tell(events.Expire(RETENTION_MS))
    assert len(result.records) == 2
    assert result.transitions[0].reason == "all offsets expired"


def test_members_keep_the_offsets_of_topics_they_read_and_lose_the_others() -> None:
    world = World()
    (member_id,) = world.stable(session_timeout_ms=1_800_000)
    world.commit(member_id, 1, topics=[commit_topic("t", {0: 5}), commit_topic("u", {0: 7})])
    world.advance(RETENTION_MS)
    world.tell(events.Expire(RETENTION_MS))
    assert list(world.group.offsets) == ["t"]
    assert world.group.state.value == "Stable"
    world.join(member_id)
    world.commit(member_id, 1, topics=[commit_topic("u", {0: 7})])


def test_nothing_expires_during_a_rebalance_or_where_subscriptions_are_unknown() -> None:
    for protocol_type, rejoin in (("consumer", True), ("connect", False)):
        world = World()
        ids = world.stable(2, session_timeout_ms=1_800_000, protocol_type=protocol_type, rebalance_timeout_ms=9_000_000)
        world.commit(ids[0], 1, topics=[commit_topic("u", {0: 7})])
        if rejoin:
            world.join(ids[0], rebalance_timeout_ms=9_000_000, session_timeout_ms=1_800_000)
        world.advance(RETENTION_MS)
        assert world.tell(events.Expire(RETENTION_MS)) is NOTHING


def test_an_expiry_of_its_own_goes_before_the_retention() -> None:
    world = World()
    world.commit(retention_time_ms=5_000)
    world.advance(4_999)
    assert world.tell(events.Expire(RETENTION_MS)) is NOTHING
    world.advance(1)
    world.tell(events.Expire(RETENTION_MS))
    assert not world.group.exists


def test_an_empty_group_with_no_offsets_goes_at_once() -> None:
    world = World()
    world.join()
    result = world.tell(events.Expire(RETENTION_MS))
    assert len(result.records) == 1
    assert not world.group.exists
    assert world.tell(events.Expire(RETENTION_MS)) is NOTHING


def test_members_without_offsets_stay() -> None:
    world = World()
    world.stable()
    assert world.tell(events.Expire(0)) is NOTHING


# Topics that are gone


def test_a_deleted_topic_takes_its_offsets_with_it_but_not_those_of_its_namesake() -> None:
    world = World()
    world.commit(topics=[commit_topic("t", {0: 5})])
    other = commit_topic("t", {1: 6})
    other.topic_id = b"x" * 16
    old = commit_topic("t", {2: 7})
    old.topic_id = ZERO_UUID
    world.commit(topics=[other, old])
    assert world.tell(events.TopicDeleted("elsewhere", TOPIC_ID)) is NOTHING
    world.tell(events.TopicDeleted("t", TOPIC_ID))
    assert list(world.group.offsets["t"]) == [1]
    assert world.group.exists
