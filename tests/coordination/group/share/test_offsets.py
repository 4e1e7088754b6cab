"""Admin tools set and delete the start offsets of share groups, and delete groups: the group's part of it."""

from __future__ import annotations

from typing import Any

import pytest

from coordinatord.coordination.group import events
from coordinatord.coordination.group.share import events as share_events
from coordinatord.coordination.group.share.state import NewState, StatePartitions, TopicPartitions
from kafka_wire.api.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kafka_wire.api.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kafka_wire.errors import ErrorCode
from tests.coordination.group.share.test_membership import T, joined, kinds, world
from tests.coordination.group.share.world import GROUP_ID, World

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def altering(**offsets: dict[int, int]) -> share_events.AlterShareOffsets:
    """A request: topic -> partition -> offset."""
    return share_events.AlterShareOffsets(
        AlterShareGroupOffsetsRequest(
            GROUP_ID,
            [
                AlterShareGroupOffsetsRequestTopic(
                    topic, [AlterShareGroupOffsetsRequestPartition(*each) for each in of_topic.items()]
                )
                for topic, of_topic in offsets.items()
            ],
        )
    )


def deleting(*topics: str) -> share_events.DeleteShareOffsets:
    return share_events.DeleteShareOffsets(
        DeleteShareGroupOffsetsRequest(GROUP_ID, [DeleteShareGroupOffsetsRequestTopic(each) for each in topics])
    )


def emptied(**partitions: int) -> World:
    """A group whose only member has left."""
    made = joined("a", **partitions)
    made.heartbeat("a", -1)
    return made


def codes(response: Any) -> dict[str, dict[int, int]]:
    return {
        topic.topic_name: {each.partition_index: each.error_code for each in topic.partitions}
        for topic in response.responses
    }


def test_offsets_of_a_group_that_is_not_there_create_it() -> None:
    made = world(t=3)
    answer = made.tell(altering(t={1: 7}))
    assert answer.create == (NewState(T, 1, state_epoch=1, start_offset=7),)
    assert codes(answer.response) == {"t": {1: ErrorCode.NONE}}
    assert kinds(made) == ["StatePartitionMetadata"]
    made.create(answer.create)
    assert made.share.partitions is not None
    assert made.share.partitions.initialized == {T: TopicPartitions("t", frozenset({1}))}
    assert [each.partition for each in made.heard("a", 0, "t").create] == [0, 2], "the others start as configured"


def test_partitions_that_are_not_there_are_refused_one_by_one() -> None:
    made = emptied(t=2)
    answer = made.tell(altering(t={0: 5, 2: 5, -1: 5}, no={0: 1}))
    assert codes(answer.response) == {"t": {0: ErrorCode.NONE, 2: UNKNOWN, -1: UNKNOWN}, "no": {0: UNKNOWN}}
    assert [(each.partition, each.start_offset) for each in answer.create] == [(0, 5)]


@pytest.mark.parametrize("event", [altering(t={0: 1}), deleting("t")], ids=["alter", "delete"])
def test_groups_with_members_are_refused(event: Any) -> None:
    made = joined("a")
    response = made.tell(event).response
    assert (response.error_code, response.error_message) == (ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    assert made.records == []


def test_groups_of_another_type_or_none_are_refused() -> None:
    made = world()
    response = made.tell(deleting("t")).response
    assert (response.error_code, response.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.")


def test_offsets_are_deleted_in_two_steps() -> None:
    made = emptied(t=2, u=1)
    deletion = made.tell(deleting("t", "no", "u"))
    assert deletion.partitions == ((T, 0), (T, 1), (made.topics.by_name["u"].topic_id, 0))
    assert [(each.topic_name, each.error_code) for each in deletion.response.responses] == [("no", UNKNOWN)]
    assert made.share.partitions is not None
    assert set(made.share.partitions.deleting) == {topic_id for topic_id, _ in deletion.partitions}
    assert made.share.partitions.initialized == {}
    made.tell(share_events.ShareOffsetsDeleted(frozenset({T})))
    assert made.share.partitions.deleting == (made.topics.by_name["u"].topic_id,)


def test_a_deletion_that_has_failed_can_be_repeated() -> None:
    made = emptied(t=2)
    first = made.tell(deleting("t"))
    assert made.tell(deleting("t")).partitions == first.partitions
    made.tell(share_events.ShareOffsetsDeleted(frozenset({T})))
    [refused] = made.tell(deleting("t")).response.responses
    assert (refused.error_code, refused.error_message) == (UNKNOWN, "There is no offset information to delete.")


def test_a_topic_that_is_subscribed_to_again_is_no_longer_deleted() -> None:
    made = emptied(t=2)
    made.tell(deleting("t"))
    assert len(made.heard("b", 0, "t").create) == 2
    assert made.share.partitions is not None
    assert made.share.partitions.deleting == ()


def test_a_group_is_deleted_after_its_state() -> None:
    made = emptied(t=2)
    deletion = made.tell(share_events.DeleteShareState())
    assert (deletion.response, deletion.partitions) == (None, ((T, 0), (T, 1)))
    assert made.share.partitions == StatePartitions(deleting=(T,))
    made.restart()
    assert made.tell(share_events.DeleteShareState()).partitions == deletion.partitions, "after a failure"
    assert made.tell(events.Delete()).error_code == ErrorCode.NONE
    assert kinds(made) == ["-TargetAssignmentMetadata", "-StatePartitionMetadata", "-Metadata"]
    assert not made.group.exists


def test_a_group_with_members_is_not_deleted() -> None:
    made = joined("a")
    assert made.tell(share_events.DeleteShareState()).response.error_code == ErrorCode.NON_EMPTY_GROUP
    assert made.tell(events.Delete()).error_code == ErrorCode.NON_EMPTY_GROUP
    assert made.records == []
