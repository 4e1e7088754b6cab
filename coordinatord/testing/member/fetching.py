"""Fetches of records: per node in advance, kept, and returned up to `max.poll.records` at a time.

A node gets one request at a time, for all its fetchable partitions without kept records; no request goes to a node
while records of it are kept. Kept records are returned only if their partition is still owned and they start at its
position: not after a seek or a rebalance. Records of a paused partition stay kept.

Fetches use no session and read uncommitted.
"""

from __future__ import annotations

from coordinatord.testing.member.assignors.java_hash import TopicPartition
from coordinatord.testing.member.fetched import Fetched
from coordinatord.testing.member.positions import leader_of, reset
from coordinatord.testing.member.result import Result
from coordinatord.testing.member.send import Send
from coordinatord.testing.member.state import Member
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafka_wire.errors import DecodeError, ErrorCode
from kafka_wire.records.batch import Record


def send_fetches(member: Member, now_ms: int, result: Result) -> None:
    """Send a fetch to every leader that is available now."""
    if not member.settings.fetches:
        return
    kept = {each.partition for each in member.fetched}
    busy = {each.node for each in member.fetched} | member.fetching.keys()
    by_node: dict[int, dict[TopicPartition, int]] = {}
    for partition, state in member.partitions.items():
        if not state.is_fetchable or partition in kept:
            continue
        if now_ms < state.retry_at_ms:
            member.wake_at(state.retry_at_ms)
            continue
        node = leader_of(member, partition)
        if node is None:
            member.metadata_wanted = True
        elif node not in busy:
            assert state.position is not None
            by_node.setdefault(node, {})[partition] = state.position
    for node, asked in by_node.items():
        timeout_ms = member.settings.request_timeout_ms
        send = Send(node, False, _request(member, asked), timeout_ms, context=asked)
        member.fetching[node] = send
        result.sends.append(send)


def _request(member: Member, asked: dict[TopicPartition, int]) -> FetchRequest:
    settings = member.settings
    topics: dict[str, FetchTopic] = {}
    for (topic, number), offset in asked.items():
        info = member.cluster.topics[topic]
        of_topic = topics.setdefault(topic, FetchTopic(topic, info.topic_id))
        epoch = info.leader_epochs[number]
        of_topic.partitions.append(
            FetchPartition(number, epoch, offset, partition_max_bytes=settings.max_partition_fetch_bytes)
        )
    return FetchRequest(
        max_wait_ms=settings.fetch_max_wait_ms,
        min_bytes=settings.fetch_min_bytes,
        max_bytes=settings.fetch_max_bytes,
        topics=list(topics.values()),
        rack_id=settings.client_rack,
    )


def fetched(member: Member, send: Send, response: FetchResponse, now_ms: int, result: Result) -> None:
    """Keep the response for the application's poll."""
    if member.fetching.get(send.to) is send:
        del member.fetching[send.to]
    member.metrics.fetch_latency.record(now_ms - send.sent_ms)
    member.metrics.fetch_throttle_time.record(response.throttle_time_ms)
    if response.error_code:
        _fetch_later(member, send, now_ms)
        return
    for topic in response.responses:
        name = topic.topic or member.cluster.names.get(topic.topic_id, "")
        for data in topic.partitions:
            partition = (name, data.partition_index)
            if partition not in send.context:
                continue
            state = member.partitions.get(partition)
            if state is not None and not data.error_code and data.high_watermark >= 0:
                state.high_watermark = data.high_watermark
            if data.records or data.error_code:
                member.fetched.append(Fetched(send.to, partition, send.context[partition], data))


def not_fetched(member: Member, send: Send, now_ms: int, result: Result) -> None:
    """Handle a fetch without a response."""
    if member.fetching.get(send.to) is send:
        del member.fetching[send.to]
    _fetch_later(member, send, now_ms)


def _fetch_later(member: Member, send: Send, now_ms: int) -> None:
    member.metadata_wanted = True
    for partition in send.context:
        state = member.partitions.get(partition)
        if state is not None:
            state.retry_at_ms = now_ms + member.settings.retry_backoff_ms


def collect(member: Member, now_ms: int) -> tuple[dict[TopicPartition, list[Record]], bool]:
    """Return records, and whether a position moved (it may move without any, over records that are not returned)."""
    handed: dict[TopicPartition, list[Record]] = {}
    room = member.settings.max_poll_records
    moved = False
    paused: list[Fetched] = []
    while room > 0 and member.fetched and member.failure is None:
        kept = member.fetched[0]
        state = member.partitions.get(kept.partition)
        if state is not None and state.paused:
            paused.append(member.fetched.popleft())
            continue
        if state is None or not state.is_fetchable or state.position != kept.next_offset:
            member.fetched.popleft()
            continue
        if kept.records is None and not _open(member, kept, now_ms):
            member.fetched.popleft()
            continue
        assert kept.records is not None
        taken = kept.records[kept.at : kept.at + room]
        kept.at += len(taken)
        room -= len(taken)
        if taken:
            handed.setdefault(kept.partition, []).extend(taken)
            kept.next_offset = taken[-1].offset + 1
        if kept.at == len(kept.records):
            kept.next_offset = max(kept.next_offset, kept.end_offset)
            member.fetched.popleft()
        moved = moved or state.position != kept.next_offset
        state.position, state.leader_epoch = kept.next_offset, kept.leader_epoch
        lag = state.lag
        if lag is not None:
            member.metrics.records_lag.record(lag)
    member.fetched.extend(paused)
    return handed, moved


def _open(member: Member, kept: Fetched, now_ms: int) -> bool:
    """Decode a kept response. Return False if it is an error."""
    error = kept.data.error_code
    partition = kept.partition
    state = member.partitions[partition]
    if not error:
        try:
            kept.read()
        except DecodeError as problem:
            member.failure = (ErrorCode.CORRUPT_MESSAGE, f"{partition[0]}-{partition[1]}: {problem}")
            return False
        return True
    if error == ErrorCode.OFFSET_OUT_OF_RANGE:
        reset(member, partition, None)
    elif error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        member.failure = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Fetch")
    else:
        member.metadata_wanted = True
        state.retry_at_ms = now_ms + member.settings.retry_backoff_ms
    # The next fetch begins with the other partitions.
    member.partitions[partition] = member.partitions.pop(partition)
    return False
