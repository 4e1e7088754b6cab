"""The error response of each API of the group and transaction families for a whole request (error_responses.py).

Equivalent to `getErrorResponse` of Kafka's request classes: some responses
have one error code, others one per partition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinatord.coordination.group.offsets.commit_answers import commit_error
from coordinatord.coordination.group.offsets.transactional import txn_commit_error
from coordinatord.coordination.runtime.versions import fetch_error, fetch_groups, fetch_response, for_version
from kafka_wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kafka_wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kafka_wire.api.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kafka_wire.api.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kafka_wire.api.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kafka_wire.api.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from kafka_wire.api.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from kafka_wire.api.end_txn import EndTxnRequest, EndTxnResponse
from kafka_wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_wire.api.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafka_wire.api.list_groups import ListGroupsRequest, ListGroupsResponse
from kafka_wire.api.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kafka_wire.api.offset_commit import OffsetCommitRequest
from kafka_wire.api.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kafka_wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from kafka_wire.api.txn_offset_commit import TxnOffsetCommitRequest
from kafka_wire.api.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafka_wire.errors import ErrorCode

ELSEWHERE = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""Errors that make clients look up the coordinator again."""


def _join(request: JoinGroupRequest, version: int, error: ErrorCode) -> JoinGroupResponse:
    response = JoinGroupResponse(error_code=error, member_id=request.member_id)
    return for_version(response, version)  # type: ignore[no-any-return]


def _fetch(request: OffsetFetchRequest, version: int, error: ErrorCode) -> OffsetFetchResponse:
    return fetch_response([fetch_error(group, error, version) for group in fetch_groups(request, version)], version)


def _describe(request: DescribeGroupsRequest, version: int, error: ErrorCode) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[DescribedGroup(error_code=error, group_id=g) for g in request.groups])


def _describe_consumers(
    request: ConsumerGroupDescribeRequest, version: int, error: ErrorCode
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=[DescribedConsumerGroup(error_code=error, group_id=g) for g in request.group_ids]
    )


def _delete(request: DeleteGroupsRequest, version: int, error: ErrorCode) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[DeletableGroupResult(g, error) for g in request.groups_names])


def _add_partitions(request: AddPartitionsToTxnRequest, version: int, error: ErrorCode) -> AddPartitionsToTxnResponse:
    if version >= 4:
        return AddPartitionsToTxnResponse(error_code=error)
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                topic.name, [AddPartitionsToTxnPartitionResult(each, error) for each in topic.partitions]
            )
            for topic in request.v3_and_below_topics
        ]
    )


def _init_producer_id(request: InitProducerIdRequest, version: int, error: ErrorCode) -> InitProducerIdResponse:
    """Return the error response. Without a transactional id there is no coordinator that a client could look up:
    kafka-python would look it up for ever. Kafka, too, returns COORDINATOR_LOAD_IN_PROGRESS (RPCProducerIdManager).
    """
    if request.transactional_id is None and error in ELSEWHERE:
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return InitProducerIdResponse(0, error, -1, -1)


def _markers(request: WriteTxnMarkersRequest, version: int, error: ErrorCode) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                marker.producer_id,
                [
                    WritableTxnMarkerTopicResult(
                        topic.name, [WritableTxnMarkerPartitionResult(each, error) for each in topic.partition_indexes]
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _describe_transactions(
    request: DescribeTransactionsRequest, version: int, error: ErrorCode
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[TransactionState(error_code=error, transactional_id=i) for i in request.transactional_ids]
    )


REFUSALS: dict[type[Any], Callable[[Any, int, ErrorCode], Any]] = {
    JoinGroupRequest: _join,
    SyncGroupRequest: lambda request, version, error: SyncGroupResponse(error_code=error),
    HeartbeatRequest: lambda request, version, error: HeartbeatResponse(error_code=error),
    LeaveGroupRequest: lambda request, version, error: LeaveGroupResponse(error_code=error),
    ConsumerGroupHeartbeatRequest: lambda request, version, error: ConsumerGroupHeartbeatResponse(error_code=error),
    ConsumerGroupDescribeRequest: _describe_consumers,
    OffsetCommitRequest: lambda request, version, error: commit_error(request, error),
    OffsetFetchRequest: _fetch,
    OffsetDeleteRequest: lambda request, version, error: OffsetDeleteResponse(error_code=error),
    DescribeGroupsRequest: _describe,
    ListGroupsRequest: lambda request, version, error: ListGroupsResponse(error_code=error),
    DeleteGroupsRequest: _delete,
    InitProducerIdRequest: _init_producer_id,
    AddPartitionsToTxnRequest: _add_partitions,
    AddOffsetsToTxnRequest: lambda request, version, error: AddOffsetsToTxnResponse(error_code=error),
    EndTxnRequest: lambda request, version, error: EndTxnResponse(error_code=error),
    TxnOffsetCommitRequest: lambda request, version, error: txn_commit_error(request, error),
    WriteTxnMarkersRequest: _markers,
    DescribeTransactionsRequest: _describe_transactions,
    ListTransactionsRequest: lambda request, version, error: ListTransactionsResponse(error_code=error),
}
"""Functions (request, version, error) -> response, by class of the request."""
