"""A received request: its codec, its correlation id, the location of its bytes, and whether it has its response."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka_wire.registry import Codec

Body = tuple[bytes, int, int]
"""Location of a request's bytes, without its header: (buffer, start, end)."""

NO_BODY: Body = (b"", 0, 0)

MAX_SHARED_BYTES = 8 * 1024
"""A waiting request may keep a buffer of up to this size alive, although other requests share it. The number of waiting
requests per connection is limited (answers.MAX_HELD).
"""


class AuthorizationResult:
    """The permissions of a request when its handler receives it.

    `may(name, topic id)`: whether the client may do with this topic what it asks for. If a handler calls `may` itself,
    `refused` has the error responses that the handler must add. `may_describe(name)`: whether the client may learn of a
    topic, or of a transactional id, that its request does not name. `charge(partitions)`: see `Received.may_change`.
    `amend` changes the response before it is encoded. `throttle_ms`: time for which the client must wait because of the
    changes that the request makes. `is_whole`: the handler has received the whole request; only guards set it.
    """

    __slots__ = ("amend", "charge", "is_whole", "may", "may_describe", "refused", "throttle_ms")

    def __init__(self) -> None:
        self.may: Callable[[str | None, bytes], bool] | None = None
        self.may_describe: Callable[[str], bool] | None = None
        self.refused: list[Any] = []
        self.charge: Callable[[int], bool] | None = None
        self.throttle_ms = 0
        self.is_whole = False
        self.amend: Callable[[Any], Any] | None = None


class Received:
    """The base of `request.RequestContext`, which fills in the rest. `api_version` is the version of the request and of
    its response. `done`: the response was made, or no response is due.
    """

    __slots__ = ("admitted", "api_version", "codec", "correlation_id", "done", "where")

    admitted: AuthorizationResult | None
    """None without an authorizer."""
    codec: Codec
    api_version: int
    correlation_id: int
    done: bool
    where: Body
    """Location of the request's bytes, without its header. Valid until the request waits for the log."""

    @property
    def may_describe(self) -> Callable[[str], bool] | None:
        """See `AuthorizationResult`; None if there is no such check."""
        return None if self.admitted is None else self.admitted.may_describe

    def may_change(self, partitions: int) -> bool:
        """Return whether the client's quota admits that so many partitions are added or removed; a success uses up
        quota. To be called after all other checks of the change (Kafka's applyPartitionChangeQuota).
        """
        charge = None if self.admitted is None else self.admitted.charge
        return charge is None or charge(partitions)

    def amended(self, response: Any) -> Any:
        """Return the response as it is to be encoded. To be called once, on the event loop's thread."""
        admitted = self.admitted
        if admitted is None or admitted.amend is None:
            return response
        amend, admitted.amend = admitted.amend, None
        return amend(response)

    @property
    def request(self) -> Any:
        """The request as received, decoded again."""
        return self.codec.decode_request(*self.where)

    @property
    def body(self) -> bytes:
        """The request's bytes, without its header."""
        buf, start, end = self.where
        return buf[start:end]

    def keep(self) -> Body:
        """Return the location of a waiting request's bytes from this call on: the bytes are copied if the rest of the
        buffer is large.
        """
        buf, start, end = self.where
        if len(buf) > MAX_SHARED_BYTES and (end - start) * 2 < len(buf):
            self.where = buf[start:end], 0, end - start
        return self.where
