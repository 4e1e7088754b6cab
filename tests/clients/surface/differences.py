"""Every known difference between what a client's call comes to on Kafka and on coordinatord, by name.

What is listed must still differ, and what differs must be listed: anything else fails the test (compare.py).
"""

from __future__ import annotations

from collections.abc import Mapping

SCRAM = "a salt of fewer than 12 bytes is refused; Kafka takes any"
REASSIGNMENTS = "a partition has one fixed replica: it cannot be reassigned"
LOG_DIRS = "there is one log directory: nothing can be moved to another"
QUORUM = "there is no KRaft quorum"
CONTROLLERS = "there is no KRaft quorum, and so no controller that could be unregistered"
FEATURES = "features that are not served are not listed, and cannot be changed"
LOGGERS = "the levels of single loggers are not settings here"
APIS = "APIs that are not served are not offered"
BROKER_CONFIGS = "the settings are those of coordinatord"
GROUP_CONFIGS = "groups have fewer settings of streams groups, and have offsets.retention.minutes"
TOKENS = "delegation tokens are not served; Kafka refuses them to unauthenticated clients, too"
STREAMS = "streams groups are not served"
MEMBERSHIP = "the brokers of a cluster cannot be changed"
AUTO_CREATED = "Kafka answers that the topic does not exist and creates it meanwhile; coordinatord describes it at once"


def listed(reason: str, *calls: str) -> dict[str, str]:
    return dict.fromkeys(calls, reason)


def admin(reason: str, *calls: str) -> dict[str, str]:
    """The same for methods of the part `admin`."""
    return listed(reason, *(f"admin.{call}" for call in calls))


def client(reason: str, *calls: str) -> dict[str, str]:
    """The same for methods of the part `client`."""
    return listed(reason, *(f"client.{call}" for call in calls))


KNOWN: Mapping[str, Mapping[str, str]] = {
    "kafka-python": {
        **listed(REASSIGNMENTS, "admin.alter_partition_reassignments"),
        **listed(LOG_DIRS, "admin.alter_replica_log_dirs"),
        **listed(QUORUM, "admin.describe_metadata_quorum"),
        **listed(FEATURES, "admin.describe_features", "admin.update_features"),
        **listed(LOGGERS, "admin.list_config_resources"),
        **listed(APIS, "admin.api_versions"),
        **listed(BROKER_CONFIGS, "admin.describe_configs: of a broker", "admin.alter_configs: of a broker"),
        **listed(GROUP_CONFIGS, "admin.describe_configs: of a group"),
    },
    "aiokafka": {
        **listed(AUTO_CREATED, "admin.describe_topics: auto-created"),
    },
    "confluent-kafka": {
        **listed(BROKER_CONFIGS, "admin.describe_configs: of a broker"),
        **listed(GROUP_CONFIGS, "admin.describe_configs: of a group"),
    },
    "Java": {
        **admin(TOKENS, "createDelegationToken", "describeDelegationToken"),
        **admin(TOKENS, "renewDelegationToken", "expireDelegationToken"),
        **admin(REASSIGNMENTS, "alterPartitionReassignments"),
        **admin(LOG_DIRS, "alterReplicaLogDirs"),
        **admin(QUORUM, "describeMetadataQuorum"),
        **admin(CONTROLLERS, "unregisterController: no such controller"),
        **admin(MEMBERSHIP, "unregisterBroker: no such broker"),
        **admin(FEATURES, "describeFeatures", "updateFeatures"),
        **admin(LOGGERS, "describeConfigs: of a broker's loggers"),
        **admin(BROKER_CONFIGS, "describeConfigs: of a broker"),
        **admin(GROUP_CONFIGS, "describeConfigs: of a group"),
        **admin(STREAMS, "describeStreamsGroups"),
    },
    "kafkajs": {
        **admin(REASSIGNMENTS, "alterPartitionReassignments"),
    },
    "kcat": {},
    "franz-go": {
        **admin(TOKENS, "CreateDelegationToken", "DescribeDelegationTokens"),
        **admin(TOKENS, "RenewDelegationToken", "ExpireDelegationToken"),
        **admin(REASSIGNMENTS, "AlterPartitionAssignments"),
        **admin(LOG_DIRS, "AlterAllReplicaLogDirs", "AlterBrokerReplicaLogDirs"),
        **admin(FEATURES, "UpdateFeatures"),
        **admin(BROKER_CONFIGS, "DescribeBrokerConfigs"),
    },
    "sarama": {
        **admin(SCRAM, "UpsertUserScramCredentials", "DescribeUserScramCredentials", "DeleteUserScramCredentials"),
        **admin(REASSIGNMENTS, "AlterPartitionReassignments"),
        **admin(FEATURES, "UpdateFeatures"),
    },
    "kafka-go": {
        **client(SCRAM, "AlterUserScramCredentials", "DescribeUserScramCredentials"),
        **client(REASSIGNMENTS, "AlterPartitionReassignments"),
    },
}
"""Family, the call as `Outcome.key` names it, and the reason."""
