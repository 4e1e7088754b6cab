"""A client for commands: one connection, one request at a time, and errors that are sentences.

Commands send requests in Kafka's protocol, to coordinatord or to any Kafka cluster. The version of a request is the
newest that both sides support.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from coordinatord.base.config.address import parse_listener
from coordinatord.base.config.setting_types import Unacceptable
from coordinatord.transport.client.blocking import BlockingConnection
from kafka_wire.client.api_versions import LARGEST, UnsupportedVersionError
from kafka_wire.errors import DecodeError, error_of

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
            raise Unreachable(
                f"Nothing answers at {address}: {error.strerror or error}. Give the address with --bootstrap HOST:PORT."
            ) from None
        with self._sentences():
            code = self._connection.negotiate()
        if code:
            raise WireError(f"{address} does not say which requests it serves: {error_of(code).name}.")

    def ask(self, request: Any, newest: int = LARGEST) -> Any:
        """Send `request` in the newest version that both sides support, at most `newest`, and return the response."""
        with self._sentences():
            try:
                return self._connection.ask(request, newest=newest)
            except UnsupportedVersionError:
                name = type(request).__name__.removesuffix("Request")
                raise WireError(f"{self.address} does not serve {name} requests.") from None

    def serves(self, request: type[Any]) -> bool:
        """Return whether the broker advertises a version of this request that this client supports."""
        return self._connection.api_versions.supports(request)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise WireError(f"{self.address} does not answer: {error.strerror or error}.") from None
        except DecodeError as error:
            raise WireError(f"{self.address} does not answer in Kafka's protocol: {error}.") from None
