"""A client for commands: one connection, one request at a time, and errors that are sentences.

Commands send requests in Kafka's protocol, to coordinatord or to any Kafka cluster. The version of a request is the
newest that both sides support.
"""

from __future__ import annotations

from typing import Any

from coordinatord.base.config.address import parse_listener
from coordinatord.base.config.setting_types import Unacceptable
from coordinatord.transport.blocking_client import BlockingConnection
from kafka_wire.api.api_versions import ApiVersionsRequest
from kafka_wire.client import ApiVersions
from kafka_wire.errors import DecodeError, LengthError, error_of
from kafka_wire.registry import LARGEST

TIMEOUT_S = 15.0


class WireError(Exception):
    """Raised if no broker responds as it should; the message is a sentence."""


class Unreachable(WireError):
    """Raised if nothing listens at the address, or the address is invalid."""


class Wire:
    """A connection to `host:port`. Raises WireError if no broker responds."""

    def __init__(self, address: str, client_id: str) -> None:
        self.address = address
        try:
            listener = parse_listener(address)
        except Unacceptable as error:
            raise Unreachable(f"--bootstrap {error}") from None
        try:
            self._connection = BlockingConnection((listener.host or "127.0.0.1", listener.port), client_id, TIMEOUT_S)
        except OSError as error:
            raise Unreachable(f"no broker answers at {address}: {str(error.strerror or error).lower()}.") from None
        # Every broker serves version 0, and responds to an unknown version in the format of version 0.
        answer = self._exchange(ApiVersionsRequest(), 0)
        if answer.error_code:
            raise WireError(f"{address} does not say which requests it serves: {error_of(answer.error_code).name}.")
        self._versions = ApiVersions.of(answer)

    def ask(self, request: Any, newest: int = LARGEST) -> Any:
        """Send `request` in the newest version that both sides support, at most `newest`, and return the response."""
        version = self._versions.latest_usable(type(request), newest)
        if version is None:
            raise WireError(f"{self.address} does not serve {type(request).__name__.removesuffix('Request')} requests.")
        return self._exchange(request, version)

    def serves(self, request: type[Any]) -> bool:
        """Return whether the broker advertises a version of this request that this client supports."""
        return self._versions.latest_usable(request) is not None

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _exchange(self, request: Any, version: int) -> Any:
        try:
            return self._connection.ask(request, version)
        except OSError as error:
            raise WireError(f"{self.address} does not answer: {error.strerror or error}.") from None
        except LengthError:
            raise WireError(f"{self.address} does not speak Kafka's protocol.") from None
        except DecodeError as error:
            raise WireError(f"{self.address} sent a response that cannot be decoded: {error}") from None
