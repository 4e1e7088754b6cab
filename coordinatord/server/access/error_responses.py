"""Error responses to whole requests, for APIs that coordination/runtime/error_responses.py does not contain.

The responses follow `getErrorResponse` of Kafka's request classes, or the responses of KafkaApis and ControllerApis for
topics and resources that a client may not use. The messages are Kafka's.
"""

from __future__ import annotations

from typing import Any

from coordinatord.broker.topics.produce_responses import refuse_all
from coordinatord.coordination.runtime.error_response_table import REFUSALS
from kafka_wire.api import (
    alter_client_quotas,
    alter_configs,
    alter_user_scram_credentials,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_user_scram_credentials,
    elect_leaders,
    find_coordinator,
    incremental_alter_configs,
    list_config_resources,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_delete,
    offset_for_leader_epoch,
    produce,
)
from kafka_wire.errors import ErrorCode
from kafka_wire.schema import ZERO_UUID

MESSAGES = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "The server experienced an unexpected error when processing the request.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: "The throttling quota has been exceeded.",
}
"""Kafka's texts of these errors (Errors.message)."""


def refusal(request: Any, version: int, error: ErrorCode) -> Any:
    """Return the response to `request` in `version` that carries `error` for all of it."""
    make = _MORE.get(type(request)) or REFUSALS[type(request)]
    return make(request, version, error)


def _of_topic(error: ErrorCode, unauthorized: str | None) -> str | None:
    """Return the controller's message: `unauthorized` for TOPIC_AUTHORIZATION_FAILED."""
    return unauthorized if error is ErrorCode.TOPIC_AUTHORIZATION_FAILED else MESSAGES[error]


def _list_offsets(request: list_offsets.ListOffsetsRequest, _version: int, error: ErrorCode) -> Any:
    return list_offsets.ListOffsetsResponse(
        topics=[
            list_offsets.ListOffsetsTopicResponse(
                topic.name,
                [list_offsets.ListOffsetsPartitionResponse(each.partition_index, error) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _epochs(request: offset_for_leader_epoch.OffsetForLeaderEpochRequest, _version: int, error: ErrorCode) -> Any:
    return offset_for_leader_epoch.OffsetForLeaderEpochResponse(
        topics=[
            offset_for_leader_epoch.OffsetForLeaderTopicResult(
                topic.topic,
                [offset_for_leader_epoch.EpochEndOffset(error, each.partition) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _delete_records(request: delete_records.DeleteRecordsRequest, _version: int, error: ErrorCode) -> Any:
    return delete_records.DeleteRecordsResponse(
        topics=[
            delete_records.DeleteRecordsTopicResult(
                topic.name,
                [
                    delete_records.DeleteRecordsPartitionResult(each.partition_index, -1, error)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _create_topics(request: create_topics.CreateTopicsRequest, _version: int, error: ErrorCode) -> Any:
    return create_topics.CreateTopicsResponse(
        topics=[
            create_topics.CreatableTopicResult(
                each.name, ZERO_UUID, error, _of_topic(error, "Authorization failed."), configs=[]
            )
            for each in request.topics
        ]
    )


def _delete_topics(request: delete_topics.DeleteTopicsRequest, version: int, error: ErrorCode) -> Any:
    asked = request.topics if version >= 6 else [delete_topics.DeleteTopicState(name) for name in request.topic_names]
    message = MESSAGES[error]
    return delete_topics.DeleteTopicsResponse(
        responses=[delete_topics.DeletableTopicResult(each.name, each.topic_id, error, message) for each in asked]
    )


def _create_partitions(request: create_partitions.CreatePartitionsRequest, _version: int, error: ErrorCode) -> Any:
    return create_partitions.CreatePartitionsResponse(
        results=[
            create_partitions.CreatePartitionsTopicResult(each.name, error, _of_topic(error, None))
            for each in request.topics
        ]
    )


def _describe_configs(request: describe_configs.DescribeConfigsRequest, _version: int, error: ErrorCode) -> Any:
    return describe_configs.DescribeConfigsResponse(
        results=[
            describe_configs.DescribeConfigsResult(error, MESSAGES[error], each.resource_type, each.resource_name)
            for each in request.resources
        ]
    )


def _alter_configs(request: alter_configs.AlterConfigsRequest, _version: int, error: ErrorCode) -> Any:
    return alter_configs.AlterConfigsResponse(
        responses=[
            alter_configs.AlterConfigsResourceResponse(error, MESSAGES[error], each.resource_type, each.resource_name)
            for each in request.resources
        ]
    )


def _alter_some(
    request: incremental_alter_configs.IncrementalAlterConfigsRequest, _version: int, error: ErrorCode
) -> Any:
    return incremental_alter_configs.IncrementalAlterConfigsResponse(
        responses=[
            incremental_alter_configs.AlterConfigsResourceResponse(
                error, MESSAGES[error], each.resource_type, each.resource_name
            )
            for each in request.resources
        ]
    )


def _elect(request: elect_leaders.ElectLeadersRequest, _version: int, error: ErrorCode) -> Any:
    message = MESSAGES[error]
    return elect_leaders.ElectLeadersResponse(
        error_code=error,
        replica_election_results=[
            elect_leaders.ReplicaElectionResult(
                topic.topic, [elect_leaders.PartitionResult(each, error, message) for each in topic.partitions]
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _producers(request: describe_producers.DescribeProducersRequest, _version: int, error: ErrorCode) -> Any:
    return describe_producers.DescribeProducersResponse(
        topics=[
            describe_producers.TopicResponse(
                topic.name,
                [
                    describe_producers.PartitionResponse(each, error, MESSAGES[error])
                    for each in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _metadata(request: metadata.MetadataRequest, _version: int, error: ErrorCode) -> Any:
    return metadata.MetadataResponse(
        topics=[metadata.MetadataResponseTopic(error, each.name, each.topic_id) for each in request.topics or ()]
    )


def _topic_partitions(
    request: describe_topic_partitions.DescribeTopicPartitionsRequest, _version: int, error: ErrorCode
) -> Any:
    return describe_topic_partitions.DescribeTopicPartitionsResponse(
        topics=[
            describe_topic_partitions.DescribeTopicPartitionsResponseTopic(error, each.name) for each in request.topics
        ]
    )


def _find(request: find_coordinator.FindCoordinatorRequest, version: int, error: ErrorCode) -> Any:
    if version < 4:
        return find_coordinator.FindCoordinatorResponse(
            error_code=error, error_message=MESSAGES[error], node_id=-1, host="", port=-1
        )
    return find_coordinator.FindCoordinatorResponse(
        coordinators=[
            find_coordinator.Coordinator(key, -1, "", -1, error, MESSAGES[error]) for key in request.coordinator_keys
        ]
    )


_MORE: dict[type[Any], Any] = {
    produce.ProduceRequest: lambda request, version, error: refuse_all(request, error),
    list_offsets.ListOffsetsRequest: _list_offsets,
    metadata.MetadataRequest: _metadata,
    find_coordinator.FindCoordinatorRequest: _find,
    create_topics.CreateTopicsRequest: _create_topics,
    delete_topics.DeleteTopicsRequest: _delete_topics,
    delete_records.DeleteRecordsRequest: _delete_records,
    offset_for_leader_epoch.OffsetForLeaderEpochRequest: _epochs,
    describe_configs.DescribeConfigsRequest: _describe_configs,
    alter_configs.AlterConfigsRequest: _alter_configs,
    incremental_alter_configs.IncrementalAlterConfigsRequest: _alter_some,
    describe_log_dirs.DescribeLogDirsRequest: (
        lambda request, version, error: describe_log_dirs.DescribeLogDirsResponse(error_code=error)
    ),
    create_partitions.CreatePartitionsRequest: _create_partitions,
    elect_leaders.ElectLeadersRequest: _elect,
    list_partition_reassignments.ListPartitionReassignmentsRequest: (
        lambda request, version, error: list_partition_reassignments.ListPartitionReassignmentsResponse(
            error_code=error, error_message=MESSAGES[error]
        )
    ),
    offset_delete.OffsetDeleteRequest: (
        lambda request, version, error: offset_delete.OffsetDeleteResponse(
            error_code=0 if error is ErrorCode.TOPIC_AUTHORIZATION_FAILED else error,
            topics=[
                offset_delete.OffsetDeleteResponseTopic(
                    topic.name,
                    [
                        offset_delete.OffsetDeleteResponsePartition(each.partition_index, error)
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
            if error is ErrorCode.TOPIC_AUTHORIZATION_FAILED
            else [],
        )
    ),
    describe_producers.DescribeProducersRequest: _producers,
    list_config_resources.ListConfigResourcesRequest: (
        lambda request, version, error: list_config_resources.ListConfigResourcesResponse(error_code=error)
    ),
    describe_acls.DescribeAclsRequest: (
        lambda request, version, error: describe_acls.DescribeAclsResponse(
            error_code=error, error_message=MESSAGES[error]
        )
    ),
    create_acls.CreateAclsRequest: lambda request, version, error: create_acls.CreateAclsResponse(
        results=[create_acls.AclCreationResult(error, MESSAGES[error]) for _ in request.creations]
    ),
    delete_acls.DeleteAclsRequest: lambda request, version, error: delete_acls.DeleteAclsResponse(
        filter_results=[delete_acls.DeleteAclsFilterResult(error, MESSAGES[error]) for _ in request.filters]
    ),
    describe_client_quotas.DescribeClientQuotasRequest: (
        lambda request, version, error: describe_client_quotas.DescribeClientQuotasResponse(
            error_code=error, error_message=MESSAGES[error], entries=None
        )
    ),
    alter_client_quotas.AlterClientQuotasRequest: (
        lambda request, version, error: alter_client_quotas.AlterClientQuotasResponse(
            entries=[alter_client_quotas.EntryResult(error, MESSAGES[error], each.entity) for each in request.entries]
        )
    ),
    describe_user_scram_credentials.DescribeUserScramCredentialsRequest: (
        lambda request, version, error: describe_user_scram_credentials.DescribeUserScramCredentialsResponse(
            error_code=error, error_message=MESSAGES[error]
        )
    ),
    alter_user_scram_credentials.AlterUserScramCredentialsRequest: (
        lambda request, version, error: alter_user_scram_credentials.AlterUserScramCredentialsResponse(
            results=[
                alter_user_scram_credentials.AlterUserScramCredentialsResult(name, error, MESSAGES[error])
                for name in sorted({each.name for each in (*request.deletions, *request.upsertions)})
            ]
        )
    ),
    describe_topic_partitions.DescribeTopicPartitionsRequest: _topic_partitions,
}
"""Functions (request, version, error) -> response, by class of the request."""
