"""One request on its way: what a handler needs to know of it, and the ways in which it can end.

A handler gets a `RequestContext` and the decoded request. It returns the response, or None when

- it has called `answer_at`: the response waits for the log (DESIGN: durability gate), or
- it has called `drop`: there is no response (Produce with acks 0), or
- it keeps the context and will call `reply` later: the request is parked. Later requests of the same connection wait
  behind a parked one, as Kafka mutes the channel while a request is being processed.

A context is the opaque `reply_to` of the group core: it is compared by identity and never looked into there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from protocol.registry import Codec

if TYPE_CHECKING:
    from coordinatord.connection import Connection


class RequestContext:
    """`api_version` is that of the request and its response. `client_id` is None where the client sent null. `done`
    tells that a response has been given, or none is due.
    """

    __slots__ = ("api_version", "client_id", "codec", "connection", "correlation_id", "done", "request")

    def __init__(
        self, connection: Connection, codec: Codec, correlation_id: int, client_id: str | None, request: Any
    ) -> None:
        self.connection = connection
        self.codec = codec
        self.api_version = codec.api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.request = request
        self.done = False

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
        """Answer when the log's `epoch` is durable, with what `failure` makes if the log fails first."""
        self.connection.answer_at(self, epoch, response, failure)

    def drop(self) -> None:
        """There is no response to this request."""
        self.connection.finish(self)
