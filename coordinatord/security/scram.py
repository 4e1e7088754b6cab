"""SASL/SCRAM-SHA-256 and -512 (RFC 5802, RFC 7677), by the package `scramp`, with Kafka's answers (ScramSaslServer).

Kafka sends no `e=` message when a proof is wrong: the SaslAuthenticate response has the error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

import scramp
from scramp.utils import ScramException

from coordinatord.security.sasl import Proved, SaslFailed, SaslRefused

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
"""Kafka's bounds of both mechanisms."""

_FIRST: Final = re.compile(r"n,(?:a=([^,]*))?,(?:m=[^,]*,)?n=([^,]*),r=")


class Credential(NamedTuple):
    """What the server knows of a password: enough to check a proof, not enough to make one."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


def credential_of(mechanism: str, password: str, iterations: int = MIN_ITERATIONS) -> Credential:
    """A password's credential, with a random salt. Takes some milliseconds."""
    return Credential(*scramp.ScramMechanism(mechanism).make_auth_info(password, iteration_count=iterations))


class Scram:
    """One exchange. `credential_of` returns a user's credential, None for an unknown user."""

    def __init__(self, mechanism: str, credential_of: Callable[[str], Credential | None]) -> None:
        self._server = scramp.ScramMechanism(mechanism).make_server(credential_of)
        self._credential_of = credential_of
        self._user: str | None = None
        self.proved: Proved | None = None

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        """The client's first message, then its final one."""
        message = token.decode("utf-8", "replace")
        try:
            if self._user is None:
                return self._first(message)
            self._server.set_client_final(message)
            answer = self._server.get_server_final()
        except ScramException as error:
            raise SaslRefused(str(error)) from error
        self.proved = Proved(self._user)
        return str(answer).encode()

    def _first(self, message: str) -> bytes:
        found = _FIRST.match(message)
        if found is None:
            raise SaslRefused("Invalid SCRAM client first message format")
        user = _plain_name(found[2])
        if found[1] and _plain_name(found[1]) != user and self._credential_of(user) is not None:
            raise SaslFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self._server.set_client_first(message)  # scramp takes no authorization id at all
        self._user = user
        return str(self._server.get_server_first()).encode()


def _plain_name(sasl_name: str) -> str:
    return sasl_name.replace("=2C", ",").replace("=3D", "=")
