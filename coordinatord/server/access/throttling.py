"""Measurement of requests, and throttling of clients that are over their quota, as in KafkaApis and
RequestHandlerHelper.

The response is sent at once and contains the throttle time; the connection is not read for that time. A client over its
quota of fetched bytes gets an empty response instead of the records, which it fetches again; a share consumer gets its
records, which are locked for it. Changes of partitions
beyond controller_mutation_rate are rejected (KIP-599) in versions of requests that have the error; in older versions
the changes are made, and the client is throttled.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any, Final, Protocol

from coordinatord.server.access.quotas import FETCHED, MUTATIONS, PRODUCED, REQUESTS, Quotas
from coordinatord.server.access.rules import Handler, amend
from coordinatord.transport.cluster.peers import LISTENER
from coordinatord.transport.net.connection import Connection
from coordinatord.transport.net.received import AuthorizationResult
from coordinatord.transport.net.request import RequestContext
from kafka_wire.api.fetch import FetchResponse
from kafka_wire.api_key import ApiKey
from kafka_wire.message_parts import Parts as EncodedParts

EXEMPT: Final = frozenset({ApiKey.WRITE_TXN_MARKERS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""Requests of brokers, and requests before authentication."""

STRICT_FROM: Final = {
    ApiKey.METADATA: 0, ApiKey.CREATE_TOPICS: 6, ApiKey.DELETE_TOPICS: 5, ApiKey.CREATE_PARTITIONS: 3,
}  # fmt: skip
"""The version of each API that changes partitions from which THROTTLING_QUOTA_EXCEEDED rejects its requests."""

_HEADER_BYTES: Final = 10


class Alarm(Protocol):
    """The return value of `alarm`."""

    def cancel(self) -> object: ...


class Throttling:
    """Wrappers of handlers. `alarm(deadline_ms, callback)` calls back."""

    def __init__(
        self,
        quotas: Quotas,
        now_ms: Callable[[], int],
        alarm: Callable[[int, Callable[[], object]], Alarm],
    ) -> None:
        self._quotas = quotas
        self._now_ms = now_ms
        self._alarm = alarm
        #: number of rejected or delayed requests, by the kind of quota
        self.throttled: dict[str, int] = {}

    def measured(self, handlers: Mapping[int, Handler]) -> dict[int, Handler]:
        """Return all handlers with their requests measured."""
        return {
            api_key: handler if api_key in EXEMPT else self._measured(api_key, handler)
            for api_key, handler in handlers.items()
        }

    def limited(self, handlers: Mapping[int, Handler]) -> dict[int, Handler]:
        """Return the handlers; those of requests that change partitions are wrapped to count the changes."""
        return {
            api_key: self._limited(api_key, handler) if api_key in STRICT_FROM else handler
            for api_key, handler in handlers.items()
        }

    def mute(self, connection: Connection, throttle_ms: int) -> None:
        """Serve and read nothing from a connection for this time."""
        connection.mute(self._alarm(self._now_ms() + throttle_ms, connection.unmute))

    # Measuring

    def _measured(self, api_key: int, handler: Handler) -> Handler:
        def handle(context: RequestContext, request: Any) -> Any:
            if context.connection.listener == LISTENER:
                return handler(context, request)
            return _Measured(self, api_key, context, request).call(handler)

        return handle

    # Changes of partitions

    def _limited(self, api_key: int, handler: Handler) -> Handler:
        def handle(context: RequestContext, request: Any) -> Any:
            if context.admitted is not None:  # otherwise the request is another worker's
                context.admitted.charge = lambda partitions: self._charge(api_key, context, partitions)
            return handler(context, request)

        return handle

    def _charge(self, api_key: int, context: RequestContext, partitions: int) -> bool:
        """Take tokens; return whether the change may be made. A Metadata request is not throttled: in Kafka the
        creation of topics is a separate request that the broker sends to the controller in the client's name
        (AutoTopicCreationManager).
        """
        is_strict = context.api_version >= STRICT_FROM[ApiKey(api_key)]
        throttle_ms = self._quotas.mutate(*_quota_entity(context), partitions, self._now_ms(), is_strict=is_strict)
        admitted = context.admitted
        if admitted is not None and api_key != ApiKey.METADATA:
            admitted.throttle_ms = max(admitted.throttle_ms, throttle_ms)
        return not (is_strict and throttle_ms)


class _Measured:
    """The measurement of one request."""

    __slots__ = ("_api_key", "_began_s", "_context", "_request", "_size", "_spent_s", "_throttling")

    def __init__(self, throttling: Throttling, api_key: int, context: RequestContext, request: Any) -> None:
        self._throttling = throttling
        self._api_key = api_key
        self._context = context
        self._request = request
        _buf, start, end = context.where
        self._size = _HEADER_BYTES + len(context.connection.client_id_bytes) + context.codec.flexible + end - start
        self._began_s = 0.0
        self._spent_s: float | None = None

    def call(self, handler: Handler) -> Any:
        """Call the handler, and measure it."""
        context, throttling = self._context, self._throttling
        context.admitted = AuthorizationResult()
        amend(context, self._finished)
        if self._is_consumers_fetch:
            self._bound_fetch()
        is_silent = self._api_key == ApiKey.PRODUCE and self._request.acks == 0
        self._began_s = perf_counter()
        response = handler(context, self._request)
        self._spent_s = perf_counter() - self._began_s
        if is_silent:
            throttle_ms = self._produced(throttling._now_ms())
            if throttle_ms and not context.connection.closed:
                throttling.mute(context.connection, throttle_ms)
        return response

    def _bound_fetch(self) -> None:
        most = self._throttling._quotas.most(FETCHED, *_quota_entity(self._context))
        if most is not None:
            self._request.max_bytes = int(min(self._request.max_bytes, most))

    @property
    def _is_consumers_fetch(self) -> bool:
        request = self._request
        if self._api_key == ApiKey.FETCH:
            return bool(request.replica_id < 0 and request.replica_state.replica_id < 0)
        return self._api_key == ApiKey.SHARE_FETCH

    def _produced(self, now_ms: int) -> int:
        return self._throttling._quotas.used(PRODUCED, *_quota_entity(self._context), self._size, now_ms)

    def _finished(self, response: Any) -> Any:
        """Measure the response, which is about to be encoded, and set the throttle time in it."""
        context, throttling = self._context, self._throttling
        quotas, who, now_ms = throttling._quotas, _quota_entity(context), throttling._now_ms()
        spent_s = perf_counter() - self._began_s if self._spent_s is None else self._spent_s
        found = {
            REQUESTS: min(quotas.used(REQUESTS, *who, 100 * spent_s, now_ms), quotas.window_ms),
            MUTATIONS: 0 if context.admitted is None else context.admitted.throttle_ms,
        }
        fetched = 0
        if self._api_key == ApiKey.PRODUCE:
            found[PRODUCED] = self._produced(now_ms)
        elif self._is_consumers_fetch and quotas.quotas.of(FETCHED, *who) is not None:
            fetched = _encoded_size(context, response)
            found[FETCHED] = quotas.used(FETCHED, *who, fetched, now_ms)
        kind = max(found, key=lambda each: found[each])
        throttle_ms = found[kind]
        if not throttle_ms:
            return response
        throttling.throttled[kind] = throttling.throttled.get(kind, 0) + 1
        if self._api_key == ApiKey.FETCH and not response.error_code:
            if fetched:
                quotas.unused(FETCHED, *who, fetched, now_ms)
            in_session = self._request.session_id if self._request.session_epoch > 0 else 0
            response = FetchResponse(session_id=in_session)
        if hasattr(response, "throttle_time_ms"):
            response = copy.copy(response)  # handlers share some of them
            response.throttle_time_ms = throttle_ms
        if not context.connection.closed:
            throttling.mute(context.connection, throttle_ms)
        return response


def _quota_entity(context: RequestContext) -> tuple[str, str]:
    return context.principal.name, context.client_id or ""


def _encoded_size(context: RequestContext, response: Any) -> int:
    """Return the size of a response's body in bytes, without copying its records."""
    out = EncodedParts()
    context.codec.encode_response(response, out)
    return out.size
