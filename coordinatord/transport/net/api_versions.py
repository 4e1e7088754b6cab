"""ApiVersions: the APIs and versions served. Only APIs with a handler are advertised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coordinatord.transport.net.request import RequestContext
from kafka_wire import registry
from kafka_wire.api.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from kafka_wire.releases import NEWEST, ranges_of

UNKNOWN_NODE = -1
"""Node id in the request of a client that does not name a node."""

OFFERED_FROM = {int(ApiKey.PRODUCE): 0}
"""First versions that are advertised where the first served version is a later one, as Kafka does (KAFKA-18659):
librdkafka up to 2.11.0 compresses only where version 0 of Produce is offered, and never sends that version.
"""


class ApiVersions:
    """The handler of ApiVersions. `features`: feature names that clients look up, and their levels (KIP-584);
    `identity`: cluster id and node id, which clients may name from v5 on (KIP-1242), or None if requests cannot name a
    node; `release`: the release of Kafka whose APIs and versions are offered, as far as they are served.
    """

    def __init__(
        self,
        api_keys: Iterable[int],
        features: Mapping[str, int],
        identity: tuple[str, int] | None = None,
        release: str = NEWEST,
    ) -> None:
        self._identity = identity
        self._api_keys = sorted({*api_keys, ApiKey.API_VERSIONS})
        self._release = release
        self._offered: list[ApiVersion] | None = None
        self.features = features

    def answer(self, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
        """Respond to ApiVersions v0-v5 (KIP-511: v3+ carries the client's software name and version, both safe
        to log).
        """
        if context.api_version >= 3 and not (
            _is_software_name(request.client_software_name) and _is_software_name(request.client_software_version)
        ):
            return ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
        if (request.cluster_id is None) != (request.node_id == UNKNOWN_NODE):
            return ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
        if request.cluster_id is not None and (request.cluster_id, request.node_id) != self._identity:
            return ApiVersionsResponse(ErrorCode.REBOOTSTRAP_REQUIRED)
        return ApiVersionsResponse(
            ErrorCode.NONE,
            self.offered,
            0,
            # Older clients fail on a minimum of 0 (KAFKA-17492).
            [SupportedFeatureKey(name, 0, level) for name, level in self.features.items() if context.api_version >= 4],
            0,
            [FinalizedFeatureKey(name, level, level) for name, level in self.features.items()],
        )

    @property
    def offered(self) -> list[ApiVersion]:
        """Return each advertised API with its range of versions."""
        if self._offered is None:
            release = ranges_of(self._release)
            self._offered = [_range(api_key, release[api_key]) for api_key in self._api_keys if api_key in release]
        return self._offered


def unsupported_version(release: str) -> ApiVersionsResponse:
    """Return the response to an unsupported version of ApiVersions, in the format of version 0. The response lists the
    versions of ApiVersions itself that `release` has, so that the client can choose one of them (KIP-511).
    """
    api_key = int(ApiKey.API_VERSIONS)
    return ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, [_range(api_key, ranges_of(release)[api_key])])


def _range(api_key: int, of_release: tuple[int, int]) -> ApiVersion:
    """Return the served versions within those of a release."""
    served, (first, last) = registry.versions_of(api_key), of_release
    return ApiVersion(api_key, OFFERED_FROM.get(api_key, max(served.first, first)), min(served.last, last))


def _is_software_name(name: str) -> bool:
    """Check a name against Kafka's `[a-zA-Z0-9](?:[a-zA-Z0-9\\-.]*[a-zA-Z0-9])?` (ApiVersionsRequest.isValid)."""
    inner = name.replace("-", "").replace(".", "")
    return bool(name) and inner.isascii() and inner.isalnum() and name[0].isalnum() and name[-1].isalnum()
