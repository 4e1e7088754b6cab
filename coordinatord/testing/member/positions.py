"""Positions of partitions: the committed offset, else `auto.offset.reset`, which ListOffsets turns into an offset."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from coordinatord.testing.member.assignors.java_hash import TopicPartition
from coordinatord.testing.member.finding import ensure_coordinator
from coordinatord.testing.member.network import coordinator_failed
from coordinatord.testing.member.result import Result
from coordinatord.testing.member.send import Send
from coordinatord.testing.member.state import DISCONNECTED, RETRIABLE, Member, PartitionState
from kafka_wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic
from kafka_wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from kafka_wire.errors import ErrorCode, error_of

TIMESTAMPS: Final = {"latest": -1, "earliest": -2}
"""Timestamps in ListOffsets requests, by reset policy."""

CONSUMER_REPLICA_ID: Final = -1


def assign_partitions(member: Member, partitions: Iterable[TopicPartition]) -> None:
    """Own exactly these partitions, sorted; partitions that were owned before keep their position."""
    owned = member.partitions
    member.partitions = {each: owned.get(each) or PartitionState() for each in sorted(partitions)}


def update_positions(member: Member, now_ms: int, result: Result) -> bool:
    """Return whether all required committed offsets are known; resets may be in progress."""
    unknown = [each for each, state in member.partitions.items() if state.position is None and state.reset is None]
    if unknown and not _committed_known(member, unknown, now_ms, result):
        return False
    look_up(member, now_ms, result)
    return True


def _committed_known(member: Member, unknown: list[TopicPartition], now_ms: int, result: Result) -> bool:
    """Request the committed offsets. Always returns False: once the response is handled, no partition is unknown."""
    if not ensure_coordinator(member, now_ms, result):
        return False
    waiting = member.offset_fetch
    if waiting is not None and waiting.context != unknown:
        waiting.context = None  # it was for another assignment
        waiting = None
    if waiting is None:
        if now_ms < member.offset_fetch_again_ms:
            member.wake_at(member.offset_fetch_again_ms)
        else:
            member.offset_fetch = member.send_to_coordinator(_offset_fetch(member, unknown), result, context=unknown)
    return False


def _offset_fetch(member: Member, partitions: Iterable[TopicPartition]) -> OffsetFetchRequest:
    group_id = member.settings.group_id
    numbers: dict[str, list[int]] = {}
    for topic, number in partitions:
        numbers.setdefault(topic, []).append(number)
    member_id, epoch = None, -1
    if member.membership is not None and member.membership.epoch > 0:
        member_id, epoch = member.membership.member_id, member.membership.epoch
    topics = []
    for topic, each in numbers.items():
        info = member.cluster.topics.get(topic)
        topics.append(OffsetFetchRequestTopics(topic, bytes(16) if info is None else info.topic_id, each))
    return OffsetFetchRequest(
        group_id,
        [OffsetFetchRequestTopic(*each) for each in numbers.items()],
        [OffsetFetchRequestGroup(group_id, member_id, epoch, topics)],
        require_stable=True,
    )


def committed(member: Member, send: Send, response: OffsetFetchResponse, now_ms: int, result: Result) -> None:
    """Handle OffsetFetch's response. Before v8 the offsets are in its top-level fields."""
    if send.context is None:
        return
    member.offset_fetch = None
    group: Any = response.groups[0] if response.groups else response
    error = error_of(group.error_code)
    offsets: dict[TopicPartition, tuple[int, int]] = {}
    for topic in group.topics:
        name = topic.name or member.cluster.names.get(getattr(topic, "topic_id", b""), "")
        for each in topic.partitions:
            error = error or error_of(each.error_code)
            offsets[name, each.partition_index] = (each.committed_offset, each.committed_leader_epoch)
    if error:
        _not_committed(member, error, now_ms, result)
        return
    member.offset_fetch_attempts = 0
    for partition in send.context:
        state = member.partitions.get(partition)
        if state is None:
            continue
        offset, epoch = offsets.get(partition, (-1, -1))
        if offset >= 0:
            state.committed = offset
        if state.position is not None or state.reset is not None:
            continue
        if offset >= 0:
            state.position, state.leader_epoch = offset, epoch
        else:
            reset(member, partition, None)


def _not_committed(member: Member, error: ErrorCode, now_ms: int, result: Result) -> None:
    if error in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR):
        coordinator_failed(member, now_ms, result)
    elif member.membership is not None and error in (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
        pass  # the next heartbeat's response has the member epoch, or an error
    elif error not in RETRIABLE or error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        member.failure = (error, "OffsetFetch")
    member.offset_fetch_again_ms = now_ms + member.backoff.after_ms(member.offset_fetch_attempts)
    member.offset_fetch_attempts += 1
    member.wake_at(member.offset_fetch_again_ms)


def committed_unanswered(member: Member, send: Send, now_ms: int, result: Result) -> None:
    """Handle an OffsetFetch without a response: repeat it later."""
    if send.context is not None:
        member.offset_fetch = None
        _not_committed(member, DISCONNECTED, now_ms, result)


def reset(member: Member, partition: TopicPartition, policy: str | None) -> None:
    """Drop the position and look one up by `policy`, by default the member's."""
    policy = policy or member.settings.auto_offset_reset
    state = member.partitions[partition]
    state.position, state.leader_epoch, state.retry_at_ms = None, -1, 0
    if policy == "none":
        name = f"{partition[0]}-{partition[1]}"
        member.failure = (
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"no offset for {name} and auto.offset.reset is none",
        )
        return
    state.reset = policy


def look_up(member: Member, now_ms: int, result: Result) -> None:
    """Send ListOffsets, one request per leader."""
    by_leader: dict[int, dict[TopicPartition, str]] = {}
    for partition, state in member.partitions.items():
        if state.reset is None:
            continue
        if now_ms < state.retry_at_ms:
            member.wake_at(state.retry_at_ms)
            continue
        node = leader_of(member, partition)
        if node is None:
            member.metadata_wanted = True
            state.retry_at_ms = now_ms + member.settings.retry_backoff_ms
            member.wake_at(state.retry_at_ms)
            continue
        state.retry_at_ms = now_ms + member.settings.request_timeout_ms
        by_leader.setdefault(node, {})[partition] = state.reset
    for node, asked in by_leader.items():
        topics: dict[str, ListOffsetsTopic] = {}
        for (topic, number), policy in asked.items():
            of_topic = topics.setdefault(topic, ListOffsetsTopic(topic))
            epoch = member.cluster.topics[topic].leader_epochs[number]
            of_topic.partitions.append(ListOffsetsPartition(number, epoch, TIMESTAMPS[policy]))
        timeout_ms = member.settings.request_timeout_ms
        request = ListOffsetsRequest(CONSUMER_REPLICA_ID, 0, list(topics.values()), timeout_ms)
        result.sends.append(Send(node, False, request, timeout_ms, context=asked))


def looked_up(member: Member, send: Send, response: ListOffsetsResponse, now_ms: int, result: Result) -> None:
    """Handle ListOffsets' response: set the positions that are still needed."""
    for topic in response.topics:
        for each in topic.partitions:
            partition = (topic.name, each.partition_index)
            state = member.partitions.get(partition)
            if state is None or state.reset is None or state.reset != send.context.get(partition):
                continue
            if each.error_code:
                _look_up_later(member, state, now_ms)
                if each.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    member.failure = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "ListOffsets")
                continue
            state.position, state.reset, state.retry_at_ms = each.offset, None, 0
            state.leader_epoch = each.leader_epoch


def not_looked_up(member: Member, send: Send, now_ms: int, result: Result) -> None:
    """Handle a ListOffsets without a response."""
    for partition in send.context:
        state = member.partitions.get(partition)
        if state is not None and state.reset is not None:
            _look_up_later(member, state, now_ms)


def _look_up_later(member: Member, state: PartitionState, now_ms: int) -> None:
    state.retry_at_ms = now_ms + member.settings.retry_backoff_ms
    member.wake_at(state.retry_at_ms)
    member.metadata_wanted = True


def leader_of(member: Member, partition: TopicPartition) -> int | None:
    """Return the leader of a partition; None if it is unknown."""
    info = member.cluster.topics.get(partition[0])
    if info is None or partition[1] >= len(info.leaders) or info.leaders[partition[1]] < 0:
        return None
    return info.leaders[partition[1]]
