"""One request in progress: the handler's view of it, and the ways in which it can end.

A handler gets a `RequestContext` and the decoded request. It returns the response, or a `CooperativeTask` that will
make the response (cooperative_tasks.py), or None when

- it has called `answer_at`: the response waits for the log (the durability gate), or
- it has called `drop` or `drop_at`: there is no response (Produce with acks 0), or
- it keeps the context and will call `reply` later: the request is parked. Later requests of the same connection wait
  behind a parked one, as Kafka mutes the channel while it processes a request.

For the group core, a context is the opaque `reply_to`: the core compares it by identity and never inspects it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinatord.transport.net.connection import Connection
from coordinatord.transport.net.cooperative_tasks import CooperativeTask
from coordinatord.transport.net.received import NO_BODY, Body, Received
from coordinatord.transport.net.response_queue import ResponseQueue
from coordinatord.transport.security.principal import Principal
from kafka_wire.registry import Codec


class RequestContext(Received):
    """A request as its handler sees it. `client_id` is None if the client sent null.

    A context lives as long as its response waits; the decoded request does not. So a thousand commits that wait for the
    disk take some bytes each, and the next commit is decoded into memory that is still in the processor's cache.
    """

    __slots__ = ("client_id", "connection", "line")

    def __init__(self, connection: Connection, codec: Codec, correlation_id: int, body: Body) -> None:
        self.admitted = None
        self.codec = codec
        self.api_version = codec.api_version
        self.correlation_id = correlation_id
        self.where = body
        self.done = False
        self.connection = connection
        self.line: ResponseQueue = connection.line
        self.client_id = connection.client_id

    @property
    def client_host(self) -> str:
        """The peer's address as Java's InetAddress.toString() writes it: "/127.0.0.1"."""
        return self.connection.client_host

    @property
    def room(self) -> int:
        """Maximum size that the response should have, in bytes: smaller while many peers leave responses unread."""
        return self.line.room

    @property
    def listener(self) -> str:
        """The name of the listener that the client has connected to."""
        return self.connection.listener

    @property
    def principal(self) -> Principal:
        """The authenticated principal of the client: User:ANONYMOUS if the listener requires no authentication."""
        return self.connection.principal

    @property
    def closed(self) -> bool:
        """True if the peer has disconnected, so that no response can be sent."""
        return self.line.is_closed

    def reply(self, response: Any) -> None:
        """Respond to a parked request."""
        self.line.answer(self, response)

    def reply_alone(self, response: Any, now_s: float) -> None:
        """Respond to a parked request at once, as one of many: see ResponseQueue.answer_parked."""
        self.line.answer_parked(self, response, now_s)

    def reply_in_parts(self, response: Any) -> None:
        """Respond to a request, parked or not, with records that are too large to copy."""
        self.line.answer_in_parts(self, response)

    def go_on(self, slices: CooperativeTask) -> None:
        """Let slices make the response to a parked request."""
        self.connection.door.router.slice(self, slices)

    def answer_at(self, epoch: int, response: Any, failure: Callable[[], Any], *, is_patient: bool = False) -> None:
        """Respond once the log's `epoch` (flush sequence number) is durable, or with the response that `failure` makes
        if the log fails first. The decoded request is not kept: `failure` must hold what it needs of the request.
        `is_patient`: the response waits as long as this node may respond, also where others have a time limit.
        """
        self.line.answer_at(self, epoch, response, failure, is_patient)
        self.where = NO_BODY

    def abandon(self) -> None:
        """End a parked request that never gets a response: the group has dropped it."""
        self.line.abandon(self)

    def drop(self) -> None:
        """End this request without a response."""
        self.line.finish(self)

    def drop_at(self, epoch: int) -> None:
        """End this request, which has written to the log, without a response: it counts as waiting until the log's
        `epoch` is durable.
        """
        self.line.finish_at(self, epoch)
        self.where = NO_BODY
