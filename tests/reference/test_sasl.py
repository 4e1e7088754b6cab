"""What SASL listeners answer, byte for byte as Kafka: handshakes, tokens, failures, sessions that end (KIP-368).

One difference is meant: Kafka decodes whatever comes instead of a SaslAuthenticate request and answers it with
ILLEGAL_SASL_STATE before it closes the connection; here that holds for ApiVersions, and other requests of clients that
are not known yet are not decoded.
"""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.daemon import HOST, Daemon, free_port
from tests.reference.broker import BrokerDirectory, KafkaBroker, prepare_broker

pytestmark = pytest.mark.reference

HANDSHAKE, AUTHENTICATE, METADATA, API_VERSIONS = 17, 36, 3, 18
MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret" user_bob="word";'
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
TOKENS = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="broker";'
)
REAUTH_MS = 60_000
SHORT_MS = 1_500
WITHIN_S = 0.5
"""A talk that its pauses alone should hold up takes less than this; half of what decides about its answers, or less."""

Message = tuple[int, int, bytes]
"""(API key, version, body); an API key of -1: the body is a bare frame."""

ALICE, BOB, WRONG = b"\0alice\0secret", b"\0bob\0word", b"\0alice\0wrong"


def handshake(mechanism: str, version: int = 1) -> Message:
    return HANDSHAKE, version, struct.pack(">h", len(mechanism)) + mechanism.encode()


def token(content: bytes, version: int = 1) -> Message:
    if version < 2:
        return AUTHENTICATE, version, struct.pack(">i", len(content)) + content
    return AUTHENTICATE, version, bytes([len(content) + 1]) + content + b"\0"


def jwt(**claims: object) -> bytes:
    def part(content: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()

    return f"n,,\x01auth=Bearer {part({'alg': 'none'})}.{part(claims)}.\x01\x01".encode()


NOW = int(time.time())


def mallory(subject: str) -> bytes:
    """Somebody else's token: the answer has the name of the token's principal."""
    return jwt(sub=subject, iat=NOW, exp=NOW + 3_600).replace(b"n,,", b"n,a=mallory,")


EXPIRED = jwt(sub="alice", iat=NOW - 7_200, exp=NOW - 3_600)
METADATA_V0: Message = (METADATA, 0, struct.pack(">i", 0))
TALKS: dict[str, list[Message]] = {
    "PLAIN v0": [handshake("PLAIN"), token(ALICE, 0)],
    "PLAIN v1": [handshake("PLAIN"), token(ALICE, 1)],
    "PLAIN v2": [handshake("PLAIN"), token(ALICE, 2)],
    "bare tokens": [handshake("PLAIN", 0), (-1, 0, ALICE), handshake("PLAIN")],
    "bare token, wrong": [handshake("PLAIN", 0), (-1, 0, WRONG)],
    "an unknown mechanism, v0": [handshake("GSSAPI", 0)],
    "an unknown mechanism": [handshake("CRAM-MD5")],
    "no mechanism": [handshake("")],
    "a wrong password": [handshake("PLAIN"), token(WRONG, 0)],
    "a wrong password, v2": [handshake("PLAIN"), token(WRONG, 2)],
    "an unknown user": [handshake("PLAIN"), token(b"\0eve\0secret")],
    "no password": [handshake("PLAIN"), token(b"\0alice\0")],
    "no user": [handshake("PLAIN"), token(b"\0\0secret")],
    "two tokens": [handshake("PLAIN"), token(b"alice\0secret")],
    "four tokens": [handshake("PLAIN"), token(b"\0alice\0secret\0")],
    "for somebody else": [handshake("PLAIN"), token(b"bob\0alice\0secret")],
    "for oneself": [handshake("PLAIN"), token(b"alice\0alice\0secret")],
    "SCRAM: an unknown user": [handshake("SCRAM-SHA-256"), token(b"n,,n=eve,r=abcdef")],
    "SCRAM: nonsense": [handshake("SCRAM-SHA-512"), token(b"hello")],
    "SCRAM: for somebody else": [handshake("SCRAM-SHA-256"), token(b"n,a=bob,n=alice,r=abcdef")],
    **{
        f"SCRAM: {first!r}": [handshake("SCRAM-SHA-256"), token(first)]
        for first in (
            "n,,n=alice\u00ad,r=abcdef".encode(),
            "n,,n=\uff41lice,r=abcdef".encode(),
            b"n,,n=alice ,r=abcdef",
            b"n,,n=ALICE,r=abcdef",
            b"n,,n=al=ice,r=abcdef",
            b"n,,n==41lice,r=abcdef",
            b"n,,n=alice,r=",
            b"n,,n=alice,r=abcdef,x=",
            b"n,,n=alice,r=abcdef,tokenauth=true",
            b"n,a==2C,n=alice,r=abcdef",
            b"n,a=bob,n=eve,r=abcdef",
            b"n,,n=alice,r=abcdef\n",
            b"y,,n=alice,r=abcdef",
        )
    },
    **{
        f"tokens: the subject {subject!r}": [handshake("OAUTHBEARER"), token(mallory(subject)), token(b"\x01")]
        for subject in ("alice\u00a0", " alice\t", "\0alice", "\u2003alice", "\uff41lice", "alice\x85", "\u00a0", " \t")
    },
    "tokens: expired": [handshake("OAUTHBEARER"), token(EXPIRED), token(b"\x01")],
    "tokens: expired, v2": [handshake("OAUTHBEARER"), token(EXPIRED, 1), token(b"\x01", 2)],
    "tokens: no subject": [handshake("OAUTHBEARER"), token(jwt(iat=NOW, exp=NOW + 3_600)), token(b"\x01")],
    "tokens: nonsense": [handshake("OAUTHBEARER"), token(b"hello")],
    "tokens: for somebody else": [
        handshake("OAUTHBEARER"),
        token(jwt(sub="alice", iat=NOW, exp=NOW + 3_600).replace(b"n,,", b"n,a=bob,")),
    ],
    "a request before": [METADATA_V0],
    "a request instead of a handshake": [(API_VERSIONS, 0, b""), METADATA_V0],
    "ApiVersions instead of a token": [handshake("PLAIN"), (API_VERSIONS, 0, b""), METADATA_V0],
    "ApiVersions instead of a bare token": [handshake("PLAIN", 0), (API_VERSIONS, 0, b"")],
    "a handshake afterwards": [handshake("PLAIN"), token(ALICE), handshake("PLAIN"), token(ALICE)],
    "a handshake afterwards, v0": [handshake("PLAIN"), token(ALICE), handshake("PLAIN", 0)],
    "a token afterwards": [handshake("PLAIN"), token(ALICE), token(ALICE, 0), token(ALICE, 2)],
}
"""What is said on a listener whose sessions do not end."""

AGAIN: dict[str, list[Message]] = {
    "again": [handshake("PLAIN"), token(ALICE), handshake("PLAIN"), token(ALICE, 2)],
    "twice within a second": [
        handshake("PLAIN"), token(ALICE), handshake("PLAIN"), token(ALICE), handshake("PLAIN"),
    ],
    "as somebody else": [handshake("PLAIN"), token(ALICE), handshake("PLAIN"), token(BOB)],
    "with a wrong password": [handshake("PLAIN"), token(ALICE), handshake("PLAIN"), token(WRONG)],
    "with another mechanism": [handshake("PLAIN"), token(ALICE), handshake("OAUTHBEARER"), token(EXPIRED)],
    "ApiVersions instead of a token": [handshake("PLAIN"), token(ALICE), handshake("PLAIN"), (API_VERSIONS, 0, b"")],
    "with an unknown mechanism": [handshake("PLAIN"), token(ALICE), handshake("GSSAPI")],
    "SCRAM after PLAIN": [handshake("PLAIN"), token(ALICE), handshake("SCRAM-SHA-256"), token(b"n,,n=alice,r=a")],
}  # fmt: skip
"""What is said on a listener whose sessions end after a minute."""


def talk(port: int, messages: Sequence[Message], pauses_s: Sequence[float] = ()) -> list[bytes | None]:
    """The answers, None from the end of the connection on. The versions in an ApiVersions response are left out."""
    answers: list[bytes | None] = []
    with socket.create_connection((HOST, port), 20) as line:
        for number, (api_key, version, body) in enumerate(messages):
            with contextlib.suppress(IndexError):
                time.sleep(pauses_s[number])
            header = struct.pack(">hhih", api_key, version, number, -1)
            if api_key == AUTHENTICATE and version >= 2:
                header += b"\0"
            frame = body if api_key == -1 else header + body
            try:
                line.sendall(struct.pack(">i", len(frame)) + frame)
                size = line.recv(4, socket.MSG_WAITALL)
                answer = line.recv(struct.unpack(">i", size)[0], socket.MSG_WAITALL) if len(size) == 4 else None
                if size == bytes(4):
                    answer = b""
            except OSError:
                answer = None
            is_list = api_key == API_VERSIONS and answer is not None and answer[4:6] == b"\0\0"
            answers.append(b"the versions" if is_list else answer)
    return answers


def in_time(talks: Callable[[], Sequence[list[bytes | None]]], limit_s: float) -> Sequence[list[bytes | None]]:
    """What `talks` gives once it has taken less than `limit_s`, or at last: what a session that ends by the clock
    answers says nothing if a busy machine has held the talk up.
    """
    for _ in range(20):
        began_s = time.monotonic()
        answers = talks()
        if time.monotonic() - began_s < limit_s:
            break
    return answers


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    first = free_port(3)
    return {"ONCE": first, "AGAIN": first + 1, "SHORT": first + 2}


def of_listeners(ports: dict[str, int]) -> dict[str, str]:
    settings = {"sasl.enabled.mechanisms": MECHANISMS, "connection.failed.authentication.delay.ms": "50"}
    for name in ports:
        prefix = f"listener.name.{name.lower()}"
        settings |= {
            f"{prefix}.plain.sasl.jaas.config": PLAIN,
            f"{prefix}.scram-sha-256.sasl.jaas.config": SCRAM,
            f"{prefix}.scram-sha-512.sasl.jaas.config": SCRAM,
            f"{prefix}.oauthbearer.sasl.jaas.config": TOKENS,
        }
    return settings | {
        "listener.name.again.plain.connections.max.reauth.ms": str(REAUTH_MS),
        "listener.name.short.plain.connections.max.reauth.ms": str(SHORT_MS),
    }


@pytest.fixture(scope="module")
def kafka(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    made: BrokerDirectory = prepare_broker(kafka_libs, tmp_path_factory.mktemp("kafka"))
    first = free_port(3)
    ports = {"ONCE": first, "AGAIN": first + 1, "SHORT": first + 2}
    text = made.properties_file.read_text()
    lines = dict(line.split("=", 1) for line in text.splitlines())
    ours = ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items())
    lines["listeners"] += f",{ours}"
    lines["advertised.listeners"] += f",{ours}"
    lines["listener.security.protocol.map"] += "".join(f",{name}:SASL_PLAINTEXT" for name in ports)
    lines |= of_listeners(ports)
    made.properties_file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    made.format("--add-scram", "SCRAM-SHA-256=[name=alice,password=secret]")
    broker: KafkaBroker = made.start()
    try:
        yield ports
    finally:
        broker.stop()


@pytest.fixture(scope="module")
def ours(ports: dict[str, int], tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    plain = free_port()
    listeners = ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items())
    settings = {
        **of_listeners(ports),
        "listeners": f"PLAINTEXT://{HOST}:{plain},{listeners}",
        "listener.security.protocol.map": ",".join(["PLAINTEXT:PLAINTEXT", *(f"{n}:SASL_PLAINTEXT" for n in ports)]),
        "listener.name.once.scram-sha-256.sasl.jaas.config": SCRAM.replace(";", ' user_alice="secret";'),
        "listener.name.again.scram-sha-256.sasl.jaas.config": SCRAM.replace(";", ' user_alice="secret";'),
        "test.oauthbearer.unsecured": "true",
        "sasl.oauthbearer.clock.skew.seconds": "0",
    }
    daemon = Daemon(tmp_path_factory.mktemp("ours"), settings, port=plain)
    daemon.start()
    try:
        yield ports
    finally:
        daemon.stop()


@pytest.mark.parametrize("what", TALKS)
def test_a_talk_is_the_same(kafka: dict[str, int], ours: dict[str, int], what: str) -> None:
    assert talk(ours["ONCE"], TALKS[what]) == talk(kafka["ONCE"], TALKS[what])


@pytest.mark.parametrize("what", AGAIN)
def test_a_session_is_renewed_or_not_as_on_kafka(kafka: dict[str, int], ours: dict[str, int], what: str) -> None:
    here, there = in_time(lambda: [talk(ports["AGAIN"], AGAIN[what]) for ports in (ours, kafka)], 2 * WITHIN_S)
    assert here == there


def test_a_request_instead_of_a_token_ends_the_connection(kafka: dict[str, int], ours: dict[str, int]) -> None:
    for first in ([], [handshake("PLAIN"), token(ALICE)]):
        said = [*first, handshake("PLAIN"), METADATA_V0, METADATA_V0]
        assert talk(ours["AGAIN"], said)[-1] is None
        assert talk(kafka["AGAIN"], said)[-1] is None


@pytest.mark.parametrize("pause_s", [0.2, 2.0])
@pytest.mark.parametrize("then", [METADATA_V0, handshake("PLAIN")])
def test_a_session_that_has_ended_serves_a_handshake_alone(
    kafka: dict[str, int], ours: dict[str, int], pause_s: float, then: Message
) -> None:
    said = [handshake("PLAIN"), token(ALICE), then]
    here, there = in_time(
        lambda: [talk(ports["SHORT"], said, (0, 0, pause_s)) for ports in (ours, kafka)], 2 * pause_s + WITHIN_S
    )
    if then is METADATA_V0:  # whose answers have addresses in them
        assert [each is None for each in here] == [each is None for each in there]
    else:
        assert here == there
