"""SASL authentication between a client and a listener, as a state machine of the same shape as Kafka's
SaslServerAuthenticator. Pure: no clock, no socket.

The client may send ApiVersions once; then it selects a mechanism (SaslHandshake); then it sends the tokens of the
mechanism: in SaslAuthenticate requests, or after SaslHandshake v0 as bare frames. A session may end (KIP-368): the
client has to authenticate again in time, with the same mechanism and as the same principal, on the same connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol

from coordinatord.transport.security.principal import USER_TYPE, Principal
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from kafka_wire.java import string_hash

LEAST_REAUTH_INTERVAL_MS: Final = 1_000
"""Least interval between two authentications on a connection, as in Kafka."""

MAX_TOKEN_BYTES: Final = 32 * 1024
"""Limit of one message of a mechanism. Reading an access token of this size, whose header and claims are JSON, takes
two or three milliseconds of the event loop. Kafka's limit is that of the request, sasl.server.max.receive.size.
"""


class SaslFailed(Exception):
    """Authentication has failed; the client gets the message (Kafka's SaslAuthenticationException)."""


class SaslRefused(Exception):
    """Authentication has failed for a reason that the client does not get: it might reveal which users exist (Kafka's
    SaslException).
    """


@dataclass(frozen=True, slots=True)
class Proved:
    """The principal that a client has authenticated as, and the end of the credential (ms); None: it does not end."""

    name: str
    expires_ms: int | None = None


class Server(Protocol):
    """The server's half of one exchange of a mechanism."""

    proved: Proved | None
    """None until the exchange is complete."""

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        """Return the response to the client's token. Raises SaslFailed and SaslRefused."""
        ...


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A mechanism that a listener offers. `max_reauth_ms`: connections.max.reauth.ms, 0 for no limit."""

    name: str
    begin: Callable[[], Server]
    max_reauth_ms: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """Response to a client. `failure`: reason for the log, and the connection ends; None for a success. A failure
    without an error code gets no response.
    """

    error_code: int = ErrorCode.NONE
    error_message: str = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0
    failure: str | None = None


class State(Enum):
    """Next message that is expected of the client."""

    BEGUN = auto()
    """ApiVersions or SaslHandshake."""
    HANDSHAKE = auto()
    """SaslHandshake."""
    TOKENS = auto()
    REAUTH_HANDSHAKE = auto()
    REAUTH_BAD_MECHANISM = auto()
    """A token, which gets no response: the client has begun again with another mechanism."""
    COMPLETE = auto()
    FAILED = auto()


AWAITED: Final = {
    State.BEGUN: (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE),
    State.HANDSHAKE: (ApiKey.SASL_HANDSHAKE,),
    State.TOKENS: (ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS),  # the second only for its error code
    State.REAUTH_HANDSHAKE: (ApiKey.SASL_HANDSHAKE,),
    State.REAUTH_BAD_MECHANISM: (ApiKey.SASL_AUTHENTICATE,),
    State.COMPLETE: (ApiKey.SASL_HANDSHAKE,),
    State.FAILED: (),
}


class Exchange:
    """The exchange of one connection."""

    def __init__(self, mechanisms: Mapping[str, Mechanism]) -> None:
        self.mechanisms = mechanisms
        self.state = State.BEGUN
        #: principal of the last authentication
        self.principal: Principal | None = None
        #: time (ms) until which the client must have authenticated again; None: no limit
        self.expires_ms: int | None = None
        #: tokens are bare frames
        self.takes_bare_tokens = False
        self._mechanism: Mechanism | None = None
        self._server: Server | None = None
        self._began_again_ms: int | None = None

    @property
    def offered(self) -> list[str]:
        """The names of the mechanisms, in the order in which Kafka's HashSet has them."""
        return in_java_order(self.mechanisms)

    def objection(self, api_key: int) -> str | None:
        """Return the reason why a request of this API is rejected now; None if it is served."""
        if api_key in AWAITED[self.state]:
            return None
        if self.state is State.COMPLETE:
            return "the client did not reauthenticate before its session ended"
        name = ApiKey(api_key).title if api_key in ApiKey._value2member_map_ else str(api_key)
        during = "SASL authentication" if self.state is State.TOKENS else "SASL handshake"
        return f"unexpected request of type {name} during {during}"

    def api_versions(self) -> None:
        """Expect SaslHandshake next: ApiVersions got its response."""
        self.state = State.HANDSHAKE

    def api_versions_instead(self) -> Answer | None:
        """Return the response to ApiVersions that comes instead of a token; None if it is not awaited."""
        if self.state is not State.TOKENS:
            return None
        self.state = State.FAILED
        return Answer(ErrorCode.ILLEGAL_SASL_STATE, failure="ApiVersions during SASL authentication")

    def may_begin_again(self, now_ms: int) -> bool:
        """Return whether SaslHandshake of an authenticated client begins a new exchange."""
        if self.state is not State.COMPLETE or self.expires_ms is None:
            return False
        return self._began_again_ms is None or now_ms - self._began_again_ms >= LEAST_REAUTH_INTERVAL_MS

    def begin_again(self, now_ms: int) -> None:
        """Begin the exchange anew: the client authenticates again (KIP-368)."""
        self._began_again_ms = now_ms
        self.state = State.REAUTH_HANDSHAKE

    def handshake(self, mechanism: str, version: int) -> Answer:
        """Return the response to SaslHandshake, without the offered mechanisms."""
        again = self.state in (State.REAUTH_HANDSHAKE, State.COMPLETE)
        found = self.mechanisms.get(mechanism)
        if found is None:
            self.state = State.FAILED
            # Kafka sends no response to a client that has authenticated before.
            error_code = ErrorCode.NONE if again else ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return Answer(error_code, failure=f"Unsupported SASL mechanism {mechanism}")
        self.takes_bare_tokens = version == 0
        if again and found is not self._mechanism:
            self.state = State.REAUTH_BAD_MECHANISM
            return Answer()
        self._mechanism = found
        self._server = found.begin()
        self.state = State.TOKENS
        return Answer()

    def token(self, token: bytes, now_ms: int) -> Answer:
        """Return the response to a token."""
        if self.state is State.REAUTH_BAD_MECHANISM:
            self.state = State.FAILED
            return Answer(failure="another mechanism was asked for than the one first authenticated with")
        mechanism, server = self._mechanism, self._server
        assert mechanism is not None
        assert server is not None
        try:
            if len(token) > MAX_TOKEN_BYTES:
                raise SaslRefused(f"a message of {len(token)} bytes; at most {MAX_TOKEN_BYTES} are read")
            answer = server.evaluate(token, now_ms)
            if server.proved is None:
                return Answer(auth_bytes=answer)
            lifetime_ms = self._complete(mechanism, server.proved, now_ms)
        except SaslFailed as failed:
            return self._failed(str(failed), str(failed))
        except SaslRefused as refused:
            told = f"Authentication failed during {self._what} due to invalid credentials with SASL mechanism"
            return self._failed(f"{told} {mechanism.name}", str(refused))
        return Answer(auth_bytes=answer, session_lifetime_ms=lifetime_ms)

    @property
    def _what(self) -> str:
        return "authentication" if self.principal is None else "re-authentication"

    def _failed(self, told: str, reason: str) -> Answer:
        self.state = State.FAILED
        self._server = None
        return Answer(ErrorCode.SASL_AUTHENTICATION_FAILED, told, failure=reason)

    def _complete(self, mechanism: Mechanism, proved: Proved, now_ms: int) -> int:
        """Complete the authentication. Returns the session's lifetime in ms; 0: it does not end."""
        principal, before = Principal(USER_TYPE, proved.name), self.principal
        if before is not None and before != principal:
            raise SaslFailed(
                f"Cannot change principals during re-authentication from {before.principal_type}.{before.name}: "
                f"{principal.principal_type}.{principal.name}"
            )
        ends = [now_ms + mechanism.max_reauth_ms] if mechanism.max_reauth_ms > 0 else []
        if proved.expires_ms is not None:
            ends.append(proved.expires_ms)
        self.expires_ms = max(now_ms, min(ends)) if ends else None
        self.principal = principal
        self.state = State.COMPLETE
        self._server = None
        return 0 if self.expires_ms is None else self.expires_ms - now_ms


def in_java_order(names: Mapping[str, object]) -> list[str]:
    """Return few names in the order of a java.util.HashSet."""
    slots = 16
    while len(names) > slots * 3 // 4:
        slots *= 2

    def slot(name: str) -> int:
        value = string_hash(name) & 0xFFFFFFFF
        return (value ^ value >> 16) & slots - 1

    return sorted(names, key=slot)
