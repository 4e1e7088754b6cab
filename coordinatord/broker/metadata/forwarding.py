"""Forwarding of changes of the cluster's records to the process that owns their log, as Kafka's brokers forward them to
their controller. Clients rely on it: some send such requests to any node, and do not retry after an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from coordinatord.broker.log.names import METADATA_TOPIC
from coordinatord.broker.metadata.log import MetadataLog
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.net.request import RequestContext

if TYPE_CHECKING:  # only used with several processes
    from coordinatord.transport.cluster.peers import Peers, SeatPeers

NOT_CONTROLLER: Final = "The active controller appears to be another node."

Forward = Callable[[RequestContext, Any, Any], None]
"""(context, request, unreachable): responds with the response of the log's owner, or with `unreachable`."""


def forward_of(metadata: MetadataLog, nodes: Nodes, peers: Peers | SeatPeers | None) -> Forward | None:
    """Return a function that forwards requests to the owner of the log; None if this process is the owner."""
    if peers is None or metadata.is_owner:
        return None
    owner = nodes.worker_of(METADATA_TOPIC, 0)

    def forward(context: RequestContext, request: Any, unreachable: Any) -> None:
        def answered(response: Any) -> None:
            metadata.refresh()
            context.reply(unreachable if response is None else response)

        peers.ask(owner, context.api_version, request, answered)

    return forward
