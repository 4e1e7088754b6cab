"""`fail` answers each API that it says it can, in all versions, with the error where clients look for it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from coordinatord.coordination.runtime.error_answers import ANSWERS, answer
from coordinatord.coordination.runtime.error_response_table import REFUSALS
from coordinatord.server.control.problems import ControlError, check_answerable
from kafka_wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafka_wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.delete_groups import DeleteGroupsRequest
from kafka_wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafka_wire.api.describe_groups import DescribeGroupsRequest
from kafka_wire.api.describe_transactions import DescribeTransactionsRequest
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kafka_wire.api.produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from kafka_wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafka_wire.api.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from kafka_wire.registry import codec, messages, versions_of

ERROR = ErrorCode.REQUEST_TIMED_OUT
T = bytes(15) + b"\7"

REQUESTS: dict[type[Any], Any] = {
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
    WriteTxnMarkersRequest: WriteTxnMarkersRequest([WritableTxnMarker(1, 0, True, [WritableTxnMarkerTopic("t", [0])])]),
}
"""Requests that name something, where the error is told of each thing that is named."""

ABLE = [key for key in ApiKey if key in ANSWERS or messages(key)[0] in REFUSALS]


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


@pytest.mark.parametrize("key", ABLE, ids=lambda key: key.title)
def test_the_error_is_in_the_answer(key: ApiKey) -> None:
    check_answerable(key)
    kind = messages(key)[0]
    for version in versions_of(key):
        used = codec(key, version)
        out = bytearray()
        used.encode_request(REQUESTS.get(kind, kind()), out)
        request = used.decode_request(bytes(out), 0, len(out))
        response = bytearray()
        used.encode_response(answer(used, request, ERROR), response)
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
    response = answer(codec(key, versions_of(key).last), request, ERROR)
    [topic] = response.topics if key is ApiKey.LIST_OFFSETS else response.responses
    [partition] = topic.partition_responses if key is ApiKey.PRODUCE else topic.partitions
    assert partition == expected


@pytest.mark.parametrize("version", versions_of(ApiKey.FIND_COORDINATOR))
def test_no_node_is_beside_an_error(version: int) -> None:
    used = codec(ApiKey.FIND_COORDINATOR, version)
    response = answer(used, REQUESTS[FindCoordinatorRequest], ERROR)
    found = response.coordinators[0] if version >= 4 else response
    assert (found.error_code, found.node_id, found.host, found.port) == (ERROR, -1, "", -1)


def test_a_producer_that_wants_no_answer_gets_none() -> None:
    assert answer(codec(ApiKey.PRODUCE, 9), ProduceRequest(None, 0, 1, []), ERROR) is None


def test_others_cannot_be_answered() -> None:
    with pytest.raises(ControlError, match="fail cannot answer DescribeConfigs; it can answer AddOffsetsToTxn, "):
        check_answerable(ApiKey.DESCRIBE_CONFIGS)
