"""SASL/PLAIN (RFC 4616), with Kafka's messages: PlainSaslServer and PlainServerCallbackHandler."""

from __future__ import annotations

import hmac
from collections.abc import Callable

from coordinatord.transport.security.sasl import Proved, SaslFailed


class Plain:
    """One exchange. `password_of` returns a user's password, None for an unknown user."""

    def __init__(self, password_of: Callable[[str], str | None]) -> None:
        self._password_of = password_of
        self.proved: Proved | None = None

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        """Check a token `[authorization id] NUL user NUL password`."""
        tokens = token.decode("utf-8", "replace").split("\0", 3)
        if len(tokens) != 3:
            raise SaslFailed(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(tokens)}")
        authorization_id, user, password = tokens
        if not user:
            raise SaslFailed("Authentication failed: username not specified")
        if not password:
            raise SaslFailed("Authentication failed: password not specified")
        expected = self._password_of(user)
        # An unknown user takes as long as a wrong password. A password of the settings may have bytes that are not
        # UTF-8.
        known = (expected if expected is not None else password + "x").encode("utf-8", "surrogateescape")
        is_right = hmac.compare_digest(password.encode(), known)
        if expected is None or not is_right:
            raise SaslFailed("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise SaslFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.proved = Proved(user)
        return b""
