"""The state machine of SASL: what is served when, with which answer. Kafka's SaslServerAuthenticator is the model."""

from __future__ import annotations

import pytest

from coordinatord.transport.security.plain import Plain
from coordinatord.transport.security.principal import Principal
from coordinatord.transport.security.sasl import MAX_TOKEN_BYTES, Exchange, Mechanism, Proved, SaslRefused, State
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode

USERS = {"alice": "secret", "bob": "word"}
ALICE = b"\0alice\0secret"
NOW = 1_000_000


class Two:
    """A mechanism of two tokens; the second says when the credential ends, and nothing says why it fails."""

    def __init__(self) -> None:
        self.proved: Proved | None = None
        self.heard = 0

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        self.heard += 1
        if self.heard == 1:
            return b"challenge"
        if token == b"no":
            raise SaslRefused("nobody is told this")
        self.proved = Proved("alice", int(token))
        return b"done"


def exchange(max_reauth_ms: int = 0) -> Exchange:
    plain = Mechanism("PLAIN", lambda: Plain(USERS.get), max_reauth_ms)
    two = Mechanism("TWO", Two, max_reauth_ms)
    return Exchange({"PLAIN": plain, "TWO": two})


def authenticated(max_reauth_ms: int = 60_000) -> Exchange:
    made = exchange(max_reauth_ms)
    made.handshake("PLAIN", 1)
    assert made.token(ALICE, NOW).failure is None
    return made


def served(of: Exchange) -> set[int]:
    return {key for key in ApiKey if of.objection(key) is None}


def test_before_anything_else_only_three_requests_are_served_each_in_its_turn() -> None:
    made = exchange()
    assert served(made) == {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}
    made.api_versions()
    assert served(made) == {ApiKey.SASL_HANDSHAKE}
    made.handshake("PLAIN", 1)
    assert served(made) == {ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS}, "the second for its error code"
    assert made.objection(ApiKey.METADATA) == "unexpected request of type Metadata during SASL authentication"
    assert made.objection(9999) == "unexpected request of type 9999 during SASL authentication"


def test_who_proves_it_is_that_principal() -> None:
    made = exchange()
    assert made.handshake("PLAIN", 1).error_code == ErrorCode.NONE
    answer = made.token(ALICE, NOW)
    assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", 0)
    assert made.principal == Principal("User", "alice")
    assert made.state is State.COMPLETE
    assert made.expires_ms is None


def test_a_message_that_is_too_large_is_not_read() -> None:
    """Whatever the mechanism: reading it would hold the event loop for a client that nobody knows."""
    two = Two()
    made = Exchange({"TWO": Mechanism("TWO", lambda: two)})
    made.handshake("TWO", 1)
    assert made.token(bytes(MAX_TOKEN_BYTES), NOW).failure is None
    answer = made.token(bytes(MAX_TOKEN_BYTES + 1), NOW)
    assert (answer.error_code, two.heard) == (ErrorCode.SASL_AUTHENTICATION_FAILED, 1)
    assert answer.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism TWO"
    )
    assert answer.failure == "a message of 32769 bytes; at most 32768 are read"
    assert made.state is State.FAILED


def test_an_unknown_mechanism_ends_it_with_the_list_of_those_offered() -> None:
    made = exchange()
    answer = made.handshake("GSSAPI", 1)
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.failure == "Unsupported SASL mechanism GSSAPI"
    assert served(made) == set()


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0secret", "Authentication failed: Invalid username or password"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"a\0b\0c\0d", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (
            b"bob\0alice\0secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
    ],
)
def test_a_wrong_proof_fails_with_kafkas_words(token: bytes, told: str) -> None:
    made = exchange()
    made.handshake("PLAIN", 1)
    answer = made.token(token, NOW)
    assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, told)
    assert made.principal is None
    assert served(made) == set()


def test_a_reason_that_tells_too_much_stays_in_the_log() -> None:
    made = exchange()
    made.handshake("TWO", 1)
    assert made.token(b"first", NOW).auth_bytes == b"challenge"
    answer = made.token(b"no", NOW)
    assert answer.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism TWO"
    )
    assert answer.failure == "nobody is told this"


def test_bare_tokens_follow_version_0_of_the_handshake_alone() -> None:
    for version, bare in ((0, True), (1, False)):
        made = exchange()
        made.handshake("PLAIN", version)
        assert made.takes_bare_tokens is bare


@pytest.mark.parametrize(
    ("max_reauth_ms", "credential_ends_ms", "lifetime_ms"),
    [(0, 5_000, 5_000), (3_000, 5_000, 3_000), (60_000, 5_000, 5_000), (60_000, -1, 0)],
)
def test_a_session_ends_with_the_credential_or_the_setting(
    max_reauth_ms: int, credential_ends_ms: int, lifetime_ms: int
) -> None:
    made = exchange(max_reauth_ms)
    made.handshake("TWO", 1)
    made.token(b"first", NOW)
    answer = made.token(str(NOW + credential_ends_ms).encode(), NOW)
    assert answer.session_lifetime_ms == lifetime_ms
    assert made.expires_ms == NOW + lifetime_ms


def test_a_session_is_renewed_by_the_same_principal_with_the_same_mechanism() -> None:
    made = authenticated()
    later = NOW + 30_000
    assert made.may_begin_again(later)
    made.begin_again(later)
    assert served(made) == {ApiKey.SASL_HANDSHAKE}
    assert made.handshake("PLAIN", 1).failure is None
    assert made.token(ALICE, later).session_lifetime_ms == 60_000
    assert made.expires_ms == later + 60_000
    assert not made.may_begin_again(later + 999)
    assert made.may_begin_again(later + 1_000)


def test_a_session_without_an_end_is_not_renewed() -> None:
    assert not authenticated(max_reauth_ms=0).may_begin_again(NOW + 10)
    assert not exchange().may_begin_again(NOW)


def test_nobody_becomes_somebody_else() -> None:
    made = authenticated()
    made.begin_again(NOW)
    made.handshake("PLAIN", 1)
    answer = made.token(b"\0bob\0word", NOW)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Cannot change principals during re-authentication from User.alice: User.bob"
    assert made.principal == Principal("User", "alice")


def test_another_mechanism_fails_without_an_answer_to_its_token() -> None:
    made = authenticated()
    made.begin_again(NOW)
    assert made.handshake("TWO", 1).error_code == ErrorCode.NONE
    answer = made.token(b"first", NOW)
    assert answer.failure is not None
    assert (answer.error_code, served(made)) == (ErrorCode.NONE, set())


def test_an_unknown_mechanism_is_not_answered_to_who_was_known() -> None:
    made = authenticated()
    made.begin_again(NOW)
    answer = made.handshake("GSSAPI", 1)
    assert (answer.error_code, answer.failure) == (ErrorCode.NONE, "Unsupported SASL mechanism GSSAPI")


def test_a_failed_renewal_says_so() -> None:
    made = authenticated()
    made.begin_again(NOW)
    made.handshake("PLAIN", 1)
    assert made.token(b"\0alice\0wrong", NOW).error_message == "Authentication failed: Invalid username or password"
    made = exchange(60_000)
    made.handshake("TWO", 1)
    made.token(b"first", NOW)
    made.token(str(NOW + 60_000).encode(), NOW)
    made.begin_again(NOW)
    made.handshake("TWO", 1)
    made.token(b"first", NOW)
    told = made.token(b"no", NOW).error_message
    assert told == "Authentication failed during re-authentication due to invalid credentials with SASL mechanism TWO"


@pytest.mark.parametrize(
    ("enabled", "listed"),
    [
        # recorded from new ArrayList<>(new HashSet<>(…)) on Java 17
        ("PLAIN SCRAM-SHA-256 SCRAM-SHA-512 OAUTHBEARER", "PLAIN SCRAM-SHA-512 SCRAM-SHA-256 OAUTHBEARER"),
        ("OAUTHBEARER SCRAM-SHA-512 SCRAM-SHA-256 PLAIN", "SCRAM-SHA-512 PLAIN SCRAM-SHA-256 OAUTHBEARER"),
        ("SCRAM-SHA-256 PLAIN", "PLAIN SCRAM-SHA-256"),
    ],
)
def test_mechanisms_are_listed_in_the_order_of_a_java_set(enabled: str, listed: str) -> None:
    mechanisms = {name: Mechanism(name, lambda: Plain(USERS.get)) for name in enabled.split()}
    assert Exchange(mechanisms).offered == listed.split()
