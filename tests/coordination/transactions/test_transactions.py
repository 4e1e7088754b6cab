"""Transactions through frames: producers, groups, readers and the errors that each of them gets."""

from __future__ import annotations

from typing import Any

import pytest

from coordinatord.coordination.runtime.partitions import LOADING
from coordinatord.coordination.transactions.state import SERVER_VERSION
from kafka_wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kafka_wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafka_wire.api.describe_producers import DescribeProducersRequest, TopicRequest
from kafka_wire.api.describe_transactions import DescribeTransactionsRequest
from kafka_wire.api.end_txn import EndTxnRequest
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.init_producer_id import InitProducerIdRequest
from kafka_wire.api.list_transactions import ListTransactionsRequest
from kafka_wire.api.metadata import MetadataRequest
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.api.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import TRANSACTIONAL, iterate_batches
from kafka_wire.registry import error_response
from tests.broker.topics.world import batch
from tests.coordination.transactions.world import TX, World, group_partition

E = ErrorCode


@pytest.fixture
def world() -> World:
    made = World()
    made.create("orders", 3)
    return made


# The topic and the coordinator


def test_the_topic_is_made_when_somebody_looks_for_a_coordinator(world: World) -> None:
    assert [t.name for t in world.call(3, 9, MetadataRequest(None)).topics] == ["__consumer_offsets", "orders"]
    assert world.init().error_code == E.NOT_COORDINATOR
    assert world.end((0, 0)).error_code == E.NOT_COORDINATOR
    found = world.call(10, 4, FindCoordinatorRequest(key_type=1, coordinator_keys=[TX, "other"]))
    assert [(each.error_code, each.node_id, each.port) for each in found.coordinators] == [(0, 0, 9092)] * 2
    (topic,) = [t for t in world.call(3, 9, MetadataRequest(None)).topics if t.name == "__transaction_state"]
    assert topic.is_internal
    assert len(topic.partitions) == 4
    assert world.init().error_code == 0
    world.settings = world.settings.__class__()
    world.restart()
    assert len(world.transactions.partitions) == 4  # the setting counts only once


@pytest.mark.parametrize("version", range(6))
def test_an_idempotent_producer_needs_no_coordinator(world: World, version: int) -> None:
    given = {world.call(22, version, InitProducerIdRequest(None, 60_000)).producer_id for _ in range(5)}
    assert len(given) == 5


@pytest.mark.parametrize("error", [E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE])
def test_a_producer_without_a_transactional_id_is_sent_to_no_coordinator(error: E) -> None:
    """kafka-python would look for the coordinator of null, for ever; Kafka says COORDINATOR_LOAD_IN_PROGRESS."""
    for version in range(6):
        said = error_response(InitProducerIdRequest(None, 60_000), version, error)
        assert said.error_code == E.COORDINATOR_LOAD_IN_PROGRESS
        assert error_response(InitProducerIdRequest(TX, 60_000), version, error).error_code == error
    assert error_response(InitProducerIdRequest(None, 60_000), 5, E.INVALID_REQUEST).error_code == E.INVALID_REQUEST


def test_producer_ids_are_never_given_twice(world: World) -> None:
    request = InitProducerIdRequest(None, 60_000)
    given = [world.call(22, 5, request).producer_id for _ in range(3)]
    world.crash_and_restart("power")
    given += [world.call(22, 5, request).producer_id for _ in range(1001)]
    world.restart()
    given.append(world.call(22, 5, request).producer_id)
    assert len(set(given)) == len(given)
    assert min(given) >= 0


@pytest.mark.parametrize(("fields", "error"), [
    ({"producer_id": 5}, E.INVALID_REQUEST),
    ({"epoch": 5}, E.INVALID_REQUEST),
    ({"id_": ""}, E.INVALID_REQUEST),
    ({"timeout_ms": 0}, E.INVALID_TRANSACTION_TIMEOUT),
    ({"timeout_ms": 900_001}, E.INVALID_TRANSACTION_TIMEOUT),
])  # fmt: skip
def test_initialising_refused(world: World, fields: dict[str, Any], error: int) -> None:
    world.find()
    response = world.init(5, **fields)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (error, -1, -1)
    assert not world.transactions.actors


def test_there_may_be_so_many_transactional_ids() -> None:
    world = World(max_transactional_ids=2)
    world.find()
    assert [world.init(id_=str(number)).error_code for number in range(3)] == [0, 0, E.POLICY_VIOLATION]
    assert world.init(id_="1").error_code == 0


def test_a_producer_id_that_cannot_be_had_changes_nothing(world: World) -> None:
    world.find()
    world.disk.datasyncs_left = 0
    assert world.send(22, 5, InitProducerIdRequest(TX, 60_000)).response.error_code == E.COORDINATOR_NOT_AVAILABLE
    assert not world.transactions.actors


@pytest.mark.parametrize("version", range(6))
def test_a_fenced_producer_hears_what_it_knows(world: World, version: int) -> None:
    world.find()
    world.init()
    world.init()
    fenced = E.INVALID_PRODUCER_EPOCH if version < 4 else E.PRODUCER_FENCED
    if version >= 3:
        world.init(version)
        assert world.init(version, producer_id=0, epoch=0).error_code == fenced
    old = E.INVALID_PRODUCER_EPOCH if version < 2 else E.PRODUCER_FENCED
    if version < 4:
        assert world.add((0, 0), version=version) == [old]
        assert world.add_offsets((0, 0), version=version) == old
    assert world.end((0, 0), version=version).error_code == old
    assert world.add((7, 0), version=min(version, 3)) == [E.INVALID_PRODUCER_ID_MAPPING]


# Adding partitions


def test_one_partition_that_is_not_there_fails_all(world: World) -> None:
    producer = world.producer()
    assert world.add(producer, ("orders", 0), ("orders", 9), ("none", 0)) == [
        E.OPERATION_NOT_ATTEMPTED,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert world.add(producer, ("__consumer_offsets", 0), ("orders", 0)) == [
        E.TOPIC_AUTHORIZATION_FAILED,
        E.OPERATION_NOT_ATTEMPTED,
    ]
    assert world.state() == "Empty"
    assert world.add(producer, id_="") == [E.INVALID_REQUEST]
    assert world.add(producer, id_="unknown") == [E.INVALID_PRODUCER_ID_MAPPING]


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_ask_for_several_transactions_and_may_only_want_to_know(world: World, version: int) -> None:
    producer = world.producer()
    other = world.producer(id_="other")
    topics = [AddPartitionsToTxnTopic("orders", [0, 1])]

    def asked(id_: str, whose: tuple[int, int], verify_only: bool) -> AddPartitionsToTxnTransaction:
        return AddPartitionsToTxnTransaction(id_, *whose, verify_only, topics)

    def errors(*transactions: AddPartitionsToTxnTransaction) -> list[list[int]]:
        response = world.call(24, version, AddPartitionsToTxnRequest([*transactions]))
        return [
            [each.partition_error_code for topic in result.topic_results for each in topic.results_by_partition]
            for result in response.results_by_transaction
        ]

    assert errors(asked(TX, producer, False), asked("other", other, True)) == [[0, 0], [E.TRANSACTION_ABORTABLE] * 2]
    assert errors(asked(TX, producer, True), asked("none", other, True)) == [
        [0, 0],
        [E.INVALID_PRODUCER_ID_MAPPING] * 2,
    ]
    assert world.transactions.actors[TX].transaction.client_version == 2


# Writing


def test_a_transaction_is_read_when_it_is_committed(world: World) -> None:
    producer = world.producer()
    world.write((-1, -1), b"before", id_=None, attributes=0, sequence=-1)
    world.add(producer)
    assert world.write(producer, b"a", b"b") == 0
    world.write((-1, -1), b"after", id_=None, attributes=0, sequence=-1)
    assert world.read() == [b"before"]
    found = world.fetch(isolation=0)
    assert (found.high_watermark, found.last_stable_offset, found.aborted_transactions) == (4, 1, None)
    assert [header.base_offset for _, header in iterate_batches(found.records or b"")] == [0, 1, 3]
    assert (world.latest(), world.latest(isolation=0)) == (1, 4)
    assert world.end(producer).error_code == 0
    assert world.read() == [b"before", b"a", b"b", b"after"]
    assert (world.latest(), world.latest(isolation=0)) == (5, 5)  # the marker has an offset, too


def test_an_aborted_transaction_is_listed_and_left_out(world: World) -> None:
    producer = world.producer()
    world.add(producer)
    world.write(producer, b"a", b"b")
    world.end(producer, commit=False)
    world.add(producer)
    world.write(producer, b"c", sequence=2)
    world.end(producer)
    assert world.read() == [b"c"]
    found = world.fetch()
    assert [(each.producer_id, each.first_offset) for each in found.aborted_transactions or ()] == [(producer[0], 0)]
    assert world.fetch(offset=3).aborted_transactions == []
    assert len([*iterate_batches(found.records or b"")]) == 4


def test_one_open_transaction_holds_back_those_behind_it(world: World) -> None:
    slow, quick = world.producer(), world.producer(id_="quick")
    world.add(slow)
    world.add(quick, id_="quick")
    world.write(slow, b"slow")
    world.write(quick, b"quick", id_="quick")
    world.end(quick, id_="quick", commit=False)
    assert world.read() == []
    assert world.latest() == 0
    world.end(slow)
    assert world.read() == [b"slow"]


def test_a_batch_needs_its_partition_to_take_part(world: World) -> None:
    producer = world.producer()
    assert world.write(producer, b"a") == E.INVALID_TXN_STATE
    assert world.write(producer, b"a", version=11) == E.TRANSACTION_ABORTABLE
    world.add(producer)
    assert world.write(producer, b"a", partition=("orders", 1)) == E.INVALID_TXN_STATE
    assert world.write(producer, b"a") == 0
    assert world.write(producer, b"b", sequence=1) == 0
    world.end(producer)
    assert world.write(producer, b"c", sequence=2) == E.INVALID_TXN_STATE
    assert world.write(producer, b"c", id_=None) == E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert world.write(producer, b"c", id_="") == E.INVALID_REQUEST
    assert world.write(producer, b"c", id_="unknown") == E.INVALID_PRODUCER_ID_MAPPING
    assert world.write((producer[0], 5), b"c") == E.INVALID_PRODUCER_EPOCH
    assert world.write((99, 0), b"c") == E.INVALID_PRODUCER_ID_MAPPING


def test_without_verification_any_transactional_batch_is_taken_from_old_producers() -> None:
    world = World(transaction_partition_verification_enable=False)
    world.create("orders")
    producer = world.producer()
    assert world.write(producer, b"a") == 0
    assert world.write(producer, b"a", version=12) == 0  # has one open by now
    assert world.fetch().last_stable_offset == 0


def test_a_refused_batch_keeps_its_followers_out(world: World) -> None:
    producer = world.producer()
    assert world.write(producer, b"a") == E.INVALID_TXN_STATE
    world.add(producer)
    assert world.write(producer, b"b", sequence=1) == E.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert world.write(producer, b"a") == 0
    assert world.write(producer, b"b", sequence=1) == 0


def test_within_a_transaction_a_producer_writes_nothing_else(world: World) -> None:
    producer = world.producer()
    world.add(producer)
    world.write(producer, b"a")
    assert world.write(producer, b"b", sequence=1, attributes=0) == E.INVALID_TXN_STATE


def test_a_request_has_one_transactional_producer(world: World) -> None:
    one, other = world.producer(), world.producer(id_="other")
    batches = [
        PartitionProduceData(index, batch(b"v", producer_id=id_, producer_epoch=0, base_sequence=0, attributes=16))
        for index, (id_, _) in enumerate((one, other))
    ]
    response = world.call(0, 9, ProduceRequest(TX, -1, 1000, [TopicProduceData("orders", partition_data=batches)]))
    found = [each.error_code for each in response.responses[0].partition_responses]
    assert found == [E.INVALID_PRODUCER_ID_MAPPING] * 2


def test_plain_and_transactional_batches_of_one_request_are_judged_by_themselves(world: World) -> None:
    producer = world.producer()
    plain = PartitionProduceData(0, batch(b"plain"))
    transactional = PartitionProduceData(
        1, batch(b"t", producer_id=producer[0], producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL)
    )
    topics = [TopicProduceData("orders", partition_data=[plain, transactional, PartitionProduceData(7, batch(b"x"))])]
    response = world.call(0, 9, ProduceRequest(TX, -1, 1000, topics))
    found = [each.error_code for each in response.responses[0].partition_responses]
    assert found == [0, E.INVALID_TXN_STATE, E.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_fenced_producer_writes_no_more(world: World) -> None:
    old = world.producer()
    world.add(old)
    world.write(old, b"old")
    assert world.init().error_code == E.CONCURRENT_TRANSACTIONS
    new = world.producer()
    assert new == (old[0], 2)
    assert world.write(old, b"late", sequence=1) == E.INVALID_PRODUCER_EPOCH
    assert world.write(old, b"late", partition=("orders", 1)) == E.INVALID_PRODUCER_EPOCH
    assert world.add(old) == [E.PRODUCER_FENCED]
    world.add(new)
    world.write(new, b"new")
    world.end(new)
    assert world.read() == [b"new"]


def test_a_transaction_times_out(world: World) -> None:
    producer = world.producer(timeout_ms=5_000)
    world.add(producer)
    world.write(producer, b"a")
    world.pass_time(4_999)
    world.settle()
    assert world.state() == "Ongoing"
    world.pass_time(1)
    world.settle()
    assert world.state() == "CompleteAbort"
    assert world.read() == []
    assert world.write(producer, b"b", sequence=1) == E.INVALID_PRODUCER_EPOCH
    assert world.end(producer).error_code == E.PRODUCER_FENCED
    assert world.init(5, producer_id=producer[0], epoch=producer[1]).producer_epoch == 1
    assert world.alarms == []


def test_a_deleted_topic_does_not_keep_a_transaction_from_ending(world: World) -> None:
    world.create("gone")
    producer = world.producer()
    world.add(producer, ("gone", 0), ("orders", 0))
    world.write(producer, b"a")
    world.call(20, 6, DeleteTopicsRequest([DeleteTopicState("gone")]))
    assert world.end(producer).error_code == 0
    assert world.read() == [b"a"]


# Transaction version 2 (KIP-890)


def test_with_version_2_writing_adds_the_partition_and_the_epoch_rises(world: World) -> None:
    producer = world.producer()
    assert world.write(producer, b"a", version=13) == 0
    assert world.write(producer, b"b", version=12, partition=("orders", 1)) == 0
    assert world.state() == "Ongoing"
    ended = world.end(producer, version=5)
    assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (0, producer[0], 1)
    assert (world.read(), world.read(index=1)) == ([b"a"], [b"b"])
    assert world.write(producer, b"late", sequence=1, version=12) == E.INVALID_PRODUCER_EPOCH
    assert world.write(producer, b"late", version=12, partition=("orders", 2)) == E.INVALID_PRODUCER_EPOCH
    assert world.write((producer[0], 1), b"c", version=12) == 0
    again = world.end(producer, version=5)
    assert again.error_code == E.PRODUCER_FENCED
    world.end((producer[0], 1), version=5, commit=False)
    assert world.read() == [b"a"]
    assert world.end((producer[0], 1), version=5, commit=False).producer_epoch == 2  # the answer got lost


def test_what_is_written_waits_until_it_is_durable_that_the_partition_takes_part(world: World) -> None:
    producer = world.producer()
    log = world.partition().log
    writing = world.send_write(producer, b"a", version=12)
    assert log.end_offset == 0
    world.loop.turn()
    world.worker.run_one()
    assert (log.end_offset, writing.answers) == (0, 0)
    world.loop.turn()
    assert (log.end_offset, log.high_watermark, writing.answers) == (1, 0, 0)
    world.settle()
    assert (log.high_watermark, writing.answers) == (1, 1)


def test_with_version_2_a_partitions_first_batch_begins_at_zero(world: World) -> None:
    producer = world.producer()
    assert world.write(producer, b"b", version=12, sequence=1) == E.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert world.write(producer, b"a", version=12) == 0
    ended = world.end(producer, version=5)
    following = ended.producer_id, ended.producer_epoch
    assert world.write(following, b"d", version=12, sequence=1) == E.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_committing_an_offset_adds_the_group(world: World) -> None:
    producer = world.producer()
    assert world.commit_offset(producer, 5, version=5) == 0
    assert world.committed() == (E.UNSTABLE_OFFSET_COMMIT, -1)
    assert world.committed(stable=False) == (0, -1)
    ended = world.end(producer, version=5)
    assert world.committed() == (0, 5)
    assert world.commit_offset(producer, 6, version=5) == E.INVALID_PRODUCER_EPOCH
    assert world.commit_offset((ended.producer_id, ended.producer_epoch), 6, version=5) == 0


def test_while_a_transaction_completes_the_next_has_to_wait(world: World) -> None:
    producer = world.producer()
    world.write(producer, b"a", version=12)
    ending = world.send(26, 5, EndTxnRequest(TX, *producer, True))
    world.loop.turn()
    world.worker.run_one()
    world.loop.turn()  # decided, and the markers are written but not durable
    assert (ending.answers, world.transactions.actors[TX].transaction.is_completing) == (0, True)
    following = producer[0], producer[1] + 1
    assert world.send_write(following, b"b", version=12).response.responses[0].partition_responses[0].error_code == (
        E.CONCURRENT_TRANSACTIONS
    )
    old = world.send_write(following, b"b", version=9)
    assert old.response.responses[0].partition_responses[0].error_code == E.NOT_ENOUGH_REPLICAS
    world.settle()
    assert ending.response.error_code == 0
    assert world.write(following, b"b", version=12) == 0


# Markers from elsewhere, and what admins look at


@pytest.mark.parametrize("version", [1, 2])
def test_write_txn_markers(world: World, version: int) -> None:
    world.producer()
    producer = world.producer()
    world.add(producer)
    world.write(producer, b"a")

    def errors(epoch: int, coordinator_epoch: int = 0, *, commit: bool = False) -> list[int]:
        topics = [WritableTxnMarkerTopic("orders", [0, 9]), WritableTxnMarkerTopic("none", [0])]
        marker = WritableTxnMarker(producer[0], epoch, commit, topics, coordinator_epoch)
        (result,) = world.call(27, version, WriteTxnMarkersRequest([marker])).markers
        return [each.error_code for topic in result.topics for each in topic.partitions]

    unknown = [E.UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert errors(-1) == [E.UNKNOWN_SERVER_ERROR, *unknown]
    assert errors(0, 3) == [E.INVALID_PRODUCER_EPOCH, *unknown]
    assert errors(1, 3) == [0, *unknown]
    assert world.fetch().last_stable_offset == 2
    assert world.read() == []
    assert errors(1, 2) == [E.TRANSACTION_COORDINATOR_FENCED, *unknown]
    assert errors(1, 3) == [0, *unknown]  # again
    assert world.call(27, version, WriteTxnMarkersRequest([])).markers == []


def test_a_marker_of_version_2_is_ahead_of_what_it_ends(world: World) -> None:
    producer = world.producer()
    world.add(producer)
    world.write(producer, b"a")

    def error(epoch: int) -> int:
        topics = [WritableTxnMarkerTopic("orders", [0])]
        marker = WritableTxnMarker(producer[0], epoch, True, topics, 0, 2)
        (result,) = world.call(27, 2, WriteTxnMarkersRequest([marker])).markers
        found: int = result.topics[0].partitions[0].error_code
        return found

    assert error(0) == E.INVALID_PRODUCER_EPOCH
    assert error(1) == 0
    assert error(1) == 0  # again
    assert world.read() == [b"a"]


def test_a_marker_for_a_group_whose_partition_is_not_loaded(world: World) -> None:
    index = group_partition(world)
    world.coordinator.partitions.states[index] = LOADING
    topics = [WritableTxnMarkerTopic("__consumer_offsets", [index])]
    (result,) = world.call(27, 1, WriteTxnMarkersRequest([WritableTxnMarker(1, 0, True, topics, 0)])).markers
    assert result.topics[0].partitions[0].error_code == E.NOT_LEADER_OR_FOLLOWER
    assert world.commit_offset((1, 0), 5, version=1) == E.COORDINATOR_NOT_AVAILABLE
    assert world.commit_offset((1, 0), 5, version=2) == E.COORDINATOR_LOAD_IN_PROGRESS


def test_describe_and_list(world: World) -> None:
    producer = world.producer(timeout_ms=12_000)
    world.add(producer, ("orders", 2), ("orders", 1))
    world.producer(id_="idle")
    shown = world.call(65, 0, DescribeTransactionsRequest([TX, "none", ""])).transaction_states
    assert [each.error_code for each in shown] == [0, E.TRANSACTIONAL_ID_NOT_FOUND, E.INVALID_REQUEST]
    one = shown[0]
    assert (one.transaction_state, one.transaction_timeout_ms, one.transaction_start_time_ms) == (
        "Ongoing", 12_000, world.time_ms,
    )  # fmt: skip
    assert (one.producer_id, one.producer_epoch) == producer
    assert [(topic.topic, topic.partitions) for topic in one.topics] == [("orders", [2, 1])]

    def listed(**filters: Any) -> list[str]:
        response = world.call(66, 2, ListTransactionsRequest(**filters))
        assert response.error_code == 0
        return [each.transactional_id for each in response.transaction_states]

    world.time_ms += 1_000
    assert listed() == [TX, "idle"]
    assert listed(state_filters=["Ongoing"]) == [TX]
    assert listed(producer_id_filters=[producer[0]]) == [TX]
    assert listed(duration_filter=1_000, state_filters=["Ongoing"]) == []
    assert listed(duration_filter=999, state_filters=["Ongoing"]) == [TX]
    assert listed(transactional_id_pattern="i.*") == ["idle"]
    assert listed(state_filters=["Sleeping"]) == []
    response = world.call(66, 2, ListTransactionsRequest(["Sleeping", "Empty"]))
    assert response.unknown_state_filters == ["Sleeping"]
    assert world.call(66, 2, ListTransactionsRequest(transactional_id_pattern="(")).error_code == (
        E.INVALID_REGULAR_EXPRESSION
    )
    (described,) = world.call(61, 0, DescribeProducersRequest([TopicRequest("orders", [0])])).topics
    assert described.partitions[0].active_producers == []
    world.write(producer, b"a", partition=("orders", 2))
    response = world.call(61, 0, DescribeProducersRequest([TopicRequest("orders", [2, 7]), TopicRequest("/", [0])]))
    (found, absent), (invalid,) = (topic.partitions for topic in response.topics)
    (state,) = found.active_producers
    assert (state.producer_id, state.producer_epoch, state.last_sequence, state.current_txn_start_offset) == (
        *producer, 0, 0,
    )  # fmt: skip
    assert (absent.error_code, invalid.error_code) == (E.UNKNOWN_TOPIC_OR_PARTITION, E.INVALID_TOPIC_EXCEPTION)


def test_while_it_is_loading_or_stopping_it_says_so(world: World) -> None:
    producer = world.producer()
    world.transactions.actors.clear()
    world.transactions.partitions.states = [LOADING] * 4
    loading = E.COORDINATOR_LOAD_IN_PROGRESS
    assert world.init().error_code == loading
    assert world.add(producer) == [loading]
    assert world.end(producer).error_code == loading
    assert world.write(producer, b"a") == E.NOT_ENOUGH_REPLICAS
    assert world.call(66, 0, ListTransactionsRequest()).error_code == loading
    world.transactions.draining = True
    gone = E.COORDINATOR_NOT_AVAILABLE
    assert world.init().error_code == gone
    assert world.call(66, 0, ListTransactionsRequest()).error_code == gone


def test_kafkas_feature_level_is_what_is_served() -> None:
    assert SERVER_VERSION == 2
