"""Connections of a SASL listener before authentication: only ApiVersions, SaslHandshake and SaslAuthenticate are
served, in small frames, for a limited time.

The gate has its own `ServerContext`. After authentication the connection gets the `ServerContext` that all connections
share, so that its requests cost what they cost on a PLAINTEXT listener. If its session ends (KIP-368), the connection
gets the gate's again: then only a new SaslHandshake is served. The state machine of transport/security/sasl.py decides
which responses are sent; this module has the frames, the timers and the log lines.

Each response is sent in a later turn of the event loop, and the request is parked until then: requests that follow the
last token in the same write are served by the `ServerContext` after authentication.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from coordinatord.base.observe.logger import get_logger
from coordinatord.base.observe.metrics import Metrics
from coordinatord.transport.net.api_versions import ApiVersions
from coordinatord.transport.net.connection import Connection
from coordinatord.transport.net.cooperative_tasks import CooperativeTask
from coordinatord.transport.net.request import RequestContext
from coordinatord.transport.net.router import Router
from coordinatord.transport.net.server_context import ServerContext
from coordinatord.transport.security.sasl import Answer, Exchange, Mechanism, State
from kafka_wire.api.api_versions import ApiVersionsResponse
from kafka_wire.api.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafka_wire.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from kafka_wire.framing import Frames
from kafka_wire.registry import Codec

log = get_logger("coordinatord.transport.security")


class Alarm(Protocol):
    """A timer that can be cancelled: clocks.timers.Alarm."""

    def cancel(self) -> None: ...


class SaslGate:
    """The gate of one listener. `alarm(at_ms, callback)` sets a timer of the daemon's clock."""

    def __init__(
        self,
        mechanisms: Mapping[str, Mechanism],
        api_versions: ApiVersions,
        metrics: Metrics,
        *,
        protocol: str,
        delay_ms: int,
        timeout_ms: int,
        alarm: Callable[[int, Callable[[], object]], Alarm],
        now_ms: Callable[[], int],
        call_soon: Callable[..., Any],
    ) -> None:
        self.mechanisms = mechanisms
        self.metrics = metrics
        self.protocol = protocol
        self.delay_ms = delay_ms
        self.timeout_ms = timeout_ms
        self.alarm = alarm
        self.now_ms = now_ms
        self.call_soon = call_soon
        self._api_versions = api_versions
        self._router = Router(
            {
                ApiKey.API_VERSIONS: self._versions,
                ApiKey.SASL_HANDSHAKE: self._handshake,
                ApiKey.SASL_AUTHENTICATE: self._authenticate,
            },
            metrics,
        )
        #: the context before authentication, and the one after it
        self.outside: ServerContext | None = None
        self.inside: ServerContext | None = None

    def admit(self, connection: Connection) -> None:
        """Begin a session on a new connection."""
        if not connection.closed:
            connection.session = Session(self, connection)

    def serve(self, connection: Connection, frames: Frames, first: int, stop: int) -> int:
        """Serve one request (`Serving`)."""
        session: Session = connection.session
        buf, start, end = frames[first]
        exchange = session.exchange
        if exchange.takes_bare_tokens and exchange.state is State.TOKENS:
            session.bare_token(buf[start:end])
            return 1
        api_key = int.from_bytes(buf[start : min(start + 2, end)], "big", signed=True)
        objection = exchange.objection(api_key)
        if objection is not None:
            connection.refuse("unauthenticated", objection, advice=self._advice(exchange))
            return 1
        if exchange.state is State.COMPLETE:
            session.begin_again()
        return self._router.serve(connection, frames, first, first + 1)

    def _advice(self, exchange: Exchange) -> str:
        """Return the advice for the user of a client whose request is rejected. A client that has authenticated has
        SASL settings.
        """
        if exchange.principal is None:
            return f"set security.protocol={self.protocol} and sasl.mechanism in the client"
        return (
            "use a client that reauthenticates (KIP-368); a session ends after connections.max.reauth.ms, or with its "
            "token, whichever is first"
        )

    def slice(self, context: Any, slices: CooperativeTask) -> None:
        """Run a task, as the router does."""
        self._router.slice(context, slices)

    def failed(self, connection: Connection, codec: Codec) -> None:
        """Close a connection after an error in a handler (`Serving`)."""
        self._router.failed(connection, codec)

    def _versions(self, context: RequestContext, request: Any) -> Any:
        session: Session = context.connection.session
        failed = session.exchange.api_versions_instead()
        if failed is not None:
            session.answer(failed, lambda: context.reply(ApiVersionsResponse(failed.error_code)))
            return None
        response = self._api_versions.answer(context, request)
        if response.error_code == ErrorCode.NONE:
            session.exchange.api_versions()
        return response

    def _handshake(self, context: RequestContext, request: SaslHandshakeRequest) -> None:
        session: Session = context.connection.session
        answer = session.exchange.handshake(request.mechanism, context.api_version)
        response = SaslHandshakeResponse(answer.error_code, session.exchange.offered)
        session.answer(answer, lambda: context.reply(response))

    def _authenticate(self, context: RequestContext, request: SaslAuthenticateRequest) -> None:
        session: Session = context.connection.session
        answer = session.exchange.token(bytes(request.auth_bytes), self.now_ms())
        response = SaslAuthenticateResponse(
            answer.error_code, answer.error_message, answer.auth_bytes, answer.session_lifetime_ms
        )
        session.answer(answer, lambda: context.reply(response))


class Session:
    """State of a connection on a SASL listener, in its attribute `session`."""

    __slots__ = ("_gate", "_timer", "connection", "exchange")

    def __init__(self, gate: SaslGate, connection: Connection) -> None:
        self._gate = gate
        self.connection = connection
        self.exchange = Exchange(gate.mechanisms)
        self._timer: Alarm | None = None
        self._limit_time()

    def _limit_time(self) -> None:
        self._set_timer(self._gate.timeout_ms, self._too_slow)

    def _set_timer(self, delay_ms: int, callback: Callable[[], object]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._gate.alarm(self._gate.now_ms() + delay_ms, callback)

    def lost(self) -> None:
        """Cancel the timer: the connection has ended."""
        if self._timer is not None:
            self._timer.cancel()

    def _too_slow(self) -> None:
        self.connection.refuse(
            "unauthenticated", f"the client has not authenticated within {self._gate.timeout_ms / 1000:g} s"
        )

    def answer(self, answer: Answer, reply: Callable[[], object]) -> None:
        """Send a response: at once if it is a success, otherwise after a delay and as the last one of the
        connection.
        """
        gate, connection = self._gate, self.connection
        if answer.failure is not None:
            gate.metrics.rejected["unauthenticated"] += 1
            log.warning(
                "authentication failed",
                peer=connection.peer,
                client_id=connection.client_id,
                listener=connection.listener,
                reason=answer.failure,
            )
            said_nothing = answer.error_code == ErrorCode.NONE
            self._set_timer(gate.delay_ms, lambda: self._end(None if said_nothing else reply))
            return
        if self.exchange.state is State.COMPLETE:
            self._let_in()
        gate.call_soon(reply)

    def _end(self, reply: Callable[[], object] | None) -> None:
        if not self.connection.closed:
            if reply is not None:
                reply()
            self.connection.closed_for = "malformed"
            self.connection.close()

    def _let_in(self) -> None:
        exchange, connection, gate = self.exchange, self.connection, self._gate
        assert exchange.principal is not None
        assert gate.inside is not None
        connection.principal = exchange.principal
        connection.identity = None
        connection.pass_through(gate.inside)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if exchange.expires_ms is not None:
            self._set_timer(exchange.expires_ms - gate.now_ms(), self._expired)

    def _expired(self) -> None:
        """Return to the gate: the session has ended, and the next request must be a new SaslHandshake. Kafka, too,
        notices it with the next request.
        """
        assert self._gate.outside is not None
        self.connection.pass_through(self._gate.outside)

    def may_begin_again(self) -> bool:
        """Return whether a SaslHandshake begins another exchange."""
        return self.exchange.may_begin_again(self._gate.now_ms())

    def begin_again(self) -> None:
        """Begin another exchange before the gate."""
        assert self._gate.outside is not None
        self.exchange.begin_again(self._gate.now_ms())
        self.connection.pass_through(self._gate.outside)
        self._limit_time()

    def handshake_again(self, context: RequestContext, request: SaslHandshakeRequest) -> None:
        """Handle SaslHandshake on a connection that has authenticated."""
        self.begin_again()
        self._gate._handshake(context, request)

    def bare_token(self, token: bytes) -> None:
        """Handle a token without a request around it, after SaslHandshake v0. The next token is handled in a later turn
        of the event loop: checking a signature takes long enough.
        """
        self.connection.mute(self._gate.call_soon(self.connection.unmute))
        answer = self.exchange.token(token, self._gate.now_ms())
        if answer.failure is not None:  # the protocol has no place for the reason
            self.answer(Answer(failure=answer.failure), lambda: None)
            return
        if self.exchange.state is State.COMPLETE:
            self._let_in()
        line = self.connection.line
        line.out += len(answer.auth_bytes).to_bytes(4, "big") + answer.auth_bytes
        line.flush()


class SaslApis:
    """SaslHandshake and SaslAuthenticate of clients that need not authenticate, or have authenticated."""

    def handlers(self) -> dict[int, Any]:
        """Return the handlers by API key."""
        return {ApiKey.SASL_HANDSHAKE: self.handshake, ApiKey.SASL_AUTHENTICATE: self.authenticate}

    def handshake(self, context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse | None:
        """Handle SaslHandshake v0-v1."""
        session = context.connection.session
        if session is None or not session.may_begin_again():
            return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)
        session.handshake_again(context, request)
        return None

    def authenticate(self, context: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        """Reject SaslAuthenticate v0-v2, which is out of place here."""
        return SaslAuthenticateResponse(
            ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate request received after successful authentication"
        )
