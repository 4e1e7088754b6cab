"""Requests that repeat an element, that name it by name and by id, or that are answered by pages, for `cases.CASES`.

What a client may not do must be decided, and hidden, for each element of the response by itself. The requests repeat a
permitted and a refused element, since a look-up by name would find the first of them only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka_wire.api import (
    add_partitions_to_txn,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_configs,
    describe_groups,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    txn_offset_commit,
)
from kafka_wire.records.batch import BatchBuilder
from kafka_wire.schema import ZERO_UUID

TOPIC, OTHER, NEW, NOWHERE = "allowed", "other", "new", "nowhere"
TOPICS = (TOPIC, OTHER, TOPIC, OTHER)
GROUP, OTHER_GROUP, NO_GROUP, NEVER = "group", "other-group", "no-group", "never"
GROUPS = (GROUP, OTHER_GROUP, GROUP, OTHER_GROUP)
TXN, OTHER_TXN = "txn", "other-txn"
UNKNOWN_ID = bytes(15) + b"\x77"
MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"

Case = tuple[str, int, Callable[[Any], Any]]
"""(name, version, topic ids -> request)."""


def _metadata(*topics: tuple[bytes, str | None], create: bool = False) -> Any:
    return metadata.MetadataRequest([metadata.MetadataRequestTopic(*each) for each in topics], create, True, True)


def _delete_topics(*topics: tuple[str | None, bytes]) -> Any:
    return delete_topics.DeleteTopicsRequest(
        [delete_topics.DeleteTopicState(*each) for each in topics], timeout_ms=60_000
    )


def _produce(ids: Any) -> Any:
    builder = BatchBuilder()
    builder.add(None, b"value", 1_000)
    batch = bytes(builder.finish(0, leader_epoch=0))
    return produce.ProduceRequest(
        None, -1, 1000,
        [
            produce.TopicProduceData(name, topic_id, [produce.PartitionProduceData(0, batch)])
            for name, topic_id in (("", ids[each]) if ids else (each, ZERO_UUID) for each in TOPICS)
        ],
    )  # fmt: skip


def _fetch(ids: Any) -> Any:
    request = fetch.FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, session_epoch=-1)
    request.topics = [
        fetch.FetchTopic(name, topic_id, [fetch.FetchPartition(0, -1, 0, partition_max_bytes=1 << 20)])
        for name, topic_id in (("", ids[each]) if ids else (each, ZERO_UUID) for each in TOPICS)
    ]
    return request


def _commit(ids: Any) -> Any:
    return offset_commit.OffsetCommitRequest(
        GROUP,
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                "" if ids else name, ids[name] if ids else ZERO_UUID,
                [offset_commit.OffsetCommitRequestPartition(0, 1, -1, "")],
            )
            for name in TOPICS
        ],
    )  # fmt: skip


def _fetch_offsets(*groups: tuple[str, tuple[str, ...] | None], ids: Any = None) -> Any:
    return offset_fetch.OffsetFetchRequest(
        groups=[
            offset_fetch.OffsetFetchRequestGroup(
                group,
                topics=None
                if names is None
                else [
                    offset_fetch.OffsetFetchRequestTopics("" if ids else name, ids[name] if ids else ZERO_UUID, [0])
                    for name in names
                ],
            )
            for group, names in groups
        ]
    )


def _commit_in_transaction() -> Any:
    return txn_offset_commit.TxnOffsetCommitRequest(
        TXN, GROUP, 4711, 0,
        topics=[
            txn_offset_commit.TxnOffsetCommitRequestTopic(
                name, ZERO_UUID, [txn_offset_commit.TxnOffsetCommitRequestPartition(0, 1, -1, "")]
            )
            for name in TOPICS
        ],
    )  # fmt: skip


def _configs(module: Any, kind: type[Any]) -> Any:
    resources = []
    for resource_type, name in ((2, TOPIC), (2, OTHER), (2, TOPIC), (2, OTHER), (32, GROUP)):
        setting = ("retention.ms", "1000000") if resource_type == 2 else ("consumer.session.timeout.ms", "46000")
        config = module.AlterableConfig(setting[0], value=setting[1])
        resources.append(module.AlterConfigsResource(resource_type, name, [config]))
    return kind(resources, True)


def _pages(names: tuple[str, ...], limit: int, cursor: tuple[str, int] | None = None) -> Any:
    return describe_topic_partitions.DescribeTopicPartitionsRequest(
        [describe_topic_partitions.TopicRequest(name) for name in names],
        limit,
        None if cursor is None else describe_topic_partitions.Cursor(*cursor),
    )


REPEATED: tuple[Case, ...] = (
    ("Produce, repeated", 12, lambda ids: _produce(None)),
    ("Produce, repeated", 13, _produce),
    ("Fetch, repeated", 12, lambda ids: _fetch(None)),
    ("Fetch, repeated", 18, _fetch),
    ("ListOffsets, repeated", 8, lambda ids: list_offsets.ListOffsetsRequest(-1, topics=[
        list_offsets.ListOffsetsTopic(name, [list_offsets.ListOffsetsPartition(0, -1, -2)]) for name in TOPICS
    ])),
    ("Metadata by name, repeated", 12, lambda ids: _metadata(*[(ZERO_UUID, name) for name in TOPICS])),
    ("Metadata by id, repeated", 12, lambda ids: _metadata(*[(ids[name], None) for name in TOPICS])),
    ("Metadata of a name and the id of another", 12, lambda ids: _metadata((ids[OTHER], TOPIC))),
    ("Metadata of another name and an id", 12, lambda ids: _metadata((ids[TOPIC], OTHER))),
    ("Metadata of a name and its id", 12, lambda ids: _metadata((ids[TOPIC], TOPIC), (ids[OTHER], OTHER))),
    ("Metadata of a new name and an unknown id", 12, lambda ids: _metadata((UNKNOWN_ID, NEW), create=True)),
    ("Metadata of new names and an id", 12,
     lambda ids: _metadata((ZERO_UUID, NEW), (ids[OTHER], None), (ZERO_UUID, NOWHERE), create=True)),
    ("Metadata of a name and an id", 12, lambda ids: _metadata((ZERO_UUID, TOPIC), (ids[OTHER], None))),
    ("Metadata of another name and of an id", 12, lambda ids: _metadata((ZERO_UUID, OTHER), (ids[TOPIC], None))),
    ("Metadata of nothing and an id", 12, lambda ids: _metadata((ZERO_UUID, None), (ids[OTHER], None))),
    ("Metadata of names and an id", 10, lambda ids: _metadata((ZERO_UUID, OTHER), (ids[TOPIC], TOPIC))),
    ("OffsetCommit, repeated", 9, lambda ids: _commit(None)),
    ("OffsetCommit, repeated", 10, _commit),
    ("OffsetFetch, repeated", 7, lambda ids: offset_fetch.OffsetFetchRequest(
        GROUP, [offset_fetch.OffsetFetchRequestTopic(name, [0]) for name in TOPICS]
    )),
    ("OffsetFetch, repeated topics", 9, lambda ids: _fetch_offsets((GROUP, TOPICS))),
    ("OffsetFetch, repeated topics", 10, lambda ids: _fetch_offsets((GROUP, TOPICS), ids=ids)),
    ("OffsetFetch of nothing, then of all", 8, lambda ids: _fetch_offsets((GROUP, ()), (GROUP, None))),
    ("OffsetFetch of nothing, then of all", 9, lambda ids: _fetch_offsets((GROUP, ()), (GROUP, None))),
    ("OffsetFetch of nothing, then of all", 10, lambda ids: _fetch_offsets((GROUP, ()), (GROUP, None), ids=ids)),
    ("OffsetFetch of all, twice", 9, lambda ids: _fetch_offsets((GROUP, None), (OTHER_GROUP, None), (GROUP, None))),
    ("OffsetFetch of one, then of the other", 9, lambda ids: _fetch_offsets(
        (GROUP, (TOPIC,)), (OTHER_GROUP, (TOPIC,)), (GROUP, (OTHER,)), (GROUP, TOPICS)
    )),
    ("FindCoordinator of groups, repeated", 4, lambda ids: find_coordinator.FindCoordinatorRequest("", 0, [*GROUPS])),
    ("FindCoordinator of transactions, repeated", 4, lambda ids: find_coordinator.FindCoordinatorRequest(
        "", 1, [TXN, OTHER_TXN, TXN, OTHER_TXN])),
    ("DescribeGroups, repeated", 5, lambda ids: describe_groups.DescribeGroupsRequest([*GROUPS], True)),
    ("CreateTopics, repeated", 7, lambda ids: create_topics.CreateTopicsRequest(
        [create_topics.CreatableTopic(name, 1, 1) for name in (NEW, NOWHERE, "once", NEW, NOWHERE)], 60_000, True
    )),
    ("DeleteTopics by name, repeated", 6, lambda ids: _delete_topics(
        *[(name, ZERO_UUID) for name in (*TOPICS, NOWHERE)])),
    ("DeleteTopics by name, repeated", 3, lambda ids: delete_topics.DeleteTopicsRequest(
        topic_names=[*TOPICS, NOWHERE], timeout_ms=60_000)),
    ("DeleteTopics by id, repeated", 6, lambda ids: _delete_topics(
        *[(None, ids[name]) for name in TOPICS], (None, UNKNOWN_ID))),
    ("DeleteTopics of names with their ids", 6, lambda ids: _delete_topics(
        (TOPIC, ids[TOPIC]), (OTHER, ids[OTHER]))),
    ("DeleteTopics of names with other ids", 6, lambda ids: _delete_topics(
        (TOPIC, ids[OTHER]), (OTHER, ids[TOPIC]))),
    ("DeleteTopics of names and their ids", 6, lambda ids: _delete_topics(
        (TOPIC, ZERO_UUID), (OTHER, ZERO_UUID), (None, ids[TOPIC]), (None, ids[OTHER]))),
    ("DeleteTopics of an id, twice, and its name", 6, lambda ids: _delete_topics(
        (None, ids[TOPIC]), (None, ids[TOPIC]), (TOPIC, ZERO_UUID), (OTHER, ZERO_UUID), (OTHER, ZERO_UUID))),
    ("DeleteTopics of nothing", 6, lambda ids: _delete_topics((None, ZERO_UUID), (None, ZERO_UUID), (OTHER, ZERO_UUID),
                                                              (OTHER, ZERO_UUID))),
    ("DeleteRecords, repeated", 2, lambda ids: delete_records.DeleteRecordsRequest([
        delete_records.DeleteRecordsTopic(name, [delete_records.DeleteRecordsPartition(0, 0)]) for name in TOPICS
    ], 60_000)),
    ("OffsetForLeaderEpoch, repeated", 4, lambda ids: offset_for_leader_epoch.OffsetForLeaderEpochRequest(-1, [
        offset_for_leader_epoch.OffsetForLeaderTopic(name, [offset_for_leader_epoch.OffsetForLeaderPartition(0, -1, 0)])
        for name in TOPICS
    ])),
    ("AddPartitionsToTxn, repeated", 3, lambda ids: add_partitions_to_txn.AddPartitionsToTxnRequest(
        [], TXN, 4711, 0, [add_partitions_to_txn.AddPartitionsToTxnTopic(name, [0]) for name in TOPICS]
    )),
    ("TxnOffsetCommit, repeated", 3, lambda ids: _commit_in_transaction()),
    ("DescribeConfigs, repeated", 4, lambda ids: describe_configs.DescribeConfigsRequest([
        describe_configs.DescribeConfigsResource(kind, name, ["retention.ms"])
        for kind, name in ((2, TOPIC), (2, OTHER), (2, TOPIC), (2, OTHER), (32, TOPIC), (4, "0"), (4, "0"))
    ])),
    # Kafka 4.3 never answers AlterConfigs with a resource twice.
    ("IncrementalAlterConfigs, repeated", 1, lambda ids: _configs(
        incremental_alter_configs, incremental_alter_configs.IncrementalAlterConfigsRequest)),
    ("CreatePartitions, repeated", 3, lambda ids: create_partitions.CreatePartitionsRequest([
        create_partitions.CreatePartitionsTopic(name, 5, None) for name in TOPICS
    ], 60_000, True)),
    ("DeleteGroups, repeated", 2, lambda ids: delete_groups.DeleteGroupsRequest([NO_GROUP, NEVER, NO_GROUP, NEVER])),
    ("OffsetDelete, repeated", 0, lambda ids: offset_delete.OffsetDeleteRequest(GROUP, [
        offset_delete.OffsetDeleteRequestTopic(name, [offset_delete.OffsetDeleteRequestPartition(7)])
        for name in TOPICS
    ])),
    ("DescribeProducers, repeated", 0, lambda ids: describe_producers.DescribeProducersRequest([
        describe_producers.TopicRequest(name, [0]) for name in TOPICS
    ])),
    ("DescribeTransactions, repeated", 0, lambda ids: describe_transactions.DescribeTransactionsRequest(
        [TXN, OTHER_TXN, TXN, OTHER_TXN])),
    ("ConsumerGroupHeartbeat, repeated", 1, lambda ids: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        NO_GROUP, MEMBER, 5, subscribed_topic_names=[*TOPICS])),
    ("ConsumerGroupDescribe, repeated", 1, lambda ids: consumer_group_describe.ConsumerGroupDescribeRequest(
        [*GROUPS], True)),
    ("DescribeTopicPartitions, repeated", 0, lambda ids: _pages((*TOPICS, NOWHERE, NOWHERE), 2000)),
    ("DescribeTopicPartitions of all, by 1", 0, lambda ids: _pages((), 1)),
    ("DescribeTopicPartitions of all, by 1, the first", 0, lambda ids: _pages((), 1, (TOPIC, 0))),
    ("DescribeTopicPartitions of all, by 1, the second", 0, lambda ids: _pages((), 1, (TOPIC, 1))),
    ("DescribeTopicPartitions of all, by 1, from another", 0, lambda ids: _pages((), 1, (OTHER, 0))),
    ("DescribeTopicPartitions of all, by 3", 0, lambda ids: _pages((), 3, (TOPIC, 0))),
    ("DescribeTopicPartitions of some, by 2", 0, lambda ids: _pages((OTHER, TOPIC, NOWHERE), 2)),
    ("DescribeTopicPartitions of some, by 1", 0, lambda ids: _pages((OTHER, TOPIC, NOWHERE), 1)),
    ("DescribeTopicPartitions from a cursor on another", 0, lambda ids: _pages((OTHER, NOWHERE), 1, (OTHER, 0))),
    ("DescribeTopicPartitions without the cursor's topic", 0, lambda ids: _pages((TOPIC, NOWHERE), 1, (OTHER, 0))),
    ("DescribeTopicPartitions of all from a negative cursor", 0, lambda ids: _pages((), 1, (TOPIC, -1))),
    ("DescribeTopicPartitions from a negative cursor", 0, lambda ids: _pages((TOPIC, OTHER), 1, (TOPIC, -1))),
)  # fmt: skip
