"""SCRAM beside its client, and tokens: signed, unsigned, late, of others."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from typing import Any

import jwt
import pytest
import scramp
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from coordinatord.base.config import Settings
from coordinatord.base.config.security import SecuritySettings
from coordinatord.transport.security import SecurityError
from coordinatord.transport.security.mechanisms import Mechanisms
from coordinatord.transport.security.oauthbearer import (
    INVALID_TOKEN,
    InvalidToken,
    OAuthBearer,
    Signed,
    Unsecured,
    Validate,
)
from coordinatord.transport.security.sasl import Proved, SaslFailed, SaslRefused
from coordinatord.transport.security.scram import Credential, Scram, credential_of

NOW = 1_800_000_000_000
SECOND = 1_000

SCRAM = ["SCRAM-SHA-256", "SCRAM-SHA-512"]


def test_without_keys_no_token_is_taken() -> None:
    """The rules of settings refuse this before; a way around them must not end in tokens that nobody checks."""
    settings = Settings(sasl_enabled_mechanisms=("OAUTHBEARER",))
    with pytest.raises(SecurityError, match="cannot check tokens"):
        Mechanisms(settings, "SASL", asyncio.new_event_loop(), lambda mechanism, user: None)


def scram_server(mechanism: str) -> Scram:
    known = {"alice": credential_of(mechanism, "secret"), "a,b=c": credential_of(mechanism, "word")}
    return Scram(mechanism, known.get)


@pytest.mark.parametrize("mechanism", SCRAM)
@pytest.mark.parametrize(("user", "password"), [("alice", "secret"), ("a,b=c", "word")])
def test_scram_proves_a_password_to_both_sides(mechanism: str, user: str, password: str) -> None:
    server = scram_server(mechanism)
    client = scramp.ScramClient([mechanism], user, password)
    client.set_server_first(server.evaluate(client.get_client_first().encode(), NOW).decode())
    assert server.proved is None
    client.set_server_final(server.evaluate(client.get_client_final().encode(), NOW).decode())
    assert server.proved == Proved(user)


@pytest.mark.parametrize("mechanism", SCRAM)
def test_scram_refuses_a_wrong_password_an_unknown_user_and_a_replayed_proof(mechanism: str) -> None:
    server = scram_server(mechanism)
    client = scramp.ScramClient([mechanism], "alice", "wrong")
    client.set_server_first(server.evaluate(client.get_client_first().encode(), NOW).decode())
    final = client.get_client_final().encode()
    with pytest.raises(SaslRefused):
        server.evaluate(final, NOW)
    assert server.proved is None
    with pytest.raises(SaslRefused, match="there is no user nobody"):
        scram_server(mechanism).evaluate(b"n,,n=nobody,r=abc", NOW)
    again = scram_server(mechanism)
    right = scramp.ScramClient([mechanism], "alice", "secret")
    right.set_server_first(again.evaluate(right.get_client_first().encode(), NOW).decode())
    proof = right.get_client_final().encode()
    other = scram_server(mechanism)
    other.evaluate(b"n,,n=alice,r=xyz", NOW)
    with pytest.raises(SaslRefused):
        other.evaluate(proof, NOW)


@pytest.mark.parametrize("token", [b"", b"\xff\xfe", b"y", b"n,,r=abc", b"p=tls-unique,,n=alice,r=x", b"n,,n=,r=" * 99])
def test_scram_takes_no_nonsense(token: bytes) -> None:
    with pytest.raises(SaslRefused):
        scram_server("SCRAM-SHA-256").evaluate(token, NOW)


def test_scram_lets_nobody_act_for_somebody_else() -> None:
    with pytest.raises(SaslFailed, match="authorization id that is different from username"):
        scram_server("SCRAM-SHA-256").evaluate(b"n,a=bob,n=alice,r=abc", NOW)


def test_a_credential_is_made_of_a_salt_and_no_password() -> None:
    one, other = (credential_of("SCRAM-SHA-256", "secret") for _ in range(2))
    assert one != other
    assert isinstance(one, Credential)
    assert one.iterations == 4096
    assert b"secret" not in b"".join((one.salt, one.stored_key, one.server_key))


# ---- tokens ----------------------------------------------------------------------------------------------------------
RSA = rsa.generate_private_key(65537, 2048)
ELSE = ec.generate_private_key(ec.SECP256R1())
CLAIMS: dict[str, Any] = {"sub": "alice", "iat": NOW // 1000 - 5, "exp": NOW // 1000 + 60}
SETTINGS = SecuritySettings(sasl_oauthbearer_expected_issuer="us", sasl_oauthbearer_expected_audience=("kafka", "x"))
SIGNED = {**CLAIMS, "iss": "us", "aud": "kafka"}


def keys() -> dict[str, jwt.PyJWK]:
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(RSA.public_key()))
    return {"k": jwt.PyJWK({**public, "kid": "k", "alg": "RS256"})}


def signed_with(key: Any, algorithm: str, claims: dict[str, Any], kid: str = "k") -> str:
    return jwt.encode(claims, key, algorithm, headers={"kid": kid})


def unsigned(claims: dict[str, Any], header: dict[str, str] | None = None) -> str:
    def part(content: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()

    return f"{part(header or {'alg': 'none'})}.{part(claims)}."


def said(validate: Validate, token: str, authorization_id: str = "") -> tuple[bytes, Proved | None]:
    server = OAuthBearer(validate)
    who = f"a={authorization_id}" if authorization_id else ""
    answer = server.evaluate(f"n,{who},\x01auth=Bearer {token}\x01\x01".encode(), NOW)
    return answer, server.proved


def test_a_signed_token_proves_its_subject_until_it_ends() -> None:
    answer, proved = said(Signed(SETTINGS, keys().get), signed_with(RSA, "RS256", SIGNED))
    assert (answer, proved) == (b"", Proved("alice", CLAIMS["exp"] * 1000))


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (signed_with(RSA, "RS256", {**SIGNED, "exp": NOW // 1000 - 31}), "has expired, beyond the skew"),
        (signed_with(RSA, "RS256", {**SIGNED, "nbf": NOW // 1000 + 31}), "not yet"),
        (signed_with(RSA, "RS256", {**SIGNED, "iss": "them"}), "another issuer"),
        (signed_with(RSA, "RS256", {**SIGNED, "aud": "web"}), "another audience"),
        (signed_with(RSA, "RS256", {k: v for k, v in SIGNED.items() if k != "aud"}), "no audience"),
        (signed_with(RSA, "RS256", {k: v for k, v in SIGNED.items() if k != "exp"}), "no end"),
        (signed_with(RSA, "RS256", {k: v for k, v in SIGNED.items() if k != "iat"}), "no beginning"),
        (signed_with(RSA, "RS256", {**SIGNED, "sub": 5}), "no name"),
        (signed_with(RSA, "RS256", {**SIGNED, "sub": " \t\0"}), "an empty name"),
        (signed_with(RSA, "RS256", {**SIGNED, "sub": "a\ud800"}), "no Unicode"),
        (signed_with(RSA, "RS256", SIGNED, kid="other"), "an unknown key"),
        (signed_with(RSA, "RS512", SIGNED), "an algorithm that is not the key's"),
        (signed_with(ELSE, "ES256", SIGNED), "another key"),
        (unsigned(SIGNED), "no signature"),
        (unsigned(SIGNED, {"alg": "none", "kid": "k"}), "no signature, but a key id"),
        (jwt.encode(SIGNED, "x" * 300, "HS256", headers={"kid": "k"}), "a shared secret"),
        (signed_with(RSA, "RS256", SIGNED)[:-4] + "AAAA", "a changed signature"),
        ("a.b.c", "no token"),
        ("a", "nothing"),
    ],
)
def test_a_token_that_does_not_hold_is_answered_as_kafka_does(token: str, why: str) -> None:
    server = OAuthBearer(Signed(SETTINGS, keys().get))
    answer = server.evaluate(f"n,,\x01auth=Bearer {token}\x01\x01".encode(), NOW)
    assert (answer.decode(), server.proved) == (INVALID_TOKEN, None), why
    with pytest.raises(SaslFailed, match="invalid_token"):
        server.evaluate(b"\x01", NOW)


@pytest.mark.parametrize(
    ("subject", "of_signed", "of_unsecured"),
    [
        ("admin", "admin", "admin"),
        (" admin\t\r\n", "admin", " admin\t\r\n"),
        ("\0\x1fadmin\x20", "admin", "\0\x1fadmin\x20"),
        ("admin\u00a0", "admin\u00a0", "admin\u00a0"),
        ("\u2003admin\u3000", "\u2003admin\u3000", "\u2003admin\u3000"),
        ("admin\x85", "admin\x85", "admin\x85"),
        ("\u00a0", "\u00a0", "\u00a0"),
        ("ad min", "ad min", "ad min"),
        ("\uff41dmin", "\uff41dmin", "\uff41dmin"),
    ],
)
def test_spaces_around_a_subject_are_javas(subject: str, of_signed: str, of_unsecured: str) -> None:
    """ClaimValidationUtils trims what is up to U+0020, OAuthBearerUnsecuredJws nothing; other spaces are a name's."""
    signed = signed_with(RSA, "RS256", {**SIGNED, "sub": subject})
    assert said(Signed(SETTINGS, keys().get), signed)[1] == Proved(of_signed, CLAIMS["exp"] * 1000)
    unsecured = unsigned({**CLAIMS, "sub": subject})
    assert said(Unsecured(SecuritySettings()), unsecured)[1] == Proved(of_unsecured, CLAIMS["exp"] * 1000)


def test_times_are_those_of_the_daemons_clock() -> None:
    token = signed_with(RSA, "RS256", SIGNED)
    assert abs(NOW / 1000 - time.time()) > 3_600, "the test's clock is not the machine's"
    server = OAuthBearer(Signed(SETTINGS, keys().get))
    server.evaluate(f"n,,\x01auth=Bearer {token}\x01\x01".encode(), NOW + 200 * SECOND)
    assert server.proved is None


@pytest.mark.parametrize(
    ("claims", "header", "holds"),
    [
        (CLAIMS, None, True),
        ({**CLAIMS, "exp": NOW // 1000 - 31}, None, False),
        ({**CLAIMS, "iat": NOW // 1000 + 40, "exp": NOW // 1000 + 60}, None, False),
        ({**CLAIMS, "iat": CLAIMS["exp"]}, None, False),
        ({**CLAIMS, "exp": "soon"}, None, False),
        ({**CLAIMS, "exp": float("nan")}, None, False),
        ({**CLAIMS, "exp": float("inf")}, None, False),
        ({**CLAIMS, "exp": 1e308}, None, False),
        ({**CLAIMS, "exp": 10**400}, None, False),
        ({**CLAIMS, "exp": -(10**400)}, None, False),
        ({**CLAIMS, "exp": True}, None, False),
        (CLAIMS, {"alg": "RS256"}, False),
    ],
)
def test_unsecured_tokens_are_for_tests_and_checked_all_the_same(claims: Any, header: Any, holds: bool) -> None:
    _, proved = said(Unsecured(SecuritySettings()), unsigned(claims, header))
    assert (proved is not None) is holds


def test_a_token_of_one_is_not_taken_for_another() -> None:
    with pytest.raises(SaslFailed, match="different from the token's principal name"):
        said(Unsecured(SecuritySettings()), unsigned(CLAIMS), "bob")
    assert said(Unsecured(SecuritySettings()), unsigned(CLAIMS), "alice")[1] is not None


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01host=h\x01\x01",
        b"n,,\x01auth=Bearer a.b.\x01\x01\n",
        b"n,a=,\x01auth=Bearer a.b.\x01\x01",
        b"n,a=\xc3\xa9,\x01auth=Bearer a.b.\x01\x01",
    ],
)
def test_what_is_no_bearers_message_is_refused(message: bytes) -> None:
    with pytest.raises(SaslRefused):
        OAuthBearer(Unsecured(SecuritySettings())).evaluate(message, NOW)


DEEP = base64.urlsafe_b64encode(b"[" * 200_000).decode().rstrip("=")


@pytest.mark.parametrize("validate", [Unsecured(SecuritySettings()), Signed(SETTINGS, keys().get)])
@pytest.mark.parametrize(
    "token", [f"{DEEP}.{DEEP}.", f"{DEEP}.{DEEP}.{DEEP}", "..", "é", "a.b.c.d", "e30.e30.", "bnVsbA.bnVsbA."]
)
def test_nonsense_in_a_token_is_an_invalid_token(validate: Validate, token: str) -> None:
    with pytest.raises(InvalidToken):
        validate(token, NOW)
