"""A received request: its codec, its correlation id, where its bytes are, and whether it has been answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka_wire.registry import Codec

Body = tuple[bytes, int, int]
"""Where a request's bytes are, without its header: (buffer, start, end)."""

NO_BODY: Body = (b"", 0, 0)

MAX_SHARED_BYTES = 8 * 1024
"""A waiting request may keep a buffer of up to this size alive, although other requests share it. The number of waiting
requests per connection is limited (answers.MAX_HELD).
"""


class Admitted:
    """What is known of a request's permissions when its handler gets it. `may(name, topic id)`: whether the client may
    do with this topic what it asks for; where a handler asks that itself, `refused` are answers that it has to add.
    `may_describe(name)`: whether the client may learn of a topic, or of a transactional id, that its request does not
    name. `charge(partitions)`: see `Received.may_change`. `amend` changes the response before it is encoded.
    `throttle_ms`: for how long the client has to wait, because of what the request changes. `is_whole`: the handler has
    got all of the request. Only guards say so.
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
    """The part of a request that `request.RequestContext` fills in. `api_version` is that of the request and of its
    response. `done`: it was answered, or no response is due.
    """

    __slots__ = ("admitted", "api_version", "codec", "correlation_id", "done", "where")

    admitted: Admitted | None
    """None where nobody checks permissions."""
    codec: Codec
    api_version: int
    correlation_id: int
    done: bool
    where: Body
    """Where the request's bytes are, without its header. Valid until the request waits for the log."""

    @property
    def may_describe(self) -> Callable[[str], bool] | None:
        """See `Admitted`; None where nobody checks that."""
        return None if self.admitted is None else self.admitted.may_describe

    def may_change(self, partitions: int) -> bool:
        """Whether the client's quota admits that so many partitions are added or removed, which uses it up. To be asked
        when nothing else stands against the change (Kafka's applyPartitionChangeQuota).
        """
        charge = None if self.admitted is None else self.admitted.charge
        return charge is None or charge(partitions)

    def amended(self, response: Any) -> Any:
        """The response as it is to be encoded. To be called once, on the event loop's thread."""
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
        """Returns where the bytes of a waiting request are from now on: copied if the rest of the buffer is large."""
        buf, start, end = self.where
        if len(buf) > MAX_SHARED_BYTES and (end - start) * 2 < len(buf):
            self.where = buf[start:end], 0, end - start
        return self.where
