"""Verbs on groups, transactions and the clock, with members that are nothing but frames."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator

import pytest

from coordinatord.base.observe.logger import captured
from coordinatord.testing import Kafka, KafkaError, NotInTime
from coordinatord.testing.member.subscription import encode_assignment
from coordinatord.transport.cluster.partitioner import partition_for
from kafka_wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.api.end_txn import EndTxnRequest
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_wire.errors import ErrorCode
from tests.server.control.world import GROUP, JOIN_VERSION, SESSION_MS, TOPIC, Client, coordinator

NOTHING = ErrorCode.NONE


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with coordinator() as started:
        yield started


def others_in_partitions_of_their_own(kafka: Kafka) -> str:
    """A group that another partition of __consumer_offsets has than GROUP."""
    daemon = kafka._server._daemon  # type: ignore[attr-defined]
    count = daemon.settings.offsets_topic_num_partitions
    own = partition_for(GROUP, count)
    return next(name for name in map("other{}".format, range(100)) if partition_for(name, count) != own)


# Classic groups


@pytest.mark.parametrize("name", ["client id", "member id"])
def test_a_member_expires(kafka: Kafka, name: str) -> None:
    a, b = Client(kafka, "a").join(), Client(kafka, "b").join("other")
    assert kafka.group(GROUP).expire("a" if name == "client id" else a.member_id) == a.member_id
    assert a.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert b.heartbeat("other") == NOTHING
    view = kafka.group(GROUP).view
    assert (view.state, view.members) == ("Empty", ())
    assert view.rebalances[-1].trigger == "session expired"
    assert [each["cause"] for each in view.rebalances[-1].record["dropped"]] == ["session expired"]


def test_a_member_is_kicked(kafka: Kafka) -> None:
    a, b = Client(kafka, "a").join(), Client(kafka, "b").join("other")
    kafka.group(GROUP).kick("a")
    assert (a.heartbeat(), b.heartbeat("other")) == (ErrorCode.UNKNOWN_MEMBER_ID, NOTHING)
    assert kafka.group(GROUP).rebalances[-1].trigger == "member left"


def test_a_group_rebalances(kafka: Kafka) -> None:
    a, b = Client(kafka, "a").join(), Client(kafka, "b").join("other")
    begun = kafka.group(GROUP).rebalance("deploy")
    assert (a.heartbeat(), b.heartbeat("other")) == (ErrorCode.REBALANCE_IN_PROGRESS, NOTHING)
    assert kafka.group(GROUP).view.waits_for == (a.member_id,)
    a.join()
    assert begun.until_stable().result.generation == 2
    (forced,) = [each for each in kafka.group(GROUP).rebalances if each.trigger == "forced"]
    assert forced.text == "forced: deploy"
    assert forced.record["trigger"]["reason"] == "deploy"


def test_a_rebalance_has_ended_when_the_assignments_are_there(kafka: Kafka) -> None:
    """Neither while members join, nor in the new generation before its leader has assigned partitions."""
    a = Client(kafka, "a").join()
    begun = kafka.group(GROUP).rebalance("deploy", timeout=0)
    with pytest.raises(NotInTime, match="Stable after 'deploy'"):
        begun.until_stable()
    a.wire.ask(a.join_request(), JOIN_VERSION)
    view = kafka.group(GROUP).view
    assert (view.state, view.generation) == ("CompletingRebalance", 2)
    with pytest.raises(NotInTime, match="Stable after 'deploy'"):
        begun.until_stable()
    a.join()
    assert begun.until_stable().result.is_stable


def test_no_rebalance_says_which_one_there_was(kafka: Kafka) -> None:
    Client(kafka, "a").join()
    with kafka.group(GROUP).no_rebalance():
        Client(kafka, "b").join("other")
    with pytest.raises(AssertionError, match=r"Group g has rebalanced: .*session of member a-"), \
            kafka.group(GROUP).no_rebalance():  # fmt: skip
        kafka.group(GROUP).expire("a")


def test_a_coordinator_moves(kafka: Kafka) -> None:
    other = others_in_partitions_of_their_own(kafka)
    a, b = Client(kafka, "a").join(), Client(kafka, "b").join(other)
    assert a.commit(5) == NOTHING
    kafka.group(GROUP).move()
    assert a.heartbeat() == a.commit(6) == ErrorCode.NOT_COORDINATOR
    assert a.heartbeat() == ErrorCode.NOT_COORDINATOR
    assert b.heartbeat(other) == NOTHING
    b.wire.coordinator(other)
    assert a.heartbeat() == ErrorCode.NOT_COORDINATOR  # another group was looked for
    a.wire.coordinator(GROUP)
    kafka.group(GROUP).until_stable(members=1)
    assert (a.heartbeat(), a.commit(6)) == (NOTHING, NOTHING)
    assert kafka.committed(GROUP) == {(TOPIC, 0): 6}
    assert b.heartbeat(other) == NOTHING


@pytest.mark.parametrize("members", [0, -1])
def test_a_stable_group_without_members_is_not_waited_for(kafka: Kafka, members: int) -> None:
    """Such a wait could only run into its timeout."""
    with pytest.raises(KafkaError, match=rf"until_stable\(members={members}\) never holds\. until_empty\(\) waits"):
        kafka.group(GROUP).until_stable(members=members, timeout=600)


def test_reading_does_not_bring_a_coordinator_back(kafka: Kafka) -> None:
    a = Client(kafka, "a").join()
    kafka.group(GROUP).move()
    assert kafka.group(GROUP).state == "Dead"
    with pytest.raises(NotInTime, match=r"group g: Stable: not within 0\.05 s"):
        kafka.group(GROUP).until_stable(timeout=0.05)
    assert a.heartbeat() == ErrorCode.NOT_COORDINATOR
    with pytest.raises(KafkaError, match="The coordinator of group g is away"):
        kafka.group(GROUP).move()


def test_a_coordinator_is_being_loaded(kafka: Kafka) -> None:
    other = others_in_partitions_of_their_own(kafka)
    a, b = Client(kafka, "a").join(), Client(kafka, "b").join(other)
    with kafka.group(GROUP).loading():
        assert a.commit(5) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert b.commit(5, other) == NOTHING
        with kafka.group(GROUP).loading():  # twice is once
            pass
        assert a.commit(5) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert (a.heartbeat(), a.commit(6)) == (NOTHING, NOTHING)


def test_a_restart_keeps_what_was_written(kafka: Kafka) -> None:
    a, where = Client(kafka, "a").join(), kafka.bootstrap_servers
    a.commit(5)
    for crash in (False, True):
        kafka.restart(crash=crash)
        assert kafka.bootstrap_servers == where
        assert a.heartbeat() == NOTHING
        assert kafka.committed(GROUP) == {(TOPIC, 0): 5}


# The clock


def test_sessions_end_when_the_clock_jumps(kafka: Kafka) -> None:
    a = Client(kafka, "a").join()
    before = datetime.datetime.now(datetime.UTC)
    now = kafka.advance(milliseconds=SESSION_MS - 10_000)
    assert datetime.timedelta(seconds=40) < now - before < datetime.timedelta(seconds=60)
    assert a.heartbeat() == NOTHING
    kafka.advance(milliseconds=SESSION_MS - 10_000)
    assert a.heartbeat() == NOTHING
    kafka.advance(milliseconds=SESSION_MS + 1)
    assert a.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert kafka.group(GROUP).rebalances[-1].trigger == "session expired"


def test_a_group_whose_sessions_end_in_a_jump_is_there_when_its_members_find_that(kafka: Kafka) -> None:
    """Kafka removes an empty group at its next look, up to ten minutes later. A member of the consumer protocol whose
    group is gone gives up for good.
    """
    wire = Client(kafka, "a").wire
    joining = ConsumerGroupHeartbeatRequest("c", "m", 0, None, None, 60_000, [TOPIC], None, None, [])
    epoch = wire.ask(joining, 1).member_epoch
    commit = OffsetCommitRequest("c", epoch, "m", topics=[OffsetCommitRequestTopic(TOPIC)])
    commit.topics[0].partitions = [OffsetCommitRequestPartition(0, 5)]
    assert wire.ask(commit, 9).topics[0].partitions[0].error_code == NOTHING
    kafka.advance(days=8)
    assert kafka.group("c").state == "Empty"
    assert kafka.committed("c") == {(TOPIC, 0): 5}
    assert wire.ask(ConsumerGroupHeartbeatRequest("c", "m", epoch), 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert wire.ask(joining, 1).error_code == NOTHING
    for _ in range(2):  # in the first its session ends
        kafka.advance(days=8)
    assert kafka.group("c").state == "Dead"


def test_why_a_member_of_the_consumer_protocol_is_refused_is_logged(kafka: Kafka) -> None:
    a = Client(kafka, "a")
    for _ in range(2):
        joined = a.wire.ask(a.join_request("s"), 9)
        a.member_id = joined.member_id
    without_user_data = encode_assignment([(TOPIC, 0)])
    sticky = without_user_data[:-4] + b"\0\0\0\4data"
    assigned = SyncGroupRequestAssignment(a.member_id, sticky)
    synced = SyncGroupRequest("s", joined.generation_id, a.member_id, None, "consumer", "range", [assigned])
    assert a.wire.ask(synced, 5).error_code == NOTHING
    joining = ConsumerGroupHeartbeatRequest("s", "m", 0, None, None, 60_000, [TOPIC], None, None, [])
    with captured() as lines:
        refused = Client(kafka, "b").wire.ask(joining, 1)
        assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    [line] = [each for each in lines if each["event"] == "consumer protocol refused"]
    assert (line["group"], line["client_id"], line["host"]) == ("s", "b", "/127.0.0.1")
    assert line["reason"] == refused.error_message
    assert "an unsupported custom assignor is in use" in line["reason"]


def test_the_clock_stays_ahead(kafka: Kafka) -> None:
    kafka.advance(days=3)
    time.sleep(0.01)
    assert kafka.advance() - datetime.datetime.now(datetime.UTC) > datetime.timedelta(days=2, hours=23)
    assert abs(kafka._server._daemon.clock.follow_wall()) < 1  # type: ignore[attr-defined]


def test_offsets_and_records_grow_old(kafka: Kafka) -> None:
    a = Client(kafka, "a").join()
    a.commit(5)
    kafka.group(GROUP).kick("a")
    kafka.put(TOPIC, ["old"], partition=0)
    kafka.advance(days=6)
    assert kafka.committed(GROUP) == {(TOPIC, 0): 5}
    assert kafka.records(TOPIC) == [b"old"]
    kafka.advance(days=2)
    assert kafka.committed(GROUP) == {}
    assert kafka.records(TOPIC) == [], "the only segment of an idle topic goes, too"


def test_the_clock_never_goes_back(kafka: Kafka) -> None:
    with pytest.raises(KafkaError, match="never back, not by -60000 ms"):
        kafka.advance(minutes=-1)


# Groups of the consumer protocol


class Consumer(Client):
    """A member of a consumer group."""

    epoch = 0

    def say(self, epoch: int | None = None, **news: object) -> int:
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=self.epoch if epoch is None else epoch, **news
        )  # type: ignore[arg-type]
        told = self.wire.ask(request, 1)
        if not told.error_code:
            self.epoch = told.member_epoch
        error_code: int = told.error_code
        return error_code

    def enter(self) -> Consumer:
        self.member_id = f"{self.client_id}-member"
        news = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [TOPIC], "topic_partitions": []}
        assert self.say(0, **news) == NOTHING
        return self


def test_a_member_of_a_consumer_group_expires_or_is_kicked(kafka: Kafka) -> None:
    a, b = Consumer(kafka, "a").enter(), Consumer(kafka, "b").enter()
    assert {each.client_id for each in kafka.group(GROUP).members} == {"a", "b"}
    assert kafka.group(GROUP).view.protocol == "consumer"
    assert kafka.group(GROUP).expire("a") == a.member_id
    assert a.say() == ErrorCode.UNKNOWN_MEMBER_ID
    assert b.say() == NOTHING
    kafka.group(GROUP).until_assigned("b", partitions=1)
    assert kafka.group(GROUP).rebalances[-1].trigger == "session expired"
    kafka.group(GROUP).kick("b")
    assert b.say() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_consumer_group_gets_a_new_epoch(kafka: Kafka) -> None:
    a = Consumer(kafka, "a").enter()
    before = kafka.group(GROUP).view.generation
    begun = kafka.group(GROUP).rebalance("deploy")
    assert a.say() == NOTHING
    assert begun.until_stable().result.generation == a.epoch == before + 1
    assert kafka.group(GROUP).rebalances[-1].text == "forced: deploy"


def test_a_consumer_group_moves(kafka: Kafka) -> None:
    a = Consumer(kafka, "a").enter()
    assert [a.say() for _ in range(4)] == [NOTHING] * 4  # by a shortcut, from some of them on
    kafka.group(GROUP).move()
    assert a.say() == ErrorCode.NOT_COORDINATOR
    a.wire.coordinator(GROUP)
    kafka.group(GROUP).until_assigned("a", partitions=1)
    assert a.say() == NOTHING


def test_a_heartbeat_of_a_consumer_group_that_a_shortcut_would_answer_is_caught(kafka: Kafka) -> None:
    a = Consumer(kafka, "a").enter()
    assert [a.say() for _ in range(4)] == [NOTHING] * 4
    with kafka.fail("ConsumerGroupHeartbeat", "NOT_COORDINATOR", nth=2):
        assert [a.say() for _ in range(3)] == [NOTHING, ErrorCode.NOT_COORDINATOR, NOTHING]
    kafka.group(GROUP).expire("a")
    assert a.say() == ErrorCode.UNKNOWN_MEMBER_ID


# Transactions


def begin_transaction(client: Client, transactional_id: str) -> InitProducerIdResponse:
    """A transaction with one partition."""
    client.wire.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id]), 4)
    begun: InitProducerIdResponse = client.wire.ask(InitProducerIdRequest(transactional_id, 60_000), 4)
    asked = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=begun.producer_id,
        v3_and_below_producer_epoch=begun.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(TOPIC, [0])],
    )
    client.wire.ask(asked, 3)
    return begun


def test_a_transaction_expires(kafka: Kafka) -> None:
    client = Client(kafka, "p")
    begun, other = begin_transaction(client, "t1"), begin_transaction(client, "t2")
    assert kafka.transaction("t1").state == "Ongoing"
    kafka.transaction("t1").expire()
    end = EndTxnRequest("t1", begun.producer_id, begun.producer_epoch, True)
    assert client.wire.ask(end, 3).error_code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    assert (kafka.transaction("t1").state, kafka.transaction("t2").state) == ("CompleteAbort", "Ongoing")
    with pytest.raises(KafkaError, match="Transactional id t1 has no open transaction: its state is CompleteAbort"):
        kafka.transaction("t1").expire()
    assert client.wire.ask(EndTxnRequest("t2", other.producer_id, other.producer_epoch, True), 3).error_code == 0


def test_a_transaction_expires_with_the_clock(kafka: Kafka) -> None:
    begin_transaction(Client(kafka, "p"), "t1")
    kafka.advance(seconds=61)
    kafka.group("none").until(lambda _: kafka.transaction("t1").state == "CompleteAbort")


# Mistakes


def test_mistakes_get_a_sentence(kafka: Kafka) -> None:
    Client(kafka, "a").join()
    Client(kafka, "a").join("twice")
    group = kafka.group(GROUP)
    with pytest.raises(KafkaError, match=r"There is no group 'nobody'\. There are g and twice\."):
        kafka.group("nobody").expire("a")
    with pytest.raises(KafkaError, match=r"Group g has no member 'b'\. It has a \(a-.*\)\."):
        group.expire("b")
    with pytest.raises(KafkaError, match=r"There is no transactional id 't9'\. There are none\."):
        kafka.transaction("t9").expire()
    group.kick("a")
    with pytest.raises(KafkaError, match="Group g has no members, so there is nothing to rebalance"):
        group.rebalance()
