"""Changes of the cluster's records, passed on to the process that owns their log, as Kafka's brokers pass them on to
their controller. Clients rely on it: some send them to any node, and take no error for another try.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from coordinatord.broker.log.names import METADATA_TOPIC
from coordinatord.broker.metadata.log import MetadataLog
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.net.request import RequestContext

if TYPE_CHECKING:  # of several processes
    from coordinatord.transport.cluster.peers import Peers, SeatPeers

NOT_CONTROLLER: Final = "The active controller appears to be another node."

Forward = Callable[[RequestContext, Any, Any], None]
"""(context, request, unreachable): answers with what the owner of the log answers, or with `unreachable`."""


def forward_of(metadata: MetadataLog, nodes: Nodes, peers: Peers | SeatPeers | None) -> Forward | None:
    """Asks the owner of the log; None where this process is that."""
    if peers is None or metadata.is_owner:
        return None
    owner = nodes.worker_of(METADATA_TOPIC, 0)

    def forward(context: RequestContext, request: Any, unreachable: Any) -> None:
        def answered(response: Any) -> None:
            metadata.refresh()
            context.reply(unreachable if response is None else response)

        peers.ask(owner, context.codec.api_key, context.api_version, request, answered)

    return forward
