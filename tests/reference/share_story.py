"""A story of share groups for any broker: members that crash, are slow, release, reject and renew, a record that
reaches the delivery limit, dead letters, a topic that is deleted.

Each step is an answer that was received, so that the story leaves the same offsets and counts on each broker, whatever
its speed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from coordinatord.testing.wire import Wire
from kafka_wire.api import read_share_group_state
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.api.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kafka_wire.api.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from kafka_wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_wire.errors import ErrorCode
from tests.support.waiting import wait_until

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
"""Delivery states as they are stored."""
RECORD_LIMIT = 1
"""An acquire mode of ShareFetch: not more records than asked for."""

SETTINGS = {
    "group.share.assignment.interval.ms": "0",
    "group.share.min.assignment.interval.ms": "0",
    "group.share.session.timeout.ms": "600000",  # a crashed member remains
    "group.share.max.session.timeout.ms": "600000",
    "group.share.record.lock.duration.ms": "600000",  # what is held stays so
    "group.share.max.record.lock.duration.ms": "600000",
    "group.share.min.record.lock.duration.ms": "1000",
    "share.coordinator.state.topic.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
}
HOUR_MS = 3_600_000
RECORDS = {("orders", 0): 20, ("orders", 1): 10, ("doomed", 0): 5}
"""Of each partition, an hour apart, the first one 20 hours old."""

GROUPS = {
    "billing": {},
    "crashed": {},
    "expired": {"share.record.lock.duration.ms": "5000"},
    "gone": {},
    "letters": {"share.delivery.count.limit": "2", "errors.deadletterqueue.topic.name": "dlq.orders"},
    "poison": {"share.delivery.count.limit": "3"},
}
"""The groups that have members, and their settings."""
LETTERS = "dlq.orders"
"""The topic with the dead letters of the group `letters`."""
LIMITS = {group: int(settings.get("share.delivery.count.limit", "5")) for group, settings in GROUPS.items()}
SUSPECTED_FROM = {group: max(2, (limit + 1) // 2) for group, limit in LIMITS.items()}
"""The delivery count from which a record is suspected: half of the group's limit."""

Acquired = list[tuple[int, int, int]]
"""First offset, last offset and delivery count of each range."""
_RETRIED = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)  # fmt: skip


class Member:
    """A member with a share session for one partition of the first of its topics."""

    def __init__(self, port: int, group: str, name: str, *topics: str, partition: int = 0) -> None:
        self.wire = Wire(lambda: ("127.0.0.1", port), name)
        self.group = group
        self.member_id = f"{group}-{name}"
        self.partition = partition
        self.session_epoch = 0
        self.epoch = 0
        (found,) = self.wire.ask(MetadataRequest([MetadataRequestTopic(name=topics[0])]), 12).topics
        self.topic_id = found.topic_id
        self.assigned = 0
        self.wire.coordinator(group)  # makes Kafka create the offsets topic
        self._heartbeat(*topics)

    def _heartbeat(self, *topics: str) -> None:
        """Join with topics, continue without, and do so until the broker responds."""

        def is_done() -> bool:
            request = ShareGroupHeartbeatRequest(self.group, self.member_id, self.epoch, None, list(topics) or None)
            response = self.wire.ask(request, 1)
            if response.error_code in _RETRIED:
                return False
            assert response.error_code == 0, ErrorCode(response.error_code)
            self.epoch = response.member_epoch
            if response.assignment is not None:
                self.assigned = sum(len(each.partitions) for each in response.assignment.topic_partitions)
            return True

        wait_until(is_done, f"an answer to a heartbeat of {self.member_id}")

    def until_assigned(self, partitions: int) -> Member:
        """Send heartbeats until the member has so many partitions."""

        def is_done() -> bool:
            if self.assigned != partitions:
                self._heartbeat()
            return self.assigned == partitions

        wait_until(is_done, f"{partitions} partitions for {self.member_id}", seen=lambda: self.assigned)
        return self

    def leave(self) -> None:
        self.epoch = -1
        self._heartbeat()
        self.wire.close()

    def crash(self) -> None:
        """Lose the connection, and with it what the member has acquired."""
        self.wire.close()

    def fetch(self, max_records: int, want: Acquired) -> None:
        """Fetch until records are acquired, those that are wanted: the first fetch begins to load the partition."""
        found: Acquired = []

        def is_done() -> bool:
            found[:] = self._fetch(max_records)
            return bool(found)

        wait_until(is_done, f"records for {self.member_id}")
        assert found == want, (self.member_id, found, want)

    def _fetch(self, max_records: int) -> Acquired:
        topics = [FetchTopic(self.topic_id, [FetchPartition(self.partition)])] if not self.session_epoch else []
        request = ShareFetchRequest(
            self.group, self.member_id, self.session_epoch, 500, 0, 1 << 20, max_records, max_records,
            share_acquire_mode=RECORD_LIMIT, topics=topics,
        )  # fmt: skip
        response = self.wire.ask(request, 2)
        if response.error_code in _RETRIED:
            return []
        assert response.error_code == 0, ErrorCode(response.error_code)
        self.session_epoch += 1
        parts = [part for topic in response.responses for part in topic.partitions]
        assert {part.error_code for part in parts} <= {0, *_RETRIED}
        return [
            (each.first_offset, each.last_offset, each.delivery_count)
            for part in parts
            for each in part.acquired_records
        ]

    def acknowledge(self, first: int, last: int, type_: int) -> None:
        batch = AcknowledgementBatch(first, last, [type_])
        topic = AcknowledgeTopic(self.topic_id, [AcknowledgePartition(self.partition, [batch])])
        request = ShareAcknowledgeRequest(self.group, self.member_id, self.session_epoch, type_ == RENEW, [topic])
        response = self.wire.ask(request, 2)
        assert response.error_code == 0, ErrorCode(response.error_code)
        self.session_epoch += 1
        [part] = [part for topic in response.responses for part in topic.partitions]
        assert part.error_code == 0, ErrorCode(part.error_code)


def stored(port: int, group: str, topic: str, partition: int) -> list[tuple[int, int, int, int]]:
    """The batches that the broker's share coordinator has of a share partition: first offset, last offset, delivery
    state and delivery count.
    """
    wire = Wire(lambda: ("127.0.0.1", port))
    (found,) = wire.ask(MetadataRequest([MetadataRequestTopic(name=topic)]), 12).topics
    part = read_share_group_state.PartitionData(partition, 0)
    data = read_share_group_state.ReadStateData(found.topic_id, [part])
    [result] = wire.ask(read_share_group_state.ReadShareGroupStateRequest(group, [data]), 0).results
    wire.close()
    [state] = result.partitions
    assert state.error_code == 0, ErrorCode(state.error_code)
    return [
        (each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in state.state_batches
    ]


@contextmanager
def told(port: int, began_ms: int) -> Iterator[dict[str, Member]]:
    """Play the story; its members, some of which hold records, are there for the duration of the block."""
    wire = Wire(lambda: ("127.0.0.1", port))
    for topic in dict.fromkeys(topic for topic, _ in RECORDS):
        wire.create_topic(topic, sum(name == topic for name, _ in RECORDS), {})
    wire.create_topic(LETTERS, 1, {"errors.deadletterqueue.group.enable": "true"})
    for (topic, partition), count in RECORDS.items():
        for number in range(count):
            wire.put(topic, [(None, b"%d" % number, ())], partition, began_ms + number * HOUR_MS)
    for group, settings in GROUPS.items():
        wire.configure_group(group, {"share.auto.offset.reset": "earliest", **settings})
    played = (*_billing(port), *_poison(port), *_crashed(port), _expired(port), _letters(port))
    members = {each.member_id: each for each in played}
    gone = Member(port, "gone", "reader", "doomed", "orders").until_assigned(3)
    gone.fetch(2, [(0, 1, 1)])
    gone.acknowledge(0, 1, ACCEPT)
    gone.leave()
    wire.delete_topics(["doomed"])
    yield members
    for each in (*members.values(), gone):
        each.wire.close()
    wire.close()


def _billing(port: int) -> list[Member]:
    """5 is the start offset of orders-0: 5 and 6 are available again, 7 is archived, 9 and 10 are acknowledged, and 8
    and 11 are held. orders-1 is done.
    """
    picker = Member(port, "billing", "picker", "orders").until_assigned(2)
    picker.fetch(12, [(0, 11, 1)])
    for first, last, type_ in ((0, 4, ACCEPT), (5, 6, RELEASE), (7, 7, REJECT), (10, 10, RENEW), (9, 10, ACCEPT)):
        picker.acknowledge(first, last, type_)
    packer = Member(port, "billing", "packer", "orders", partition=1).until_assigned(1)
    picker.until_assigned(1)
    packer.fetch(10, [(0, 9, 1)])
    packer.acknowledge(0, 9, ACCEPT)
    return [picker, packer]


def _poison(port: int) -> list[Member]:
    """0 is archived at the limit of three deliveries; 1 has two of them; 2 is acknowledged, 3 is rejected."""
    taster = Member(port, "poison", "taster", "orders").until_assigned(2)
    taster.fetch(6, [(0, 5, 1)])
    for first, last, type_ in ((0, 1, RELEASE), (2, 2, ACCEPT), (3, 3, REJECT), (4, 5, RELEASE)):
        taster.acknowledge(first, last, type_)
    for offset, count in ((0, 2), (0, 3), (1, 2)):
        taster.fetch(1, [(offset, offset, count)])
        taster.acknowledge(offset, offset, RELEASE)
    return [taster]


def _crashed(port: int) -> list[Member]:
    """What the first member held is delivered to the second one, which accepts two of four and holds the others."""
    first = Member(port, "crashed", "first", "orders", partition=1).until_assigned(2)
    first.fetch(4, [(0, 3, 1)])
    first.crash()
    second = Member(port, "crashed", "second", "orders", partition=1).until_assigned(1)
    second.fetch(4, [(0, 3, 2)])
    second.acknowledge(0, 1, ACCEPT)
    return [first, second]


def _expired(port: int) -> Member:
    """The member is too slow once: it gets the same records again, and accepts some before their locks expire, too."""
    sleeper = Member(port, "expired", "sleeper", "orders", partition=1).until_assigned(2)
    sleeper.fetch(10, [(0, 9, 1)])
    sleeper.fetch(10, [(0, 9, 2)])
    sleeper.acknowledge(0, 1, ACCEPT)
    sleeper.acknowledge(2, 9, RELEASE)
    return sleeper


def _letters(port: int) -> Member:
    """1 is rejected, and 2 is released at the limit of two deliveries: each has a dead letter, and is archived when the
    letter is written. 3 to 5 are acknowledged, and 0 is held.
    """
    sorter = Member(port, "letters", "sorter", "orders").until_assigned(2)
    sorter.fetch(6, [(0, 5, 1)])
    for first, last, type_ in ((1, 1, REJECT), (2, 3, RELEASE), (4, 5, ACCEPT)):
        sorter.acknowledge(first, last, type_)
    sorter.fetch(2, [(2, 3, 2)])
    sorter.acknowledge(2, 2, RELEASE)
    sorter.acknowledge(3, 3, ACCEPT)

    def archived() -> list[int]:
        return [each[0] for each in stored(port, "letters", "orders", 0) if each[2] == ARCHIVED]

    wait_until(lambda: archived() == [1, 2], "both dead letters to be written", seen=archived)
    return sorter
