"""SASL/OAUTHBEARER (RFC 7628): tokens checked by the package PyJWT, with Kafka's responses (OAuthBearerSaslServer).

The response to an invalid token is `{"status":"invalid_token"}` without an error; the client acknowledges it with one
byte, and then authentication fails with the same text.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from typing import Any, Final

from coordinatord.base.config.security import SecuritySettings
from coordinatord.base.observe.logger import get_logger
from coordinatord.transport.security.sasl import Proved, SaslFailed, SaslRefused
from kafka_wire.java import trim

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signature algorithms with public keys only: a public key must not be accepted as a shared secret."""

MAX_SECONDS: Final = 10**11
"""Maximum time of a claim, the year 5138: no valid token has a later one."""

INVALID_TOKEN: Final = '{"status":"invalid_token"}'

# Possessive (`++`), so that the time is linear.
_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]++|=2C|=3D)++"
_FIRST: Final = re.compile(rf"n,(?:a=({_NAME}))?,\x01((?:[A-Za-z]++=[\x21-\x7e \t\r\n]++\x01)*+)\x01")
_AUTH: Final = re.compile(r"(\w++) ++([-_~+/.a-zA-Z0-9]++=*+)")

log = get_logger("coordinatord.transport.security")


class InvalidToken(Exception):
    """Raised for an invalid token."""


Validate = Callable[[str, int], Proved]
"""(token, now in ms) -> the principal and the end of its session. Raises InvalidToken."""


class OAuthBearer:
    """One exchange."""

    def __init__(self, validate: Validate) -> None:
        self._validate = validate
        self._error: str | None = None
        self.proved: Proved | None = None

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        """Return the response to the client's first message, or to its acknowledgement of an error."""
        if token == b"\x01" and self._error is not None:
            raise SaslFailed(self._error)
        self._error = None
        authorization_id, access_token = _read_first(token)
        try:
            proved = self._validate(access_token, now_ms)
        except InvalidToken as error:
            log.debug("token refused", reason=str(error))
            self._error = INVALID_TOKEN
            return INVALID_TOKEN.encode()
        if authorization_id not in ("", proved.name):
            raise SaslFailed(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different "
                f"from the token's principal name ({proved.name})"
            )
        self.proved = proved
        return b""


def _read_first(token: bytes) -> tuple[str, str]:
    """Return (authorization id or "", access token)."""
    found = _FIRST.fullmatch(token.decode("utf-8", "replace"))
    if found is None:
        raise SaslRefused("Invalid OAUTHBEARER client first message")
    pairs = dict(pair.split("=", 1) for pair in found[2].split("\x01") if pair)
    auth = _AUTH.fullmatch(pairs.get("auth", ""))
    if auth is None or auth[1].lower() != "bearer":
        raise SaslRefused("Invalid OAUTHBEARER client first message: 'auth' is not a bearer's")
    return found[1] or "", auth[2]


class Signed:
    """Validation of tokens with a signature (Kafka's BrokerJwtValidator). `key_of` returns the key of a key id, or
    None.
    """

    def __init__(self, settings: SecuritySettings, key_of: Callable[[str | None], Any]) -> None:
        self._settings = settings
        self._key_of = key_of

    def __call__(self, token: str, now_ms: int) -> Proved:
        import jwt

        settings = self._settings
        audience = list(settings.sasl_oauthbearer_expected_audience) or None
        try:
            key = self._key_of(jwt.get_unverified_header(token).get("kid"))
            if key is None:
                raise InvalidToken("the token's key is not known")
            claims = jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                audience=audience,
                issuer=settings.sasl_oauthbearer_expected_issuer,
                # The times are compared with the daemon's clock, below.
                options={
                    "require": ["exp", "iat"], "verify_exp": False, "verify_nbf": False, "verify_iat": False,
                    "verify_aud": audience is not None, "verify_sub": False, "verify_jti": False,
                },
            )  # fmt: skip
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise InvalidToken(f"{type(error).__name__}: {error}") from error
        return Proved(trim(_subject(claims, settings)), _end(claims, settings, now_ms))


class Unsecured:
    """Validation of tokens without a signature, for tests (Kafka's OAuthBearerUnsecuredValidatorCallbackHandler)."""

    def __init__(self, settings: SecuritySettings) -> None:
        self._settings = settings

    def __call__(self, token: str, now_ms: int) -> Proved:
        parts = token.split(".")
        if len(parts) != 3 or parts[2]:
            raise InvalidToken("a token without a signature has two parts")
        header, claims = (_json_of(part) for part in parts[:2])
        if header.get("alg") != "none":
            raise InvalidToken("the token is signed")
        own = self._settings
        if "iat" in claims:
            issued_ms = _milliseconds(claims, "iat")
            if issued_ms > now_ms + own.sasl_oauthbearer_clock_skew_seconds * 1000:
                raise InvalidToken("the token is issued in the future")
            if issued_ms >= _milliseconds(claims, "exp"):
                raise InvalidToken("the token ends before it is issued")
        return Proved(_subject(claims, own), _end(claims, own, now_ms))


def _subject(claims: dict[str, Any], settings: SecuritySettings) -> str:
    """Return the claim with the principal's name, unchanged. The name is blank if all its characters are up to U+0020.
    Kafka strips such characters from both ends in a signed token (ClaimValidationUtils), and strips none in an
    unsecured token (OAuthBearerUnsecuredJws). Other spaces of Unicode are part of the name. Raises InvalidToken.
    """
    name = claims.get(settings.sasl_oauthbearer_sub_claim_name)
    if not isinstance(name, str) or not trim(name):
        raise InvalidToken(f"the claim {settings.sasl_oauthbearer_sub_claim_name} is no name")
    if any("\ud800" <= each <= "\udfff" for each in name):
        raise InvalidToken(f"the claim {settings.sasl_oauthbearer_sub_claim_name} has half a surrogate pair")
    return name


def _end(claims: dict[str, Any], settings: SecuritySettings, now_ms: int) -> int:
    """Return the end of the token in ms. Raises InvalidToken if the token is not valid now."""
    skew_ms = settings.sasl_oauthbearer_clock_skew_seconds * 1000
    expires_ms = _milliseconds(claims, "exp")
    if expires_ms <= now_ms - skew_ms:
        raise InvalidToken("the token has expired")
    if "nbf" in claims and _milliseconds(claims, "nbf") > now_ms + skew_ms:
        raise InvalidToken("the token does not hold yet")
    return expires_ms


def _milliseconds(claims: dict[str, Any], name: str) -> int:
    """Return a claim's time in ms; RFC 7519's NumericDate is in seconds."""
    seconds = claims.get(name)
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < MAX_SECONDS:
        raise InvalidToken(f"the claim {name} is no time")
    return int(seconds * 1000)


def _json_of(part: str) -> dict[str, Any]:
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise InvalidToken("the token is no JSON") from error
    if not isinstance(found, dict):
        raise InvalidToken("the token is no JSON object")
    return found
