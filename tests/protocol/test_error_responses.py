"""The error response of each API, in all versions, has the error where clients look for it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kafka_wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafka_wire.api.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData
from kafka_wire.api.alter_configs import AlterConfigsRequest, AlterConfigsResource
from kafka_wire.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafka_wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_wire.api.create_acls import AclCreation, CreateAclsRequest
from kafka_wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafka_wire.api.delete_groups import DeleteGroupsRequest
from kafka_wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafka_wire.api.delete_share_group_state import DeleteShareGroupStateRequest, DeleteStateData
from kafka_wire.api.delete_share_group_state import PartitionData as DeletePartition
from kafka_wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafka_wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_wire.api.describe_groups import DescribeGroupsRequest
from kafka_wire.api.describe_producers import DescribeProducersRequest
from kafka_wire.api.describe_producers import TopicRequest as ProducersRequest
from kafka_wire.api.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kafka_wire.api.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from kafka_wire.api.describe_transactions import DescribeTransactionsRequest
from kafka_wire.api.elect_leaders import ElectLeadersRequest, TopicPartitions
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.incremental_alter_configs import AlterConfigsResource as IncrementalResource
from kafka_wire.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafka_wire.api.initialize_share_group_state import InitializeShareGroupStateRequest, InitializeStateData
from kafka_wire.api.initialize_share_group_state import PartitionData as InitializePartition
from kafka_wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kafka_wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kafka_wire.api.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafka_wire.api.produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from kafka_wire.api.read_share_group_state import PartitionData as ReadPartition
from kafka_wire.api.read_share_group_state import ReadShareGroupStateRequest, ReadStateData
from kafka_wire.api.read_share_group_state_summary import PartitionData as SummaryPartition
from kafka_wire.api.read_share_group_state_summary import ReadShareGroupStateSummaryRequest, ReadStateSummaryData
from kafka_wire.api.share_group_describe import ShareGroupDescribeRequest
from kafka_wire.api.streams_group_describe import StreamsGroupDescribeRequest
from kafka_wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafka_wire.api.write_share_group_state import PartitionData as WritePartition
from kafka_wire.api.write_share_group_state import WriteShareGroupStateRequest, WriteStateData
from kafka_wire.api.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from kafka_wire.registry import codec, error_response, messages, versions_of

ERROR = ErrorCode.REQUEST_TIMED_OUT
T = bytes(15) + b"\7"
SERVER_ERROR = "The server experienced an unexpected error when processing the request."

REQUESTS: dict[type[Any], Any] = {
    AlterClientQuotasRequest: AlterClientQuotasRequest([EntryData([EntityData("user", "u")])]),
    AlterConfigsRequest: AlterConfigsRequest([AlterConfigsResource(2, "t")]),
    AlterUserScramCredentialsRequest: AlterUserScramCredentialsRequest(
        [ScramCredentialDeletion("b"), ScramCredentialDeletion("a")], [ScramCredentialUpsertion("b")]
    ),
    CreateAclsRequest: CreateAclsRequest([AclCreation(2, "t")]),
    CreatePartitionsRequest: CreatePartitionsRequest([CreatePartitionsTopic("t", 2)]),
    DeleteAclsRequest: DeleteAclsRequest([DeleteAclsFilter(2, "t")]),
    DeleteRecordsRequest: DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 1)])]),
    DescribeConfigsRequest: DescribeConfigsRequest([DescribeConfigsResource(2, "t")]),
    DescribeProducersRequest: DescribeProducersRequest([ProducersRequest("t", [0])]),
    DescribeTopicPartitionsRequest: DescribeTopicPartitionsRequest([TopicRequest("t")]),
    ElectLeadersRequest: ElectLeadersRequest(0, [TopicPartitions("t", [0])]),
    IncrementalAlterConfigsRequest: IncrementalAlterConfigsRequest([IncrementalResource(2, "t")]),
    OffsetForLeaderEpochRequest: OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic("t", [OffsetForLeaderPartition(0)])]
    ),
    AddPartitionsToTxnRequest: AddPartitionsToTxnRequest(v3_and_below_topics=[AddPartitionsToTxnTopic("t", [0])]),
    ConsumerGroupDescribeRequest: ConsumerGroupDescribeRequest(["g"]),
    CreateTopicsRequest: CreateTopicsRequest([CreatableTopic("t", 1, 1)]),
    DeleteGroupsRequest: DeleteGroupsRequest(["g"]),
    DeleteTopicsRequest: DeleteTopicsRequest([DeleteTopicState("t")], ["t"]),
    DescribeGroupsRequest: DescribeGroupsRequest(["g"]),
    DescribeTransactionsRequest: DescribeTransactionsRequest(["i"]),
    FetchRequest: FetchRequest(topics=[FetchTopic("t", T, [FetchPartition(0)])]),
    FindCoordinatorRequest: FindCoordinatorRequest("g", 0, ["g"]),
    ListOffsetsRequest: ListOffsetsRequest(topics=[ListOffsetsTopic("t", [ListOffsetsPartition(0)])]),
    MetadataRequest: MetadataRequest([MetadataRequestTopic(T, "t")]),
    OffsetCommitRequest: OffsetCommitRequest(
        "g", topics=[OffsetCommitRequestTopic("t", T, [OffsetCommitRequestPartition(0, 1, committed_metadata="")])]
    ),
    OffsetFetchRequest: OffsetFetchRequest(
        "g",
        [OffsetFetchRequestTopic("t", [0])],
        [OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", T, [0])])],
    ),
    ProduceRequest: ProduceRequest(None, -1, 1, [TopicProduceData("t", T, [PartitionProduceData(0, b"")])]),
    TxnOffsetCommitRequest: TxnOffsetCommitRequest(
        topics=[
            TxnOffsetCommitRequestTopic("t", partitions=[TxnOffsetCommitRequestPartition(0, 1, committed_metadata="")])
        ]
    ),
    DeleteShareGroupStateRequest: DeleteShareGroupStateRequest("g", [DeleteStateData(T, [DeletePartition(0)])]),
    DescribeShareGroupOffsetsRequest: DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup("g")]),
    InitializeShareGroupStateRequest: InitializeShareGroupStateRequest(
        "g", [InitializeStateData(T, [InitializePartition(0)])]
    ),
    ReadShareGroupStateRequest: ReadShareGroupStateRequest("g", [ReadStateData(T, [ReadPartition(0)])]),
    ReadShareGroupStateSummaryRequest: ReadShareGroupStateSummaryRequest(
        "g", [ReadStateSummaryData(T, [SummaryPartition(0)])]
    ),
    ShareGroupDescribeRequest: ShareGroupDescribeRequest(["g"]),
    StreamsGroupDescribeRequest: StreamsGroupDescribeRequest(["g"]),
    WriteShareGroupStateRequest: WriteShareGroupStateRequest("g", [WriteStateData(T, [WritePartition(0)])]),
    WriteTxnMarkersRequest: WriteTxnMarkersRequest([WritableTxnMarker(1, 0, True, [WritableTxnMarkerTopic("t", [0])])]),
}
"""Requests that name something, where the error is told of each thing that is named."""


def error_codes(message: Any) -> set[int]:
    """All error codes of a message."""
    found = set()
    for field in dataclasses.fields(message):
        value = getattr(message, field.name)
        if field.name.endswith("error_code"):
            found.add(value)
        for each in value if isinstance(value, list) else [value]:
            if dataclasses.is_dataclass(each):
                found |= error_codes(each)
    return found


@pytest.mark.parametrize("key", ApiKey, ids=lambda key: key.title)
def test_the_error_is_in_the_response(key: ApiKey) -> None:
    kind = messages(key)[0]
    for version in versions_of(key):
        if key is ApiKey.DESCRIBE_LOG_DIRS and version < 3:
            continue  # has no error for the whole request
        used = codec(key, version)
        out = bytearray()
        used.encode_request(REQUESTS.get(kind, kind()), out)
        request = used.decode_request(bytes(out), 0, len(out))
        response = bytearray()
        used.encode_response(error_response(request, version, ERROR), response)
        assert ERROR in error_codes(used.decode_response(bytes(response), 0, len(response))), f"version {version}"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (
            ApiKey.PRODUCE,
            PartitionProduceResponse(0, ERROR, base_offset=-1, log_append_time_ms=-1, log_start_offset=-1),
        ),
        (
            ApiKey.FETCH,
            PartitionData(0, ERROR, high_watermark=-1, last_stable_offset=-1, log_start_offset=-1, records=b""),
        ),
        (ApiKey.LIST_OFFSETS, ListOffsetsPartitionResponse(0, ERROR, timestamp=-1, offset=-1, leader_epoch=-1)),
    ],
    ids=lambda each: each.title if isinstance(each, ApiKey) else "",
)
def test_offsets_beside_an_error_are_invalid(key: ApiKey, expected: Any) -> None:
    """INVALID_OFFSET and INVALID_HIGH_WATERMARK of `getErrorResponse` in Kafka's classes of these requests."""
    request = REQUESTS[messages(key)[0]]
    response = error_response(request, versions_of(key).last, ERROR)
    [topic] = response.topics if key is ApiKey.LIST_OFFSETS else response.responses
    [partition] = topic.partition_responses if key is ApiKey.PRODUCE else topic.partitions
    assert partition == expected


@pytest.mark.parametrize("version", versions_of(ApiKey.FIND_COORDINATOR))
def test_no_node_is_beside_an_error(version: int) -> None:
    response = error_response(REQUESTS[FindCoordinatorRequest], version, ERROR)
    found = response.coordinators[0] if version >= 4 else response
    assert (found.error_code, found.node_id, found.host, found.port) == (ERROR, -1, "", -1)


def test_a_partition_that_is_produced_to_twice_is_in_the_response_once() -> None:
    """ProduceRequest.getErrorResponse has a map of partitions."""
    twice = [PartitionProduceData(1, b""), PartitionProduceData(0, b""), PartitionProduceData(1, b"")]
    response = error_response(ProduceRequest(None, -1, 1, [TopicProduceData("t", T, twice)] * 2), 13, ERROR)
    assert [(topic.name, [each.index for each in topic.partition_responses]) for topic in response.responses] == [
        ("t", [1, 0])
    ]


def test_each_user_is_in_the_response_once() -> None:
    response = error_response(REQUESTS[AlterUserScramCredentialsRequest], 0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert [(each.user, each.error_message) for each in response.results] == [
        ("a", "Cluster authorization failed."),
        ("b", "Cluster authorization failed."),
    ]


@pytest.mark.parametrize(
    ("code", "of_topics", "of_partitions"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.", None),
        (ErrorCode.UNKNOWN_SERVER_ERROR, SERVER_ERROR, SERVER_ERROR),
        (ERROR, "REQUEST_TIMED_OUT", "REQUEST_TIMED_OUT"),
    ],
)
def test_the_controllers_texts(code: ErrorCode, of_topics: str, of_partitions: str | None) -> None:
    [topic] = error_response(REQUESTS[CreateTopicsRequest], 7, code).topics
    assert (topic.name, topic.error_message) == ("t", of_topics)
    [result] = error_response(REQUESTS[CreatePartitionsRequest], 3, code).results
    assert (result.name, result.error_message) == ("t", of_partitions)


def test_a_fetch_that_names_no_partition_fails_as_a_whole() -> None:
    assert error_response(FetchRequest(session_id=1), 12, ERROR) == FetchResponse(error_code=ERROR)


def test_topics_by_id_have_no_name() -> None:
    request = MetadataRequest([MetadataRequestTopic(T, None)])
    assert [error_response(request, version, ERROR).topics[0].name for version in (11, 12)] == ["", None]


def test_an_error_of_the_group_has_no_topics() -> None:
    request = OffsetDeleteRequest("g", [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(0)])])
    assert error_response(request, 0, ERROR) == OffsetDeleteResponse(error_code=ERROR)
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    partitions = [OffsetDeleteResponsePartition(0, denied)]
    assert error_response(request, 0, denied) == OffsetDeleteResponse(
        topics=[OffsetDeleteResponseTopic("t", partitions)]
    )
