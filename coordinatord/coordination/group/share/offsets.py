"""The start offsets of a share group, which admin tools set and delete while it has no members.

Each request has two steps: the first one checks it and logs what will change, the second one follows the share
coordinator's answer. AlterShareGroupOffsets ends with `partitions.state_created`.
"""

from __future__ import annotations

from dataclasses import replace

from coordinatord.coordination.group.result import NOTHING, Result
from coordinatord.coordination.group.share.events import (
    AlterShareOffsets,
    DeleteShareOffsets,
    DeleteShareState,
    ShareOffsetsDeleted,
)
from coordinatord.coordination.group.share.partitions import Named, begin, merged, put
from coordinatord.coordination.group.share.records import in_order
from coordinatord.coordination.group.share.state import Answer, Deletion, NewState, ShareGroup, StatePartitions
from coordinatord.coordination.group.state import Group
from kafka_wire.api.alter_share_group_offsets import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kafka_wire.api.delete_groups import DeletableGroupResult
from kafka_wire.api.delete_share_group_offsets import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from kafka_wire.errors import ErrorCode, message_of

UNKNOWN_TOPIC = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def alter(group: Group, event: AlterShareOffsets, now_ms: int) -> Result:
    """Handle an AlterShareGroupOffsets of topics that exist. The reply is an `Answer`. It creates the group if there is
    none.
    """
    surroundings, share = group.surroundings, group.share
    assert surroundings is not None, "a shard that serves requests has set it"
    error = _refusal(group, may_create=True)
    if error is not None:
        return Result(reply=Answer(AlterShareGroupOffsetsResponse(error_code=error[0], error_message=error[1])))
    named: dict[bytes, tuple[str, frozenset[int]]] = {}
    create, responses = [], []
    epoch = ShareGroup().epoch if share is None else share.epoch
    for topic in event.request.topics:
        found = surroundings.topics.find(topic.topic_name)
        count = 0 if found is None else found.partitions
        partitions = []
        for each in topic.partitions:
            known = 0 <= each.partition_index < count
            code = ErrorCode.NONE if known else UNKNOWN_TOPIC
            text = None if known else message_of(code)
            partitions.append(AlterShareGroupOffsetsResponsePartition(each.partition_index, code, text))
            if known and found is not None:
                create.append(NewState(found.topic_id, each.partition_index, epoch, each.start_offset))
        responses.append(AlterShareGroupOffsetsResponseTopic(topic.topic_name, partitions=partitions))
        if found is not None:
            responses[-1].topic_id = found.topic_id
            indexes = frozenset(each.partition_index for each in topic.partitions if 0 <= each.partition_index < count)
            named[found.topic_id] = topic.topic_name, indexes
    result = Result()
    if named:
        begin(group, share, surroundings.topics, named, now_ms, result)
    result.reply = Answer(AlterShareGroupOffsetsResponse(responses=responses), tuple(create))
    return result


def delete_offsets(group: Group, event: DeleteShareOffsets, now_ms: int) -> Result:
    """Handle a DeleteShareGroupOffsets. The reply is a `Deletion`."""
    error = _refusal(group)
    if error is not None:
        return Result(reply=Deletion(DeleteShareGroupOffsetsResponse(error_code=error[0], error_message=error[1])))
    share, surroundings = group.share, group.surroundings
    assert share is not None
    assert surroundings is not None
    now = share.partitions
    if now is None:
        return Result(reply=Deletion(DeleteShareGroupOffsetsResponse()))
    initialized, deleting = dict(now.initialized), dict.fromkeys(now.deleting)
    partitions: list[tuple[bytes, int]] = []
    refused = []
    for each in event.request.topics:
        topic = surroundings.topics.find(each.topic_name)
        if topic is None:
            refused.append(_topic_error(each.topic_name, message_of(UNKNOWN_TOPIC)))
        elif topic.topic_id in initialized:
            partitions += [(topic.topic_id, partition) for partition in sorted(initialized[topic.topic_id].partitions)]
            del initialized[topic.topic_id]
            deleting[topic.topic_id] = None
        elif topic.topic_id in deleting:  # an earlier request has failed
            partitions += [(topic.topic_id, partition) for partition in range(topic.partitions)]
        else:
            refused.append(_topic_error(each.topic_name, "There is no offset information to delete."))
    result = Result()
    after = StatePartitions(now.initializing, in_order(initialized), tuple(deleting))
    put(group, share, surroundings.topics, after, now_ms, result)
    result.reply = Deletion(DeleteShareGroupOffsetsResponse(responses=refused), tuple(partitions))
    return result


def offsets_deleted(group: Group, event: ShareOffsetsDeleted, now_ms: int) -> Result:
    """Log that the share coordinator has deleted its state of topics."""
    share, surroundings = group.share, group.surroundings
    if share is None or surroundings is None or share.partitions is None:
        return NOTHING
    deleting = tuple(each for each in share.partitions.deleting if each not in event.topic_ids)
    result = Result()
    put(group, share, surroundings.topics, replace(share.partitions, deleting=deleting), now_ms, result)
    return result


def delete_state(group: Group, event: DeleteShareState, now_ms: int) -> Result:
    """Handle the first step of a DeleteGroups; the second one is events.Delete. The reply is a `Deletion`."""
    share, surroundings = group.share, group.surroundings
    if share is None or surroundings is None:
        return Result(reply=Deletion(None))
    if share.members:
        return Result(reply=Deletion(DeletableGroupResult(group.group_id, ErrorCode.NON_EMPTY_GROUP)))
    if share.partitions is None:
        return Result(reply=Deletion(None))
    topics, now = surroundings.topics, share.partitions
    again: dict[bytes, tuple[str, frozenset[int]]] = {}
    for topic_id in now.deleting:  # an earlier request has failed
        topic = topics.find_id(topic_id)
        if topic is not None:
            again[topic_id] = topic.name, frozenset(range(topic.partitions))
    gone: Named = merged(merged(now.initialized, now.initializing), again)
    result = Result()
    put(group, share, topics, StatePartitions(deleting=tuple(gone)), now_ms, result)
    partitions = [(topic_id, each) for topic_id, named in gone.items() for each in sorted(named[1])]
    result.reply = Deletion(None, tuple(partitions))
    return result


def _refusal(group: Group, *, may_create: bool = False) -> tuple[ErrorCode, str] | None:
    """Return the error if the group's offsets cannot be changed."""
    if group.share is None:
        if not group.exists:
            return None if may_create else (ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} not found.")
        return ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a share group."
    if group.share.members:
        return ErrorCode.NON_EMPTY_GROUP, message_of(ErrorCode.NON_EMPTY_GROUP)
    return None


def _topic_error(name: str, text: str) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(name, error_code=UNKNOWN_TOPIC, error_message=text)
