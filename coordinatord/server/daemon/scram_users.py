"""Users' SCRAM credentials in the metadata log. A start without them imports no further module."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from coordinatord.broker.metadata.forwarding import forward_of
from coordinatord.broker.metadata.log import MetadataLog
from coordinatord.transport.net.lazy_handlers import Handlers, lazy_handlers
from kafka_wire.api_key import ApiKey

if TYPE_CHECKING:
    from coordinatord.broker.metadata.scram import ScramCredentials
    from coordinatord.transport.cluster.nodes import Nodes
    from coordinatord.transport.cluster.peers import Peers, SeatPeers

SCRAM_APIS: Final = (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
SCRAM_RECORDS: Final = (11, 22)
"""Types of the records that put and remove a credential."""


class ScramUsers:
    """The credentials of the metadata log, and the handlers of their APIs."""

    def __init__(self, metadata: MetadataLog) -> None:
        self._metadata = metadata
        metadata.keep(lambda: self.credentials, *SCRAM_RECORDS)

    @cached_property
    def credentials(self) -> ScramCredentials:
        """The credentials, made when their first record is read or a client authenticates."""
        from coordinatord.broker.metadata.scram import ScramCredentials

        return ScramCredentials()

    def handlers(self, handlers: Mapping[int, Any], nodes: Nodes, peers: Peers | SeatPeers | None) -> dict[int, Any]:
        """Return these handlers and those of credentials."""

        def scram() -> Handlers:
            from coordinatord.broker.metadata.scram import ScramApis

            return ScramApis(self.credentials, self._metadata, forward_of(self._metadata, nodes, peers))

        return {**handlers, **lazy_handlers(SCRAM_APIS, scram)}
