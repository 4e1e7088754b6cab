"""The handlers of all APIs that a daemon offers.

Handlers that consumers and producers use are made at the start. Those of administration, SASL, transactions and share
groups are made by the first request for one of their APIs, so that a start does not import their modules
(`lazy_handlers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from coordinatord.base.config import Settings
from coordinatord.broker.topics import Topics
from coordinatord.broker.topics.partition_verification import TransactionCoordinator
from coordinatord.coordination.group.consumer.state import GroupEnvironment
from coordinatord.coordination.service.apis.consumer_groups import ConsumerGroups
from coordinatord.coordination.service.apis.find_coordinator import FindCoordinator, ShareKeys
from coordinatord.coordination.service.apis.membership import Membership
from coordinatord.coordination.service.apis.offsets import Offsets
from coordinatord.coordination.service.groups import Coordinator
from coordinatord.coordination.transactions.coordinator import Transactions
from coordinatord.coordination.transactions.markers import PartitionMarkers
from coordinatord.coordination.transactions.state import SERVER_VERSION
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.net.api_versions import ApiVersions
from coordinatord.transport.net.lazy_handlers import Handlers, lazy_handlers
from coordinatord.transport.net.request import RequestContext
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from kafka_wire.registry import error_response
from kafka_wire.releases import has_feature, share_version

if TYPE_CHECKING:
    from coordinatord.coordination.service.share_states import ShareStates

CONSUMER_GROUP_APIS = (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE)
GROUP_ADMIN_APIS = (ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS, ApiKey.DELETE_GROUPS)
TRANSACTION_APIS = (
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS,
)
SASL_APIS = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
TRANSACTIONAL_OFFSETS_APIS = (ApiKey.TXN_OFFSET_COMMIT,)
SHARE_APIS = (
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_DESCRIBE,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS,
)
NOT_SERVED = (ApiKey.STREAMS_GROUP_DESCRIBE,)
"""APIs that only our commands use."""


class Share(ShareKeys, Handlers, Protocol):
    """The parts of a daemon that serve share groups (daemon/share.py)."""

    @property
    def states(self) -> ShareStates: ...


def serves_consumer_protocol(settings: Settings) -> bool:
    """Return whether group.coordinator.rebalance.protocols contains KIP-848's protocol."""
    return "consumer" in settings.group_coordinator_rebalance_protocols


def serves_share_groups(settings: Settings) -> bool:
    """Return whether group.coordinator.rebalance.protocols contains share groups."""
    return "share" in settings.group_coordinator_rebalance_protocols


def offered(handlers: Iterable[int], settings: Settings) -> set[int]:
    """Return the APIs that ApiVersions lists. Clients that do not find the consumer protocol there fall back to the
    classic one. `handlers` may be all APIs: a node without handlers, as it is not the leader, lists the same ones.
    """
    consumer = () if serves_consumer_protocol(settings) else CONSUMER_GROUP_APIS
    share = () if serves_share_groups(settings) else SHARE_APIS
    return {*handlers}.difference(consumer, share, NOT_SERVED)


def features(settings: Settings) -> dict[str, int]:
    """Return the features that ApiVersions lists, with their levels."""
    consumer = {"group.version": 1} if serves_consumer_protocol(settings) else {}
    release = settings.advertised_kafka_version
    share = {"share.version": share_version(release)} if serves_share_groups(settings) else {}
    levels = {**consumer, **share, "transaction.version": SERVER_VERSION}
    return {name: level for name, level in levels.items() if has_feature(release, name)}


def api_versions(handlers: Iterable[int], settings: Settings, identity: tuple[str, int]) -> ApiVersions:
    """Return the handler of ApiVersions for a node with `identity`, its cluster id and node id."""
    release = settings.advertised_kafka_version
    return ApiVersions(offered(handlers, settings), features(settings), identity, release)


def _switched_off(context: RequestContext, request: Any) -> Any:
    """Return Kafka's error response to a client that uses the consumer protocol although it is switched off."""
    return error_response(request, context.api_version, ErrorCode.UNSUPPORTED_VERSION)


def _sasl() -> Handlers:
    from coordinatord.transport.net.sasl_gate import SaslApis

    return SaslApis()


def all_handlers(
    settings: Settings,
    nodes: Nodes,
    topics: Topics,
    coordinator: Coordinator,
    surroundings: GroupEnvironment,
    transactions: Transactions,
    participants: TransactionCoordinator,
    markers: PartitionMarkers,
    share: Callable[[], Share],
) -> dict[int, Any]:
    """Return the handlers by API key. `participants` is the transaction coordinator as partitions call it, on this or
    another node. `share` returns the share groups; it is called only where they are served.
    """
    shares = serves_share_groups(settings)
    membership = Membership(
        coordinator,
        max_group_id_bytes=settings.group_id_max_bytes,
        max_metadata_bytes=settings.group_max_member_metadata_bytes,
    )

    def group_admin() -> Handlers:
        from coordinatord.coordination.service.apis.admin import GroupAdmin

        return GroupAdmin(coordinator, (lambda: share().states) if shares else None)

    def transaction_apis() -> Handlers:
        from coordinatord.coordination.transactions.apis.transactions import TransactionApis

        return TransactionApis(transactions, topics, markers, coordinator.partitions, topics.producer_ids.next)

    def transactional_offsets() -> Handlers:
        from coordinatord.coordination.service.apis.txn_offset_commit import TransactionalOffsets

        made = TransactionalOffsets(coordinator, participants, topics, topics.transactional.find)
        topics.broker_configs.follow(made.use)
        return made

    return {
        **topics.handlers(),
        **FindCoordinator(nodes, coordinator.partitions, transactions.partitions, share if shares else None).handlers(),
        **membership.handlers(),
        **(
            ConsumerGroups(coordinator, surroundings, settings).handlers()
            if serves_consumer_protocol(settings)
            else dict.fromkeys(CONSUMER_GROUP_APIS, _switched_off)
        ),
        **Offsets(coordinator, topics).handlers(),
        **lazy_handlers(SASL_APIS, _sasl),
        **lazy_handlers(GROUP_ADMIN_APIS, group_admin),
        **lazy_handlers(TRANSACTION_APIS, transaction_apis),
        **lazy_handlers(TRANSACTIONAL_OFFSETS_APIS, transactional_offsets),
        **(lazy_handlers(SHARE_APIS, share) if shares else {}),
    }
