"""SCRAM's server as Kafka's: which messages it reads, which name it looks up, which password it takes.

Which first messages Kafka 4.3.0 reads was recorded from its ScramMessages.ClientFirstMessage.
"""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from coordinatord.transport.security.sasl import Proved, SaslFailed, SaslRefused
from coordinatord.transport.security.scram import Credential, Scram, credential_of

MECHANISM = "SCRAM-SHA-256"
NONCE = "server"
SECRET = credential_of(MECHANISM, "secret")


def server_of(**passwords: str) -> Scram:
    """A server that knows these users."""
    known = {user: credential_of(MECHANISM, password) for user, password in passwords.items()}
    return Scram(MECHANISM, known.get, lambda: NONCE)


def final_of(first_bare: bytes, server_first: bytes, password: bytes, *, channel: bytes = b"n,,") -> bytes:
    """The final message of a client that prepares no password, as Kafka's: ScramSaslClient."""
    fields = dict(each.split(b"=", 1) for each in server_first.split(b","))
    salted = hashlib.pbkdf2_hmac("sha256", password, base64.b64decode(fields[b"s"]), int(fields[b"i"]))
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    without_proof = b"c=%s,r=%s" % (base64.b64encode(channel), fields[b"r"])
    message = b",".join((first_bare, server_first, without_proof))
    signature = hmac.digest(hashlib.sha256(client_key).digest(), message, "sha256")
    return without_proof + b",p=" + base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True)))


def logs_in(server: Scram, name: bytes, password: str) -> str | None:
    """The principal's name; None if the server refuses."""
    first_bare = b"n=%s,r=client" % name
    try:
        server_first = server.evaluate(b"n,," + first_bare, 0)
        server.evaluate(final_of(first_bare, server_first, password.encode()), 0)
    except SaslRefused:
        return None
    assert server.proved is not None
    return server.proved.name


@pytest.mark.parametrize(
    "spelling", ["alice\u00ad", "\uff41lice", "al\u0131ce", "a\u0301lice", "ALICE", "alice ", "=41lice"]
)
def test_a_name_is_looked_up_as_it_is_sent(spelling: str) -> None:
    """SASLprep maps the first two to `alice`: with alice's password another principal would be in."""
    asked: list[str] = []

    def find(user: str) -> Credential | None:
        asked.append(user)
        return SECRET if user == "alice" else None

    assert logs_in(Scram(MECHANISM, find), spelling.encode(), "secret") is None
    assert asked in ([], [spelling]), "no other name is looked up, and none that is not ASCII"
    assert logs_in(Scram(MECHANISM, find), b"alice", "secret") == "alice"


@pytest.mark.parametrize("stored", ["\u2168", "\u00aa", "\u212a"])
def test_a_stored_name_of_other_letters_is_not_the_one_that_it_is_prepared_to(stored: str) -> None:
    prepared = {"\u2168": "IX", "\u00aa": "a", "\u212a": "K"}[stored]
    server = Scram(MECHANISM, {stored: SECRET, prepared: credential_of(MECHANISM, "word")}.get)
    assert logs_in(server, prepared.encode(), "secret") is None
    assert logs_in(server_of(**{stored: "secret"}), stored.encode(), "secret") is None, "as with Kafka"


@pytest.mark.parametrize(
    "password", ["p\u00aass", "\u2168", "\u00ad", "pass\u00a0", "\u212a\u0301", "\x07", "\U0001d54f"]
)
def test_a_password_is_its_utf_8_bytes(password: str) -> None:
    assert logs_in(server_of(alice=password), b"alice", password) == "alice"
    assert (
        logs_in(server_of(alice=password), b"alice", {"p\u00aass": "pass", "\u2168": "IX"}.get(password, "x")) is None
    )


def test_bytes_of_a_setting_that_are_no_utf_8_are_a_password() -> None:
    """Python gives such bytes of the command line as half surrogate pairs."""
    server, first_bare = server_of(alice=b"\xff".decode("utf-8", "surrogateescape")), b"n=alice,r=c"
    server.evaluate(final_of(first_bare, server.evaluate(b"n,," + first_bare, 0), b"\xff"), 0)
    assert server.proved == Proved("alice")


@pytest.mark.parametrize(
    ("message", "bare"),
    [
        (b"n,,n=alice,r=abc", b"n=alice,r=abc"),
        (b"n,a=alice,n=alice,r=abc", b"n=alice,r=abc"),
        (b"n,,m=x,n=alice,r=abc", b"n=alice,r=abc"),
        (b"n,,n=alice,r=abc,x=1", b"n=alice,r=abc,x=1"),
        (b"n,,n=alice,r=abc,x=1,x=2", b"n=alice,r=abc,x=2"),
        (b"n,,n=alice,r=abc,zeta=1,b=2,a==", b"n=alice,r=abc,zeta=1,b=2,a=="),
        (b"n,,n=alice,r=abc,tokenauth=false", b"n=alice,r=abc,tokenauth=false"),
    ],
)
def test_a_proof_covers_what_kafka_makes_of_the_first_message(message: bytes, bare: bytes) -> None:
    server = server_of(alice="secret")
    server_first = server.evaluate(message, 0)
    assert server_first.startswith(b"r=abcserver,s=")
    server.evaluate(final_of(bare, server_first, b"secret"), 0)
    assert server.proved == Proved("alice")


@pytest.mark.parametrize(
    "message",
    [
        b"n,,n=alice,r=abc\n",
        b"n,,n=al=ice,r=abc",
        b"n,,n=al=2cice,r=abc",
        b"n,,n=,r=abc",
        b"n,,n=alice,r=",
        b"n,,n=alice,r=a b",
        b"n,,n=alice,r=abc,x=",
        b"n,,n=alice,r=abc,x=1,,",
        b"n,,n=alice,r=abc,1=x",
        b"n,,n=alice\0,r=abc",
        b"n,,n=alice,r=\xc3\xa9",
        b"n,a=,n=alice,r=abc",
        b"y,,n=alice,r=abc",
        b"p=tls-unique,,n=alice,r=abc",
        b"n,,n=alice,r=abc,tokenauth=true",
        b"n,,n=alice,r=abc,tokenauth=TRUE",
    ],
)
def test_other_first_messages_are_refused(message: bytes) -> None:
    """The last two name a delegation token, which must not be taken for a user of that name."""
    with pytest.raises(SaslRefused):
        server_of(alice="secret").evaluate(message, 0)


def test_another_authorization_id_is_refused_in_kafkas_words_only_to_those_who_name_a_user() -> None:
    with pytest.raises(SaslFailed, match="authorization id that is different from username"):
        server_of(alice="secret").evaluate(b"n,a=bob,n=alice,r=abc", 0)
    with pytest.raises(SaslRefused):
        server_of(alice="secret").evaluate(b"n,a=bob,n=eve,r=abc", 0)


@pytest.mark.parametrize(
    "change",
    [
        lambda final: final.replace(b"r=abcserver", b"r=abcother"),
        lambda final: final.replace(b"c=biws", b"c=biwt"),
        lambda final: final.partition(b",p=")[0],
        lambda final: final + b"=",
        lambda final: final[:-4],
        lambda final: final.replace(b",p=", b",p=AAAA"),
        lambda final: final.partition(b",p=")[0] + b",p=",
        lambda final: final.replace(b",p=", b",x=1,p=").replace(b"x=1", b"x=\0"),
        lambda final: b"",
        lambda final: b"\xff" * 100,
    ],
)
def test_a_final_message_that_is_not_the_clients_is_refused(change: object) -> None:
    assert callable(change)
    server = server_of(alice="secret")
    final = final_of(b"n=alice,r=abc", server.evaluate(b"n,,n=alice,r=abc", 0), b"secret")
    with pytest.raises(SaslRefused):
        server.evaluate(change(final), 0)
    assert server.proved is None


def test_each_exchange_has_a_nonce_of_its_own() -> None:
    answers = {Scram(MECHANISM, {"alice": SECRET}.get).evaluate(b"n,,n=alice,r=abc", 0) for _ in range(10)}
    assert len(answers) == 10
    assert all(answer.startswith(b"r=abc") and len(answer.partition(b",")[0]) >= 30 for answer in answers)
