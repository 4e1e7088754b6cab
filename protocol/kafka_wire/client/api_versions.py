"""The versions of requests that a broker supports: Kafka's NodeApiVersions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_wire.api.api_versions import ApiVersionsResponse
from kafka_wire.registry import versions_of
from kafka_wire.schema import schema_of

LARGEST = 32_767


class UnsupportedVersionError(Exception):
    """No version of a request is supported by both the broker and this client, as far as the caller allows versions."""


class ApiVersions:
    """The lowest and the highest version that a broker supports, by API key."""

    def __init__(self, supported: Mapping[int, tuple[int, int]]) -> None:
        self.supported = supported

    @classmethod
    def of(cls, response: ApiVersionsResponse) -> ApiVersions:
        return cls({each.api_key: (each.min_version, each.max_version) for each in response.api_keys})

    def latest_usable(self, request: type[Any], newest: int = LARGEST) -> int:
        """Return the newest version of a request, at most `newest`, that both sides support.

        Raises UnsupportedVersionError.
        """
        api_key = schema_of(request).api_key or 0
        ours = versions_of(api_key)
        lowest, highest = self.supported.get(api_key, (0, -1))
        version = min(highest, ours.last, newest)
        if version < max(lowest, ours.first):
            raise UnsupportedVersionError(
                f"the broker supports versions {lowest} to {highest} of {schema_of(request).name}, this client "
                f"{ours.first} to {min(ours.last, newest)}"
                if api_key in self.supported
                else f"the broker does not support {schema_of(request).name}"
            )
        return version

    def supports(self, request: type[Any]) -> bool:
        """Return whether the broker and this client have a common version of a request."""
        try:
            self.latest_usable(request)
        except UnsupportedVersionError:
            return False
        return True
