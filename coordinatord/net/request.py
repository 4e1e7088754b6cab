"""One request on its way: what a handler needs to know of it, and the ways in which it can end.

A handler gets a `RequestContext` and the decoded request. It returns the response (or its body as bytes, when that is
quicker made than the message), or None when

- it has called `answer_at`: the response waits for the log (DESIGN: durability gate), or
- it has called `drop`: there is no response (Produce with acks 0), or
- it keeps the context and will call `reply` later: the request is parked. Later requests of the same connection wait
  behind a parked one, as Kafka mutes the channel while a request is being processed.

A context is the opaque `reply_to` of the group core: it is compared by identity and never looked into there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafka_wire.registry import Codec

if TYPE_CHECKING:
    from coordinatord.net.connection import Connection


Body = tuple[bytes, int, int]
"""Where a request lies, without its header: (buffer, start, end)."""

NO_BODY: Body = (b"", 0, 0)

MAX_SHARED_BYTES = 8 * 1024
"""A request that waits may hold on to a buffer of this size, in which there is more than itself. Connections limit how
many wait (MAX_HELD).
"""


class RequestContext:
    """`api_version` is that of the request and its response. `client_id` is None where the client sent null. `done`
    tells that a response has been given, or none is due.

    A context lives as long as its response waits, the decoded request does not: a thousand commits that wait for the
    disk are some bytes each, and the next one is decoded into memory that is still in the processor's cache.
    """

    __slots__ = ("_body", "api_version", "client_id", "codec", "connection", "correlation_id", "done")

    def __init__(
        self,
        connection: Connection,
        codec: Codec,
        correlation_id: int,
        client_id: str | None,
        body: Body,
    ) -> None:
        self.connection = connection
        self.codec = codec
        self.api_version = codec.api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self._body = body
        self.done = False

    @property
    def request(self) -> Any:
        """The request as it came, decoded once more."""
        return self.codec.decode_request(*self._body)

    @property
    def where(self) -> Body:
        """Where the request lies, without its header; until it waits for the log."""
        return self._body

    @property
    def body(self) -> bytes:
        """The request as bytes, without its header."""
        buf, start, end = self._body
        return buf[start:end]

    def keep(self) -> Body:
        """Where the request lies from now on, for who has to wait: without the rest of what one read has brought."""
        buf, start, end = self._body
        if len(buf) > MAX_SHARED_BYTES and (end - start) * 2 < len(buf):
            self._body = buf[start:end], 0, end - start
        return self._body

    @property
    def client_host(self) -> str:
        """The peer's address as Java's InetAddress.toString() writes it: "/127.0.0.1"."""
        return self.connection.client_host

    @property
    def closed(self) -> bool:
        """The peer has gone: nobody will read a response."""
        return self.connection.closed

    def reply(self, response: Any) -> None:
        """Answer a parked request."""
        self.connection.answer(self, response)

    def reply_in_parts(self, response: Any) -> None:
        """The same for a response with records that are too large to be copied, parked or not."""
        self.connection.answer_in_parts(self, response)

    def answer_at(self, epoch: int, response: Any, failure: Callable[[], Any]) -> None:
        """Answer when the log's `epoch` is durable, with what `failure` makes if the log fails first. The request goes:
        `failure` has what it needs of it.
        """
        self._body = NO_BODY
        self.connection.answer_at(self, epoch, response, failure)

    def abandon(self) -> None:
        """A parked request is never answered: the group has forgotten it."""
        self.connection.abandon(self)

    def drop(self) -> None:
        """There is no response to this request."""
        self.connection.finish(self)
