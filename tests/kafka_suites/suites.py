"""Which classes are run, what of Kafka's jars is left out, and why answers differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_CLIENTS, _CORE, _TOOLS = "org.apache.kafka.clients", "kafka", "org.apache.kafka.tools"


def _named(package: str, names: str) -> tuple[str, ...]:
    return tuple(f"{package}.{name}" for name in names.split())


SUITES: Mapping[str, tuple[str, ...]] = {
    "kafka_2.13": (
        *_named(
            f"{_CORE}.server",
            "HeartbeatRequestTest JoinGroupRequestTest SyncGroupRequestTest LeaveGroupRequestTest "
            "OffsetCommitRequestTest OffsetFetchRequestTest OffsetDeleteRequestTest DeleteGroupsRequestTest "
            "DescribeGroupsRequestTest ListGroupsRequestTest ConsumerGroupHeartbeatRequestTest "
            "ConsumerGroupDescribeRequestTest ConsumerProtocolMigrationTest TxnOffsetCommitRequestTest "
            "WriteTxnMarkersRequestTest ApiVersionsRequestTest SaslApiVersionsRequestTest "
            "ShareGroupHeartbeatRequestTest ShareGroupDescribeRequestTest ShareFetchAcknowledgeRequestTest",
        ),
        *_named(f"{_CORE}.api", "GroupCoordinatorIntegrationTest"),
    ),
    "kafka-tools": (
        *_named(
            _TOOLS,
            "GroupsCommandTest TopicCommandTest ConfigCommandIntegrationTest GetOffsetShellTest "
            "DeleteRecordsCommandTest AclCommandTest UserScramCredentialsCommandTest BrokerApiVersionsCommandTest",
        ),
        *_named(
            f"{_TOOLS}.consumer.group",
            "ListConsumerGroupTest DescribeConsumerGroupTest DeleteConsumerGroupsTest ResetConsumerGroupOffsetTest "
            "DeleteOffsetsConsumerGroupCommandIntegrationTest",
        ),
        *_named(f"{_TOOLS}.consumer", "ConsoleConsumerTest"),
    ),
    "kafka-clients-integration-tests": (
        *_named(
            f"{_CLIENTS}.consumer",
            "PlaintextConsumerTest PlaintextConsumerPollTest PlaintextConsumerSubscriptionTest "
            "PlaintextConsumerAssignTest PlaintextConsumerFetchTest PlaintextConsumerCommitTest "
            "PlaintextConsumerCallbackTest PlaintextConsumerCloseTest ConsumerTopicCreationTest "
            "ConsumerIntegrationTest ConsumerBounceTest SaslPlainPlaintextConsumerTest "
            "ConsumerWithLegacyMessageFormatIntegrationTest",
        ),
        *_named(
            f"{_CLIENTS}.producer",
            "ProducerCompressionTest ProducerIntegrationTest ProducerFailureHandlingTest ProducerIdExpirationTest "
            "ProducerSendWhileDeletionTest",
        ),
        *_named(_CLIENTS, "TransactionsExpirationTest TransactionsWithMaxInFlightOneTest ClientRebootstrapTest"),
        *_named(
            f"{_CLIENTS}.admin",
            "AdminFenceProducersTest AutoTopicCreationTest ConcurrentListOffsetsRequestTest DeleteTopicTest "
            "DescribeAuthorizedOperationsTest DescribeFeaturesTest DescribeProducersWithBrokerIdTest "
            "DynamicGroupConfigIntegrationTest ListOffsetsIntegrationTest StaticBrokerConfigTest",
        ),
        *_named(f"{_CLIENTS}.security", "GroupAuthorizerIntegrationTest"),
    ),
    # Applications on the classic protocol, most of them with one broker.
    "kafka-streams-integration-tests": _named(
        "org.apache.kafka.streams.integration",
        "AdjustStreamThreadCountTest AtLeastOnceDeliveryMessageLossIntegrationTest EmitOnChangeIntegrationTest "
        "EosIntegrationTest FineGrainedAutoResetIntegrationTest GlobalKTableEOSIntegrationTest "
        "GlobalKTableIntegrationTest GlobalStateReprocessTest GlobalThreadShutDownOrderTest "
        "HandlingSourceTopicDeletionIntegrationTest JoinStoreIntegrationTest KStreamAggregationDedupIntegrationTest "
        "KStreamAggregationIntegrationTest KStreamKStreamIntegrationTest "
        "KTableKTableForeignKeyInnerJoinMultiIntegrationTest KTableKTableForeignKeyJoinDistributedTest "
        "KTableSourceTopicRestartIntegrationTest KafkaStreamsCloseOptionsIntegrationTest LagFetchIntegrationTest "
        "OptimizedKTableIntegrationTest PauseResumeIntegrationTest PurgeRepartitionTopicIntegrationTest "
        "RebalanceIntegrationTest RegexSourceIntegrationTest ResetPartitionTimeIntegrationTest "
        "SelfJoinUpgradeIntegrationTest SlidingWindowedKStreamIntegrationTest "
        "StreamTableJoinTopologyOptimizationIntegrationTest SuppressionIntegrationTest "
        "SwallowUnknownTopicErrorIntegrationTest TaskAssignorIntegrationTest TaskMetadataIntegrationTest "
        "TimeWindowedKStreamIntegrationTest",
    ),
}


def classes() -> Iterator[str]:
    """Yield the names of all classes."""
    for names in SUITES.values():
        yield from names


QUICK = (
    *_named(
        "kafka.server",
        "HeartbeatRequestTest JoinGroupRequestTest SyncGroupRequestTest LeaveGroupRequestTest OffsetCommitRequestTest "
        "OffsetFetchRequestTest OffsetDeleteRequestTest DeleteGroupsRequestTest DescribeGroupsRequestTest",
    ),
    *_named(f"{_CLIENTS}.admin", "AdminFenceProducersTest DescribeAuthorizedOperationsTest"),
    *_named(f"{_CLIENTS}.producer", "ProducerIntegrationTest"),
)
"""The classes that the full run plays on coordinatord."""

REASONS: Mapping[str, str] = {
    "OffsetFetchRequestTest.testGroupErrors": "it wants NOT_COORDINATOR before `__consumer_offsets` exists; here its "
    "request creates the topic and is answered",
    "ListGroupsRequestTest.testListGroupsWithNewConsumerGroupProtocol": "it expects groups in the order of Kafka's "
    "hash table; here it is that of their creation",
    "ConsumerGroupDescribeRequestTest.testConsumerGroupDescribeWithNewGroupCoordinator": "it expects members in the "
    "order of Kafka's hash table; here it is that of joining",
    "ApiVersionsRequestTest": "it counts the features and APIs of a whole broker; those that are not served are not "
    "advertised",
    "GroupCoordinatorIntegrationTest": "streams groups (KIP-1071) are not served",
    "GroupCoordinatorIntegrationTest.testRecreatingConsumerOffsetsTopic": "it deletes `__consumer_offsets`, which is "
    "refused",
    "TopicCommandTest.testDeleteInternalTopic": "it deletes `__consumer_offsets`, which is refused",
    "StaticBrokerConfigTest.testInternalConfigsDoNotReturnForCreateTopics": "topics have the settings of Kafka 4.4, "
    "which the test's Kafka 4.3 does not know",
    "GroupsCommandTest.testGroupCommand": "it lists a streams group, too; streams groups (KIP-1071) are not served",
    "ConfigCommandIntegrationTest": "it wants Kafka 4.3's text for a value out of range; here it is Kafka 4.4's",
    "ProducerFailureHandlingTest.testCannotSendToInternalTopic": "it asks for `__consumer_offsets` and waits until the "
    "topic is away: it passes if it looks before the topic is there, which is sooner here",
    "HandlingSourceTopicDeletionIntegrationTest": "one of its runs is a streams group (KIP-1071), which is not served",
}
"""Why tests that pass on Kafka do not here: by class and method, or by class."""

_BROKERS = "needs several brokers"
_UNRELEASED = "needs API versions that Kafka has not released"
NOT_APPLICABLE: Mapping[str, str] = {
    **dict.fromkeys(
        _named(
            "TopicCommandTest",
            "testAlterAssignment testAlterAssignmentWithMoreAssignmentThanPartitions "
            "testAlterAssignmentWithMorePartitionsThanAssignment testAlterPartitionCount "
            "testCreateAlterTopicWithRackAware testCreateWithConfigs testCreateWithDefaultPartitions "
            "testCreateWithReplicaAssignment testCreateWithTopicNameCollision testDescribe "
            "testDescribeAtMinIsrPartitions testDescribeReportOverriddenConfigs testDescribeUnavailablePartitions "
            "testDescribeUnderMinIsrPartitions testDescribeUnderMinIsrPartitionsMixed "
            "testDescribeUnderReplicatedPartitions testDescribeUnderReplicatedPartitionsWhenReassignmentIsInProgress "
            "testDescribeWithDescribeTopicPartitionsApi testListTopicsWithExcludeInternal "
            "testListTopicsWithIncludeList",
        ),
        "needs several brokers: for several replicas",
    ),
    "ApiVersionsRequestTest.testApiVersionsRequestIncludesUnreleasedApis": _UNRELEASED,
    "BrokerApiVersionsCommandTest.testBrokerApiVersionsCommandOutput": _UNRELEASED,
    "DescribeConsumerGroupTest.testDescribeConsumerGroupWithoutLeaders": _BROKERS,
    "ConsumerIntegrationTest.testLeaderEpoch": _BROKERS,
    "ConsumerIntegrationTest.testRackAwareAssignment": "needs several brokers, and loads an assignor into them",
    "ConsumerBounceTest.testAsyncClose": "needs several brokers: it stops the coordinators', and closes consumers",
    "ConsumerBounceTest.testClassicClose": "needs several brokers: it stops the coordinators', and closes consumers",
    "PlaintextConsumerTest.testClassicConsumerCoordinatorFailover": "needs several brokers: it stops the "
    "coordinator's, and reads on",
    "ConsumerWithLegacyMessageFormatIntegrationTest": "looks into the broker: it appends to its logs",
    "ProducerSendWhileDeletionTest": "needs several brokers: it moves partitions",
    "ShareFetchAcknowledgeRequestTest.testShareFetchRequestToNonLeaderReplica": _BROKERS,
    "DescribeProducersWithBrokerIdTest": _BROKERS,
    "ResetConsumerGroupOffsetTest.testResetOffsetsWithOfflinePartitionNotInResetTarget": _BROKERS,
    "ResetConsumerGroupOffsetTest.testResetOffsetsWithPartitionNoneLeader": _BROKERS,
    "SaslPlainPlaintextConsumerTest": "needs several brokers: it stops the coordinator's, and reads on",
    "PlaintextConsumerCloseTest": "needs several brokers: a fetch of the other broker's empty partition is under way",
    "AutoTopicCreationTest": "needs several brokers, and a controller with other settings",
    "ClientRebootstrapTest": _BROKERS,
    "ConfigCommandIntegrationTest.testUpdateBrokerConfigNotAffectedByInvalidConfig": "looks into the broker: its "
    "KafkaConfig",
    "ListOffsetsIntegrationTest": "needs several brokers: it moves a partition to another one",
}
"""What tests want that fail here for want of it, and are not aborted: by class and method, or by class."""
