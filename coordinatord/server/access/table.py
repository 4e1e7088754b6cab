"""The permissions that each API needs, as Kafka's KafkaApis and ControllerApis check them.

A test requires a row for each API that is served. Fetch and Produce are checked within their handlers, which keep
sessions and requests; they use the same `Client`.
"""

from __future__ import annotations

from typing import Final

from coordinatord.server.access import share, special
from coordinatord.server.access.rules import Rule, all_of, amended, either, free, needs, parts, parts_by
from coordinatord.transport.security.authorizer import Operation, ResourceType
from kafka_wire.api_key import ApiKey

READ, WRITE, CREATE, DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
ALTER, DESCRIBE, ACTION = Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTION = ResourceType.TRANSACTIONAL_ID

_group = needs(READ, GROUP, lambda request: request.group_id)
_transaction = needs(WRITE, TRANSACTION, lambda request: request.transactional_id)

TABLE: Final[dict[int, Rule]] = {
    ApiKey.PRODUCE: special.producing,
    ApiKey.FETCH: special.fetching,
    ApiKey.LIST_OFFSETS: parts(DESCRIBE, TOPIC, "topics", "topics"),
    ApiKey.METADATA: special.metadata,
    ApiKey.OFFSET_COMMIT: all_of(_group, parts(READ, TOPIC, "topics", "topics", by=("name", "topic_id"))),
    ApiKey.OFFSET_FETCH: special.offset_fetch,
    ApiKey.FIND_COORDINATOR: special.find_coordinator,
    ApiKey.JOIN_GROUP: all_of(_group, special.matched_topics),
    ApiKey.HEARTBEAT: _group,
    ApiKey.LEAVE_GROUP: _group,
    ApiKey.SYNC_GROUP: special.sync_group,
    ApiKey.DESCRIBE_GROUPS: all_of(
        parts(DESCRIBE, GROUP, "groups", "groups", name=None, by=("group_id",)), amended(special.group_operations)
    ),
    ApiKey.LIST_GROUPS: either((DESCRIBE,), amended(special.listed_groups)),
    ApiKey.API_VERSIONS: free,
    ApiKey.SASL_HANDSHAKE: free,
    ApiKey.SASL_AUTHENTICATE: free,
    ApiKey.CREATE_TOPICS: special.create_topics,
    ApiKey.DELETE_TOPICS: special.delete_topics,
    ApiKey.DELETE_RECORDS: parts(DELETE, TOPIC, "topics", "topics"),
    ApiKey.INIT_PRODUCER_ID: special.init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: either((ACTION,), parts(DESCRIBE, TOPIC, "topics", "topics", name="topic")),
    ApiKey.ADD_PARTITIONS_TO_TXN: special.add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: all_of(_transaction, _group),
    ApiKey.END_TXN: _transaction,
    ApiKey.WRITE_TXN_MARKERS: either((ALTER,), needs(ACTION, CLUSTER)),
    ApiKey.TXN_OFFSET_COMMIT: all_of(
        _transaction, _group, parts(READ, TOPIC, "topics", "topics", by=("name", "topic_id"))
    ),
    ApiKey.DESCRIBE_CONFIGS: parts_by(
        special.may_configs(DESCRIBE_CONFIGS), "resources", "results", by=("resource_type", "resource_name")
    ),
    ApiKey.ALTER_CONFIGS: special.altered_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: special.altered_configs,
    ApiKey.DESCRIBE_LOG_DIRS: needs(DESCRIBE, CLUSTER),
    ApiKey.CREATE_PARTITIONS: special.create_partitions,
    ApiKey.DELETE_GROUPS: parts(DELETE, GROUP, "groups_names", "results", name=None, by=("group_id",)),
    ApiKey.ELECT_LEADERS: needs(ALTER, CLUSTER),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: needs(DESCRIBE, CLUSTER),
    ApiKey.OFFSET_DELETE: all_of(
        needs(DELETE, GROUP, lambda request: request.group_id), parts(READ, TOPIC, "topics", "topics")
    ),
    ApiKey.DESCRIBE_CLUSTER: amended(special.cluster_operations),
    ApiKey.DESCRIBE_PRODUCERS: parts(READ, TOPIC, "topics", "topics"),
    ApiKey.DESCRIBE_TRANSACTIONS: all_of(
        parts(DESCRIBE, TRANSACTION, "transactional_ids", "transaction_states", name=None, by=("transactional_id",)),
        amended(special.topics_of_transactions),
    ),
    ApiKey.LIST_TRANSACTIONS: special.listing_transactions,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: all_of(_group, special.subscribed_topics),
    ApiKey.SHARE_FETCH: share.share_reading,
    ApiKey.SHARE_ACKNOWLEDGE: share.share_reading,
    ApiKey.CONSUMER_GROUP_DESCRIBE: all_of(
        parts(DESCRIBE, GROUP, "group_ids", "groups", name=None, by=("group_id",)), amended(special.described_groups)
    ),
    ApiKey.LIST_CONFIG_RESOURCES: needs(DESCRIBE_CONFIGS, CLUSTER),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: special.topic_partitions,
    ApiKey.SHARE_GROUP_HEARTBEAT: all_of(_group, special.subscribed_topics),
    ApiKey.SHARE_GROUP_DESCRIBE: all_of(
        parts(DESCRIBE, GROUP, "group_ids", "groups", name=None, by=("group_id",)), amended(share.described_groups)
    ),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: share.described_offsets,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: all_of(_group, share.altered_offsets),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: all_of(
        needs(DELETE, GROUP, lambda request: request.group_id), share.deleted_offsets
    ),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: needs(ACTION, CLUSTER),
    ApiKey.READ_SHARE_GROUP_STATE: needs(ACTION, CLUSTER),
    ApiKey.WRITE_SHARE_GROUP_STATE: needs(ACTION, CLUSTER),
    ApiKey.DELETE_SHARE_GROUP_STATE: needs(ACTION, CLUSTER),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: needs(ACTION, CLUSTER),
    ApiKey.DESCRIBE_ACLS: needs(DESCRIBE, CLUSTER),
    ApiKey.CREATE_ACLS: needs(ALTER, CLUSTER),
    ApiKey.DELETE_ACLS: needs(ALTER, CLUSTER),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: needs(DESCRIBE, CLUSTER),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: needs(ALTER, CLUSTER),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: needs(DESCRIBE_CONFIGS, CLUSTER),
    ApiKey.ALTER_CLIENT_QUOTAS: needs(ALTER_CONFIGS, CLUSTER),
}
"""The rule of each API, by API key."""
