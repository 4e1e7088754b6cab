"""`kafka.share_group`: what members have acquired, verbs and waits, with members that are nothing but frames."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from coordinatord.cli.groups import why
from coordinatord.testing import Kafka, KafkaError, NotInTime, ShareGroup, report
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
from tests.server.control.world import TOPIC, Client
from tests.support.waiting import wait_until

GROUP = "pickers"
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


class Member:
    """A member of the group with a share session for the topic's partition."""

    def __init__(self, kafka: Kafka, client_id: str) -> None:
        self.client = Client(kafka, client_id)
        self.member_id = f"member-of-{client_id}"
        self.epoch = 0
        (topic,) = self.ask(MetadataRequest([MetadataRequestTopic(name=TOPIC)]), 12).topics
        self.topic_id = topic.topic_id
        self.ask(ShareGroupHeartbeatRequest(GROUP, self.member_id, 0, None, [TOPIC]), 1)

    def ask(self, request: Any, version: int) -> Any:
        return self.client.wire.ask(request, version)

    def fetch(self, *, max_records: int = 100) -> list[tuple[int, int, int]]:
        """Acquire records; return (first offset, last offset, delivery count) of each range."""
        topics = [FetchTopic(self.topic_id, [FetchPartition(0)])] if not self.epoch else []
        request = ShareFetchRequest(
            GROUP, self.member_id, self.epoch, 0, 0, 1 << 20, max_records, 100, share_acquire_mode=1, topics=topics
        )
        response = self.ask(request, 2)
        assert response.error_code == 0, ErrorCode(response.error_code)
        self.epoch += 1
        return [
            (each.first_offset, each.last_offset, each.delivery_count)
            for topic in response.responses
            for partition in topic.partitions
            for each in partition.acquired_records
        ]

    def acknowledge(self, first: int, last: int, type_: int) -> ErrorCode:
        """Acknowledge records; return the error of the partition, or of the request."""
        batch = AcknowledgementBatch(first, last, [type_])
        topic = AcknowledgeTopic(self.topic_id, [AcknowledgePartition(0, [batch])])
        response = self.ask(ShareAcknowledgeRequest(GROUP, self.member_id, self.epoch, type_ == RENEW, [topic]), 2)
        if response.error_code:
            return ErrorCode(response.error_code)
        self.epoch += 1
        return ErrorCode(response.responses[0].partitions[0].error_code)


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    """A Kafka with three records."""
    with Kafka(topics={TOPIC: 1}) as started:
        started.put(TOPIC, ["0", "1", "2"])
        started.share_group(GROUP).configure({"share.auto.offset.reset": "earliest"})
        yield started


@pytest.fixture
def group(kafka: Kafka) -> ShareGroup:
    return kafka.share_group(GROUP)


def until_fetched(member: Member, group: ShareGroup) -> list[tuple[int, int, int]]:
    """Fetch until the share partition has been loaded, which the first fetch only begins."""
    while not (found := member.fetch()):
        group.until(lambda view: view.partitions)
    return found


def causes(group: ShareGroup) -> list[tuple[str, int]]:
    return [(each.cause, each.count) for each in group.redeliveries]


def test_what_members_have_acquired(kafka: Kafka, group: ShareGroup) -> None:
    member = Member(kafka, "a")
    assert until_fetched(member, group) == [(0, 2, 1)]
    view = group.until_acquired(3).result
    first = view.acquired[0]
    assert (first.topic, first.partition, first.offset, first.client_id, first.delivery_count) == (TOPIC, 0, 0, "a", 1)
    assert 29 < first.seconds_left <= 30
    assert group.state == "Stable"
    assert [each.client_id for each in group.members] == ["a"]
    assert member.acknowledge(0, 0, ACCEPT) is ErrorCode.NONE
    assert member.acknowledge(1, 1, REJECT) is ErrorCode.NONE
    view = group.until_acknowledged(1).result
    shown = group.partitions[TOPIC, 0]
    assert (view.acknowledged, view.archived, shown.start_offset) == (1, 1, 2)
    assert [each.offset for each in group.acquired] == [2]
    with pytest.raises(NotInTime, match="1 records acquired, 1 acknowledged, 1 archived"):
        group.until_acknowledged(2, timeout=0.01)


def test_a_record_with_a_dead_letter(kafka: Kafka, group: ShareGroup) -> None:
    """It counts as archived once, when the letter is in its topic."""
    kafka.create_topic("dlq.orders", configs={"errors.deadletterqueue.group.enable": "true"})
    group.configure({"errors.deadletterqueue.topic.name": "dlq.orders"})
    member = Member(kafka, "a")
    assert until_fetched(member, group) == [(0, 2, 1)]
    assert member.acknowledge(1, 2, REJECT) is ErrorCode.NONE
    view = group.until(lambda view: view.archived > 0).result
    assert view.archived == 2
    letters = [dict(each.headers) for each in kafka.messages("dlq.orders")]
    assert [each["__dlq.errors.offset"] for each in letters] == [b"1", b"2"]
    assert [each["__dlq.errors.message"] for each in letters] == [b"Offset rejected by client."] * 2


def test_time_expires_locks(kafka: Kafka, group: ShareGroup) -> None:
    a, b = Member(kafka, "a"), Member(kafka, "b")
    assert until_fetched(a, group) == [(0, 2, 1)]
    kafka.advance(seconds=29)
    assert causes(group) == []
    assert a.acknowledge(2, 2, RENEW) is ErrorCode.NONE
    kafka.advance(seconds=1)
    assert causes(group) == [("lock expired", 2)]
    assert b.fetch() == [(0, 1, 2)]
    assert a.acknowledge(1, 1, RENEW) is ErrorCode.INVALID_RECORD_STATE
    assert causes(group) == [("lock expired", 2), ("renewed too late", 1)]
    assert [(each.offset, each.client_id) for each in group.acquired] == [(0, "b"), (1, "b"), (2, "a")]


def test_each_verb(kafka: Kafka, group: ShareGroup) -> None:
    member = Member(kafka, "a")
    until_fetched(member, group)
    assert group.expire_lock(offset=1) == 1
    assert [each.offset for each in group.acquired] == [0, 2]
    assert member.fetch() == [(1, 1, 2)]
    assert group.expire_lock() == 3
    assert group.partitions[TOPIC, 0].available == 3
    with pytest.raises(KafkaError, match="no such acquired record"):
        group.expire_lock()
    assert member.fetch() == [(0, 0, 2), (1, 1, 3), (2, 2, 2)] or group.acquired
    held = len(group.acquired)
    assert group.release("a") == held
    assert group.acquired == ()
    member.fetch()
    held = len(group.acquired)
    assert group.kick("a") == member.member_id
    assert group.acquired == ()
    assert group.state == "Empty"
    assert causes(group)[-2:] == [("released", 3), ("member gone", held)]


def test_a_verb_names_what_is_missing(kafka: Kafka, group: ShareGroup) -> None:
    with pytest.raises(KafkaError, match="There is no group 'pickers'"):
        group.kick("a")
    Member(kafka, "a")
    with pytest.raises(KafkaError, match="Group pickers has no member 'b'"):
        group.release("b")
    with pytest.raises(KafkaError, match="cannot be configured"):
        group.configure({"share.auto.offset.reset": "sometimes"})


def test_a_lost_connection_releases(kafka: Kafka, group: ShareGroup) -> None:
    a, b = Member(kafka, "a"), Member(kafka, "b")
    b.fetch()
    until_fetched(a, group)
    a.client.wire.close()
    group.until_acquired(0)
    assert causes(group) == [("member gone", 3)]
    assert b.fetch() == [(0, 2, 2)]


def test_faults_hit_share_requests(kafka: Kafka, group: ShareGroup) -> None:
    member = Member(kafka, "a")
    until_fetched(member, group)
    with kafka.fail("ShareAcknowledge", "UNKNOWN_SERVER_ERROR", times=1, group=GROUP) as fault:
        assert member.acknowledge(0, 2, ACCEPT) is ErrorCode.UNKNOWN_SERVER_ERROR
        assert fault.hits == 1
    assert len(group.acquired) == 3
    with kafka.fail("ShareFetch", "SHARE_SESSION_NOT_FOUND", client="a"), pytest.raises(AssertionError):
        member.fetch()
    assert member.acknowledge(0, 2, ACCEPT) is ErrorCode.NONE
    assert group.until_acknowledged(3).result.partitions[TOPIC, 0].start_offset == 3


def test_a_lost_response_to_an_acknowledgement(kafka: Kafka, group: ShareGroup) -> None:
    """The records are acknowledged, and the session has ended with its connection."""
    member = Member(kafka, "a")
    until_fetched(member, group)
    with kafka.disconnect("ShareAcknowledge", after=True, times=1):
        assert member.acknowledge(0, 2, ACCEPT) is ErrorCode.SHARE_SESSION_NOT_FOUND, "sent again by the client"
    group.until_acknowledged(3)
    assert group.acquired == ()


def test_state_outlives_a_crash(kafka: Kafka, group: ShareGroup) -> None:
    member = Member(kafka, "a")
    until_fetched(member, group)
    assert member.acknowledge(0, 1, ACCEPT) is ErrorCode.NONE
    kafka.restart(crash=True)
    again = Member(kafka, "b")
    ((first, last, _delivery_count),) = until_fetched(again, group)
    assert (first, last) == (2, 2)
    assert group.partitions[TOPIC, 0].start_offset == 2


def test_leftovers_are_reported(kafka: Kafka, group: ShareGroup) -> None:
    member = Member(kafka, "a")
    until_fetched(member, group)
    assert report.leftovers(kafka) == [
        f"group {GROUP} still has 1 members (a), which have 3 records acquired: close them"
    ]
    group.expire_lock()
    (title, text), *_ = report.sections(kafka)
    assert title == "kafka: what the groups went through"
    assert "lock expired: 3 records of t-0 of member-of-a, offsets 0 to 2" in text


def test_groups_why_shows_redeliveries() -> None:
    with Kafka("process", topics={TOPIC: 1}, settings={"rebalance.ledger.topic.enable": True}) as kafka:
        group = kafka.share_group(GROUP)
        kafka.put(TOPIC, ["0", "1", "2"])
        group.configure({"share.auto.offset.reset": "earliest", "share.delivery.count.limit": 2})
        member = Member(kafka, "a")
        until_fetched(member, group)
        assert member.acknowledge(2, 2, RELEASE) is ErrorCode.NONE
        group.expire_lock(offset=1)

        def printed() -> str:
            return CliRunner().invoke(why, [GROUP, "--bootstrap", kafka.bootstrap_servers]).output

        wait_until(lambda: "lock expired" in printed(), "the ledger", seen=printed)
        shown = printed()
        assert f"Share group {GROUP} is Stable: 1 member." in shown
        assert "1 record of t-0, offset 2\n  why: member-of-a released them" in shown
        assert (
            "1 record of t-0, offset 1\n  why: member-of-a did not acknowledge them before their lock expired" in shown
        )
