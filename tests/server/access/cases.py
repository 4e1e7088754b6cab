"""Each API asked by principals with one permission each: what a broker answers, reduced to what permissions decide.

The same cases run on Apache Kafka with its StandardAuthorizer (`record.py`) and on our daemon. What permissions do not
decide (offsets, ids, hosts, the members of a group) is left out of an outcome.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from coordinatord.testing.conform.raw_client import RawClient
from coordinatord.transport.security.authorizer import Operation, Permission, ResourceType
from kafka_wire.api import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    txn_offset_commit,
    write_txn_markers,
)
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import TRANSACTIONAL, BatchBuilder
from kafka_wire.schema import schema_of
from tests.server.access.repeated import REPEATED

Op, R = Operation, ResourceType

TOPIC, OTHER, NEW = "allowed", "other", "new"
"""A topic that permissions are about, one that they are not about, and one that does not exist."""
GROUP, OTHER_GROUP, NO_GROUP = "group", "other-group", "no-group"
TXN, OTHER_TXN = "txn", "other-txn"
CLUSTER = "kafka-cluster"

SUPER = "super"
NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Grant:
    """A permission for all the resources of a type that cases are about."""

    resource_type: ResourceType
    operation: Operation
    permission: Permission = Permission.ALLOW


NAMES = {
    R.TOPIC: (TOPIC, NEW),
    R.GROUP: (GROUP, NO_GROUP),
    R.CLUSTER: (CLUSTER,),
    R.TRANSACTIONAL_ID: (TXN,),
}
OPERATIONS = {
    R.TOPIC: (Op.READ, Op.WRITE, Op.CREATE, Op.DELETE, Op.ALTER, Op.DESCRIBE, Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS),
    R.GROUP: (Op.READ, Op.DELETE, Op.DESCRIBE, Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS),
    R.CLUSTER: (
        Op.CREATE, Op.ALTER, Op.DESCRIBE, Op.CLUSTER_ACTION, Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS, Op.IDEMPOTENT_WRITE,
    ),
    R.TRANSACTIONAL_ID: (Op.WRITE, Op.DESCRIBE),
}  # fmt: skip


def _principals() -> dict[str, tuple[Grant, ...]]:
    found: dict[str, tuple[Grant, ...]] = {SUPER: (), NOBODY: ()}
    for resource_type, operations in OPERATIONS.items():
        for operation in operations:
            name = f"{resource_type.name}-{operation.name}".lower().replace("_", "-")
            found[name] = (Grant(resource_type, operation),)
        found[f"{resource_type.name}-all".lower().replace("_", "-")] = (Grant(resource_type, Op.ALL),)
    found["reader"] = (Grant(R.TOPIC, Op.READ), Grant(R.GROUP, Op.READ))
    found["group-not-topic"] = (
        Grant(R.GROUP, Op.ALL),
        Grant(R.TOPIC, Op.ALL),
        Grant(R.TOPIC, Op.READ, Permission.DENY),
    )
    found["deleter"] = (Grant(R.TOPIC, Op.READ), Grant(R.GROUP, Op.DELETE))
    found["transactional"] = (Grant(R.TRANSACTIONAL_ID, Op.WRITE), Grant(R.TOPIC, Op.WRITE), Grant(R.GROUP, Op.READ))
    found["committer"] = (Grant(R.TRANSACTIONAL_ID, Op.WRITE), Grant(R.TOPIC, Op.READ), Grant(R.GROUP, Op.READ))
    found["creator"] = (Grant(R.CLUSTER, Op.CREATE), Grant(R.TOPIC, Op.DESCRIBE))
    # The last one: it deletes a topic by its id, whose name it may not name.
    found["not-described"] = (Grant(R.TOPIC, Op.ALL), Grant(R.TOPIC, Op.DESCRIBE, Permission.DENY))
    return found


PRINCIPALS = _principals()
"""Principal -> what it may do."""

BATCH_PRODUCER = 4711


def _batch(*, transactional: bool = False) -> bytes:
    builder = BatchBuilder()
    builder.add(None, b"value", 1_000)
    batch = builder.finish(0, leader_epoch=0)
    if transactional:
        batch = builder_of_transaction(batch)
    return bytes(batch)


def builder_of_transaction(batch: bytearray | bytes) -> bytearray:
    """The batch as one of a transaction, with its CRC."""
    from kafka_wire.records.crc import crc32c

    made = bytearray(batch)
    made[22] |= TRANSACTIONAL
    made[43:51] = BATCH_PRODUCER.to_bytes(8, "big")
    made[51:53] = (0).to_bytes(2, "big")
    made[53:57] = (0).to_bytes(4, "big")
    made[17:21] = crc32c(bytes(made[21:])).to_bytes(4, "big")
    return made


@dataclass(frozen=True, slots=True)
class Ids:
    """Topic ids, which differ from broker to broker."""

    by_name: dict[str, bytes]

    def __getitem__(self, name: str) -> bytes:
        return self.by_name[name]

    def name(self, topic_id: bytes) -> str | None:
        return next((name for name, known in self.by_name.items() if known == topic_id), None)


UNKNOWN_ID = bytes(15) + b"\x77"

Case = tuple[str, int, Callable[[Ids], Any]]
"""(name, version, request)."""


def _produce(names: tuple[str, ...], ids: Ids | None, *, transactional_id: str | None = None) -> Any:
    batch = _batch(transactional=transactional_id is not None)
    return produce.ProduceRequest(
        transactional_id, -1, 1000,
        [
            produce.TopicProduceData(
                "" if ids else name, ids[name] if ids else bytes(16), [produce.PartitionProduceData(0, batch)]
            )
            for name in names
        ],
    )  # fmt: skip


def _fetch(names: tuple[str, ...], ids: Ids | None, replica_id: int = -1) -> Any:
    request = fetch.FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, session_epoch=-1)
    request.replica_id = replica_id
    request.replica_state.replica_id = replica_id
    request.topics = [
        fetch.FetchTopic(
            "" if ids else name,
            ids[name] if ids else bytes(16),
            [fetch.FetchPartition(0, -1, 0, partition_max_bytes=1 << 20)],
        )
        for name in names
    ]
    return request


def _metadata(names: tuple[str, ...] | None, *, create: bool = False, ids: Ids | None = None) -> Any:
    topics = None
    if names is not None:
        topics = [
            metadata.MetadataRequestTopic(ids[name], None) if ids else metadata.MetadataRequestTopic(bytes(16), name)
            for name in names
        ]
    return metadata.MetadataRequest(topics, create, True, True)


def _offset_commit(ids: Ids | None) -> Any:
    return offset_commit.OffsetCommitRequest(
        GROUP,
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                "" if ids else name, ids[name] if ids else bytes(16),
                [offset_commit.OffsetCommitRequestPartition(0, 1, -1, "")],
            )
            for name in (TOPIC, OTHER)
        ],
    )  # fmt: skip


def _offset_fetch(groups: tuple[str, ...], names: tuple[str, ...] | None, ids: Ids | None = None) -> Any:
    return offset_fetch.OffsetFetchRequest(
        groups=[
            offset_fetch.OffsetFetchRequestGroup(
                group,
                topics=None
                if names is None
                else [
                    offset_fetch.OffsetFetchRequestTopics("" if ids else name, ids[name] if ids else bytes(16), [0])
                    for name in names
                ],
            )
            for group in groups
        ]
    )


def _txn_offsets() -> Any:
    return txn_offset_commit.TxnOffsetCommitRequest(
        TXN, GROUP, BATCH_PRODUCER, 0,
        topics=[
            txn_offset_commit.TxnOffsetCommitRequestTopic(
                name, bytes(16), [txn_offset_commit.TxnOffsetCommitRequestPartition(0, 1, -1, "")]
            )
            for name in (TOPIC, OTHER)
        ],
    )  # fmt: skip


def _configs(module: Any, kind: type[Any]) -> Any:
    # Topic, other topic, group, broker. The broker's values differ, so that none is changed.
    resources = [(2, TOPIC), (2, OTHER), (32, GROUP), (32, OTHER_GROUP)]
    made = kind()
    for resource_type, name in resources:
        setting = ("retention.ms", "1000000") if resource_type == 2 else ("consumer.session.timeout.ms", "46000")
        resource = module.AlterConfigsResource(resource_type, name)
        config = module.AlterableConfig(setting[0], value=setting[1])
        resource.configs = [config]
        made.resources.append(resource)
    made.validate_only = True
    return made


def _markers() -> Any:
    return write_txn_markers.WriteTxnMarkersRequest(
        [
            write_txn_markers.WritableTxnMarker(
                BATCH_PRODUCER, 0, True, [write_txn_markers.WritableTxnMarkerTopic(NEW, [0])], 0
            )
        ]
    )


MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"
ANY = (1, None, 1, None, None, 1, 1)

CASES: tuple[Case, ...] = (
    ("Produce", 12, lambda ids: _produce((TOPIC, OTHER), None)),
    ("Produce", 13, lambda ids: _produce((TOPIC, OTHER), ids)),
    ("Produce of a transaction", 11, lambda ids: _produce((TOPIC, OTHER), None, transactional_id=TXN)),
    ("Produce of another transaction", 11, lambda ids: _produce((TOPIC,), None, transactional_id=OTHER_TXN)),
    ("Produce to no topic", 12, lambda ids: _produce((NEW, "nowhere"), None)),
    ("Fetch", 12, lambda ids: _fetch((TOPIC, OTHER), None)),
    ("Fetch", 18, lambda ids: _fetch((TOPIC, OTHER), ids)),
    ("Fetch no topic", 12, lambda ids: _fetch((NEW, "nowhere"), None)),
    ("Fetch as a replica", 12, lambda ids: _fetch((TOPIC,), None, replica_id=5)),
    ("ListOffsets", 8, lambda ids: list_offsets.ListOffsetsRequest(-1, topics=[
        list_offsets.ListOffsetsTopic(name, [list_offsets.ListOffsetsPartition(0, -1, -2)])
        for name in (TOPIC, OTHER, NEW, "nowhere")
    ])),
    ("Metadata of all", 12, lambda ids: _metadata(None)),
    ("Metadata of all", 0, lambda ids: metadata.MetadataRequest([])),
    ("Metadata of all, operations", 9, lambda ids: _metadata(None)),
    ("Metadata by name", 12, lambda ids: _metadata((TOPIC, OTHER))),
    ("Metadata of no topic", 12, lambda ids: _metadata((NEW, "nowhere"))),
    ("Metadata of what is not allowed", 12, lambda ids: _metadata((OTHER,))),
    ("Metadata by id", 12, lambda ids: _metadata((TOPIC, OTHER), ids=ids)),
    ("OffsetCommit", 9, lambda ids: _offset_commit(None)),
    ("OffsetCommit", 10, _offset_commit),
    ("OffsetFetch", 9, lambda ids: _offset_fetch((GROUP, OTHER_GROUP), (TOPIC, OTHER))),
    ("OffsetFetch", 10, lambda ids: _offset_fetch((GROUP,), (TOPIC, OTHER), ids)),
    ("OffsetFetch of all", 9, lambda ids: _offset_fetch((GROUP, OTHER_GROUP), None)),
    ("OffsetFetch", 7, lambda ids: offset_fetch.OffsetFetchRequest(
        GROUP, [offset_fetch.OffsetFetchRequestTopic(name, [0]) for name in (TOPIC, OTHER)]
    )),
    ("OffsetFetch of all", 7, lambda ids: offset_fetch.OffsetFetchRequest(GROUP, None)),
    ("FindCoordinator of groups", 4, lambda ids: find_coordinator.FindCoordinatorRequest(
        "", 0, [GROUP, OTHER_GROUP])),
    ("FindCoordinator of transactions", 4, lambda ids: find_coordinator.FindCoordinatorRequest(
        "", 1, [TXN, OTHER_TXN])),
    ("FindCoordinator of a group", 3, lambda ids: find_coordinator.FindCoordinatorRequest(GROUP, 0)),
    ("FindCoordinator of another group", 3, lambda ids: find_coordinator.FindCoordinatorRequest(OTHER_GROUP, 0)),
    ("JoinGroup", 9, lambda ids: join_group.JoinGroupRequest(
        NO_GROUP, 6000, 6000, "unknown", None, "consumer", [join_group.JoinGroupRequestProtocol("range", b"")]
    )),
    ("Heartbeat", 4, lambda ids: heartbeat.HeartbeatRequest(GROUP, 1, "unknown")),
    ("LeaveGroup", 5, lambda ids: leave_group.LeaveGroupRequest(
        GROUP, "", [leave_group.MemberIdentity("unknown")])),
    ("SyncGroup", 5, lambda ids: sync_group.SyncGroupRequest(GROUP, 1, "unknown")),
    ("SyncGroup with a protocol", 5, lambda ids: sync_group.SyncGroupRequest(
        GROUP, 1, "unknown", None, "consumer", "range")),
    ("DescribeGroups", 5, lambda ids: describe_groups.DescribeGroupsRequest([GROUP, OTHER_GROUP], True)),
    ("ListGroups", 5, lambda ids: list_groups.ListGroupsRequest()),
    ("CreateTopics", 7, lambda ids: create_topics.CreateTopicsRequest(
        [create_topics.CreatableTopic(name, 1, 1) for name in (NEW, "nowhere")], 60_000, True
    )),
    ("DeleteTopics by name", 6, lambda ids: delete_topics.DeleteTopicsRequest(
        [delete_topics.DeleteTopicState(name) for name in (NEW, "nowhere")], timeout_ms=60_000
    )),
    ("DeleteTopics by unknown id", 6, lambda ids: delete_topics.DeleteTopicsRequest(
        [delete_topics.DeleteTopicState(None, UNKNOWN_ID)], timeout_ms=60_000
    )),
    ("DeleteTopics", 3, lambda ids: delete_topics.DeleteTopicsRequest(topic_names=[NEW, "nowhere"], timeout_ms=60_000)),
    ("DeleteRecords", 2, lambda ids: delete_records.DeleteRecordsRequest([
        delete_records.DeleteRecordsTopic(name, [delete_records.DeleteRecordsPartition(0, 0)])
        for name in (TOPIC, OTHER)
    ], 60_000)),
    ("InitProducerId", 4, lambda ids: init_producer_id.InitProducerIdRequest(None, 1000)),
    ("InitProducerId of a transaction", 4, lambda ids: init_producer_id.InitProducerIdRequest(TXN, 1000, 1 << 40, 0)),
    ("OffsetForLeaderEpoch", 4, lambda ids: offset_for_leader_epoch.OffsetForLeaderEpochRequest(-1, [
        offset_for_leader_epoch.OffsetForLeaderTopic(name, [offset_for_leader_epoch.OffsetForLeaderPartition(0, -1, 0)])
        for name in (TOPIC, OTHER)
    ])),
    ("AddPartitionsToTxn", 3, lambda ids: add_partitions_to_txn.AddPartitionsToTxnRequest(
        [], TXN, BATCH_PRODUCER, 0,
        [add_partitions_to_txn.AddPartitionsToTxnTopic(name, [0]) for name in (TOPIC, OTHER)]
    )),
    ("AddPartitionsToTxn of its own", 3, lambda ids: add_partitions_to_txn.AddPartitionsToTxnRequest(
        [], TXN, BATCH_PRODUCER, 0, [add_partitions_to_txn.AddPartitionsToTxnTopic(TOPIC, [0])]
    )),
    ("AddPartitionsToTxn of brokers", 4, lambda ids: add_partitions_to_txn.AddPartitionsToTxnRequest([
        add_partitions_to_txn.AddPartitionsToTxnTransaction(
            TXN, BATCH_PRODUCER, 0, True, [add_partitions_to_txn.AddPartitionsToTxnTopic(TOPIC, [0])]
        )
    ])),
    ("AddOffsetsToTxn", 3, lambda ids: add_offsets_to_txn.AddOffsetsToTxnRequest(TXN, BATCH_PRODUCER, 0, GROUP)),
    ("EndTxn", 3, lambda ids: end_txn.EndTxnRequest(TXN, BATCH_PRODUCER, 0, True)),
    ("WriteTxnMarkers", 1, lambda ids: _markers()),
    ("TxnOffsetCommit", 3, lambda ids: _txn_offsets()),
    ("DescribeAcls", 3, lambda ids: describe_acls.DescribeAclsRequest(2, "no such", 3, None, None, 1, 1)),
    ("CreateAcls", 3, lambda ids: create_acls.CreateAclsRequest([
        create_acls.AclCreation(2, "", 3, "User:x", "*", 3, 3),
    ])),
    ("DeleteAcls", 3, lambda ids: delete_acls.DeleteAclsRequest([
        delete_acls.DeleteAclsFilter(2, "no such", 3, None, None, 1, 1)
    ])),
    ("DescribeConfigs", 4, lambda ids: describe_configs.DescribeConfigsRequest([
        describe_configs.DescribeConfigsResource(kind, name, ["retention.ms", "consumer.session.timeout.ms"])
        for kind, name in ((2, TOPIC), (2, OTHER), (32, GROUP), (32, OTHER_GROUP), (4, "0"))
    ])),
    ("AlterConfigs", 2, lambda ids: _configs(alter_configs, alter_configs.AlterConfigsRequest)),
    ("IncrementalAlterConfigs", 1, lambda ids: _configs(
        incremental_alter_configs, incremental_alter_configs.IncrementalAlterConfigsRequest)),
    ("DescribeLogDirs", 4, lambda ids: describe_log_dirs.DescribeLogDirsRequest([])),
    ("CreatePartitions", 3, lambda ids: create_partitions.CreatePartitionsRequest([
        create_partitions.CreatePartitionsTopic(name, 5, None) for name in (TOPIC, OTHER)
    ], 60_000, True)),
    ("DeleteGroups", 2, lambda ids: delete_groups.DeleteGroupsRequest([NO_GROUP, "never"])),
    ("ElectLeaders", 2, lambda ids: elect_leaders.ElectLeadersRequest(
        0, [elect_leaders.TopicPartitions(TOPIC, [0])], 60_000)),
    ("ListPartitionReassignments", 0,
     lambda ids: list_partition_reassignments.ListPartitionReassignmentsRequest(60_000)),
    ("OffsetDelete", 0, lambda ids: offset_delete.OffsetDeleteRequest(GROUP, [
        offset_delete.OffsetDeleteRequestTopic(name, [offset_delete.OffsetDeleteRequestPartition(0)])
        for name in (NEW, OTHER)
    ])),
    ("DescribeClientQuotas", 1, lambda ids: describe_client_quotas.DescribeClientQuotasRequest([
        describe_client_quotas.ComponentData("user", 0, "nobody at all")
    ], True)),
    ("AlterClientQuotas", 1, lambda ids: alter_client_quotas.AlterClientQuotasRequest([
        alter_client_quotas.EntryData(
            [alter_client_quotas.EntityData("user", "somebody")],
            [alter_client_quotas.OpData("producer_byte_rate", 1000.0)],
        )
    ], True)),
    ("DescribeCluster", 1, lambda ids: describe_cluster.DescribeClusterRequest(True)),
    ("DescribeProducers", 0, lambda ids: describe_producers.DescribeProducersRequest([
        describe_producers.TopicRequest(name, [0]) for name in (TOPIC, OTHER)
    ])),
    ("DescribeTransactions", 0, lambda ids: describe_transactions.DescribeTransactionsRequest([TXN, OTHER_TXN])),
    ("ListTransactions", 1, lambda ids: list_transactions.ListTransactionsRequest()),
    ("ConsumerGroupHeartbeat", 1, lambda ids: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        NO_GROUP, MEMBER, 5, subscribed_topic_names=[TOPIC, OTHER])),
    ("ConsumerGroupHeartbeat of its own", 1, lambda ids: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        NO_GROUP, MEMBER, 5, subscribed_topic_names=[TOPIC])),
    ("ConsumerGroupDescribe", 1, lambda ids: consumer_group_describe.ConsumerGroupDescribeRequest(
        [GROUP, OTHER_GROUP], True)),
    ("ListConfigResources", 1, lambda ids: list_config_resources.ListConfigResourcesRequest([16])),
    ("DescribeTopicPartitions", 0, lambda ids: describe_topic_partitions.DescribeTopicPartitionsRequest([
        describe_topic_partitions.TopicRequest(name) for name in (TOPIC, OTHER, NEW, "nowhere")
    ])),
    ("DescribeTopicPartitions of all", 0, lambda ids: describe_topic_partitions.DescribeTopicPartitionsRequest()),
    *REPEATED,
)  # fmt: skip


async def prepare(connect: Callable[[str], Awaitable[RawClient]]) -> Ids:
    """Topics, offsets and ACLs, by the super user."""
    client = await connect(SUPER)
    made = await client.ask(
        create_topics.CreateTopicsRequest(
            [create_topics.CreatableTopic(TOPIC, 2, 1), create_topics.CreatableTopic(OTHER, 1, 1)], 10_000
        ),
        7,
    )
    assert not any(topic.error_code for topic in made.topics), made
    ids = Ids({topic.name: topic.topic_id for topic in made.topics})
    creations = [
        create_acls.AclCreation(
            grant.resource_type, name, 3, f"User:{principal}", "*", grant.operation, grant.permission
        )
        for principal, grants in PRINCIPALS.items()
        for grant in grants
        for name in NAMES[grant.resource_type]
    ]
    for result in (await client.ask(create_acls.CreateAclsRequest(creations), 3)).results:
        assert not result.error_code, result
    for group in (GROUP, OTHER_GROUP):
        await _until(client, find_coordinator.FindCoordinatorRequest("", 0, [group]), 4)
        request = _offset_commit(None)
        request.group_id = group
        await _until(client, request, 9)
    for transactional_id in (TXN, OTHER_TXN):
        await _until(client, find_coordinator.FindCoordinatorRequest("", 1, [transactional_id]), 4)
        await _until(client, init_producer_id.InitProducerIdRequest(transactional_id, 60_000), 4)
    await _until(client, _metadata((TOPIC, OTHER)), 12)
    await _until(client, _produce((TOPIC, OTHER), None), 12)
    client.close()
    return ids


async def _until(client: RawClient, request: Any, version: int) -> None:
    """Ask until there is no error: a broker makes the coordinators' topics when they are first needed."""
    import asyncio

    for _ in range(200):
        response = await client.ask(request, version)
        if "error_code" not in str(errors_of(response)):
            return
        await asyncio.sleep(0.2)
    raise AssertionError(f"{request} has errors for ever: {response}")


def errors_of(message: Any) -> Any:
    """Fields `error_code` that are not 0, with what is around them."""
    if isinstance(message, list):
        return [found for each in message if (found := errors_of(each))]
    if not dataclasses.is_dataclass(message):
        return None
    found = {}
    for field in dataclasses.fields(message):
        value = getattr(message, field.name)
        if field.name.endswith("error_code"):
            if value:
                found[field.name] = ErrorCode(value).name
        elif inner := errors_of(value):
            found[field.name] = inner
    return found


KEPT = (
    "name", "topic", "topic_name", "group_id", "transactional_id", "key", "resource_type", "resource_name",
    "partition_index", "index", "partition", "partition_id",
)  # fmt: skip
"""Fields that say what an answer is about."""
OPERATION_FIELDS = ("topic_authorized_operations", "cluster_authorized_operations", "authorized_operations")
INTERNAL = ("__consumer_offsets", "__transaction_state")


def outcome(message: Any, ids: Ids) -> Any:
    """What permissions decide in a response."""
    if isinstance(message, list):
        made = [outcome(each, ids) for each in message]
        made = [each for each in made if each not in (None, {})]
        return sorted(made, key=lambda each: str(each)) if made else None
    if not dataclasses.is_dataclass(message) or isinstance(message, type):
        return None
    found: dict[str, Any] = {}
    if getattr(message, "name", None) in INTERNAL:
        return None  # which of them there are by now is another matter
    for field in schema_of(type(message)).fields:
        value = getattr(message, field.name)
        if field.name.endswith("error_code"):
            if value:
                found[field.name] = ErrorCode(value).name
        elif field.name in OPERATION_FIELDS:
            if value != -(2**31):
                found[field.name] = value
        elif field.name == "topic_id":
            name = ids.name(value)
            if name is not None:
                found["topic_id"] = f"of {name}"
        elif field.name in KEPT:
            if value not in (None, ""):
                found[field.name] = value
        elif field.name not in ("brokers", "node_endpoints", "configs", "members", "record_errors", "active_producers"):
            inner = outcome(value, ids)
            if inner:
                found[field.name] = inner
    return found


async def ask_all(
    connect: Callable[[str], Awaitable[RawClient]], ids: Ids, principals: list[str]
) -> dict[str, dict[str, Any]]:
    """Case -> principal -> outcome."""
    found: dict[str, dict[str, Any]] = {}
    for principal in principals:
        client = await connect(principal)
        for name, version, make in CASES:
            try:
                answer = outcome(await client.ask(make(ids), version), ids)
            except ConnectionError:
                answer = "closed"
                client = await connect(principal)
            found.setdefault(f"{name} v{version}", {})[principal] = answer
        client.close()
    return found
