"""SASL/SCRAM-SHA-256 and -512 (RFC 5802, RFC 7677), the server's side, as in Kafka (ScramSaslServer, ScramMessages,
ScramFormatter).

Kafka prepares neither names nor passwords (no SASLprep): a name is the ASCII text that the client sends, a password its
UTF-8 bytes. So the name that is looked up, the name that the proof covers and the principal are identical. A name with
non-ASCII characters cannot be sent. Kafka sends no `e=` message when a proof is wrong: the SaslAuthenticate response
has the error.

The time that a message takes is linear in its size, which sasl.MAX_TOKEN_BYTES limits. Kafka's regular expressions
recurse for each character of a name, and end with a StackOverflowError from one or two thousand characters on.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from typing import Final, NamedTuple

from coordinatord.transport.security.sasl import Proved, SaslFailed, SaslRefused

MIN_ITERATIONS: Final = 4096
"""Kafka's minimum of both mechanisms."""
SALT_BYTES: Final = 16

_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

# The grammar of ScramMessages.AbstractScramMessage; possessive (`++`), so that the time is linear.
_SASL_NAME: Final = rb"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]++|=2C|=3D)++"
_PRINTABLE: Final = rb"[\x21-\x2b\x2d-\x7e]++"
_VALUE: Final = rb"[\x01-\x2b\x2d-\x7f]++"
_EXTENSIONS: Final = rb"((?:,[A-Za-z]++=" + _VALUE + rb")*)"
_BASE64: Final = rb"(?:[A-Za-z0-9/+]{4})*(?:[A-Za-z0-9/+]{3}=|[A-Za-z0-9/+]{2}==)?"
_FIRST: Final = re.compile(
    rb"n,(?:a=(" + _SASL_NAME + rb"))?,(?:m=" + _VALUE + rb",)?n=(" + _SASL_NAME + rb"),r=(" + _PRINTABLE + rb")"
    + _EXTENSIONS
)  # fmt: skip
_FINAL: Final = re.compile(
    rb"c=(" + _BASE64 + rb"),r=(" + _PRINTABLE + rb")" + _EXTENSIONS + rb",p=(" + _BASE64 + rb")"
)

TOKEN_AUTH: Final = "tokenauth"
"""The extension with which a client names a delegation token instead of a user (ScramLoginModule.TOKEN_AUTH_CONFIG)."""


class Credential(NamedTuple):
    """The server's record of a password: enough to check a proof, not enough to make one."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


def credential_of(mechanism: str, password: str) -> Credential:
    """Return a password's credential, with a random salt. Takes some milliseconds. Bytes of the password that are not
    UTF-8 (`surrogateescape`) are kept as they are.
    """
    digest = _HASHES[mechanism]
    salt = secrets.token_bytes(SALT_BYTES)
    salted = hashlib.pbkdf2_hmac(digest, password.encode("utf-8", "surrogateescape"), salt, MIN_ITERATIONS)
    client_key = hmac.digest(salted, b"Client Key", digest)
    server_key = hmac.digest(salted, b"Server Key", digest)
    return Credential(salt, hashlib.new(digest, client_key).digest(), server_key, MIN_ITERATIONS)


class _Begun(NamedTuple):
    """An exchange whose first messages are sent."""

    user: str
    credential: Credential
    first_bare: bytes
    nonce: bytes
    server_first: bytes


class Scram:
    """One exchange. `credential_of` returns a user's credential, None for an unknown user; `new_nonce` returns the
    server's part of the nonce, printable ASCII without a comma.
    """

    def __init__(
        self,
        mechanism: str,
        credential_of: Callable[[str], Credential | None],
        new_nonce: Callable[[], str] = secrets.token_urlsafe,
    ) -> None:
        self._digest = _HASHES[mechanism]
        self._credential_of = credential_of
        self._new_nonce = new_nonce
        self._begun: _Begun | None = None
        self.proved: Proved | None = None

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        """Return the response to the client's first message, then to its final one."""
        if self._begun is None:
            self._begun = self._first(token)
            return self._begun.server_first
        return self._final(self._begun, token)

    def _first(self, token: bytes) -> _Begun:
        found = _FIRST.fullmatch(token)
        if found is None:
            raise SaslRefused("Invalid SCRAM client first message format")
        authorization_id, sasl_name, client_nonce = found[1] or b"", found[2], found[3]
        extensions = _extensions_of(found[4])
        user = sasl_name.replace(b"=2C", b",").replace(b"=3D", b"=").decode()
        if extensions.get(TOKEN_AUTH, "").lower() == "true":
            raise SaslRefused(f"Token Authentication failed: Invalid tokenId : {user}")
        credential = self._credential_of(user)
        if credential is None:
            raise SaslRefused(f"Invalid user credentials: there is no user {user}")
        if authorization_id not in (b"", user.encode()):
            raise SaslFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        # As ScramMessages composes it: without `m=`. Several extensions have no defined order there (Map.copyOf); here
        # they have the client's.
        first_bare = b"n=%s,r=%s" % (sasl_name, client_nonce)
        first_bare += "".join(f",{name}={value}" for name, value in extensions.items()).encode()
        nonce = client_nonce + self._new_nonce().encode()
        salt = base64.b64encode(credential.salt)
        return _Begun(user, credential, first_bare, nonce, b"r=%s,s=%s,i=%d" % (nonce, salt, credential.iterations))

    def _final(self, begun: _Begun, token: bytes) -> bytes:
        found = _FINAL.fullmatch(token)
        if found is None:
            raise SaslRefused("Invalid SCRAM client final message format")
        channel, nonce, proof = found[1], found[2], binascii.a2b_base64(found[4])
        if nonce != begun.nonce:
            raise SaslRefused("Invalid client nonce in the final client message.")
        without_proof = b"c=%s,r=%s" % (base64.b64encode(binascii.a2b_base64(channel)), nonce)
        message = b",".join((begun.first_bare, begun.server_first, without_proof))
        credential = begun.credential
        signature = hmac.digest(credential.stored_key, message, self._digest)
        client_key = bytes(a ^ b for a, b in zip(signature, proof, strict=False))
        stored_key = hashlib.new(self._digest, client_key).digest()
        if len(proof) != len(signature) or not hmac.compare_digest(stored_key, credential.stored_key):
            raise SaslRefused("Invalid client credentials")
        self.proved = Proved(begun.user)
        return b"v=" + base64.b64encode(hmac.digest(credential.server_key, message, self._digest))


def _extensions_of(written: bytes) -> dict[str, str]:
    """Return name -> value; the last value of each name counts, as in Kafka's Utils.parseMap."""
    pairs = (each.split("=", 1) for each in written.decode().split(",")[1:])
    return {name: value for name, value in pairs}  # noqa: C416
