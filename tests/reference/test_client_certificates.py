"""Which client certificates an SSL listener takes, as Kafka: other authorities, times, uses, chains, keys.

Whoever is refused must be told so by an alert: Kafka's clients give up then, and retry for ever without one.
"""

from __future__ import annotations

import datetime
import socket
import ssl
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.daemon import HOST, Daemon, free_port
from tests.reference.broker import prepare_broker

pytestmark = pytest.mark.reference

DAY = datetime.timedelta(days=1)
NOW = datetime.datetime.now(datetime.UTC)
LISTENERS = {"REQUIRED": "required", "REQUESTED": "requested"}


@dataclass
class Issued:
    """A certificate and its key."""

    key: Any
    certificate: x509.Certificate

    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def with_key(self, *chain: Issued) -> bytes:
        key = self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return bytes(key + self.pem() + b"".join(each.pem() for each in chain))


def issue(
    name: str,
    issuer: Issued | None = None,
    *,
    is_authority: bool = False,
    uses: tuple[Any, ...] = (ExtendedKeyUsageOID.CLIENT_AUTH,),
    signs: bool = True,
    begins: datetime.timedelta = -DAY,
    ends: datetime.timedelta = DAY,
    key: Any = None,
) -> Issued:
    """A certificate; signed by itself without an issuer."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW + begins)
        .not_valid_after(NOW + ends)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(
            x509.KeyUsage(signs, False, not signs, False, False, is_authority, is_authority, False, False),
            critical=True,
        )
    )
    if uses and not is_authority:
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    return Issued(key, builder.sign(issuer.key if issuer else key, hashes.SHA256()))


ROOT = issue("root", is_authority=True)
MIDDLE = issue("middle", ROOT, is_authority=True)
OTHER = issue("other", is_authority=True)
SAME_NAME = issue("root", is_authority=True)
HALF_TRUSTED = issue("half trusted", OTHER, is_authority=True)
OLD_MIDDLE = issue("old middle", ROOT, is_authority=True, ends=-DAY / 2)
NO_AUTHORITY = issue("no authority", ROOT)
TRUSTED_ITSELF = issue("trusted itself", OTHER)
SELF_SIGNED = issue("self-signed")
TRUSTED_SELF_SIGNED = issue("trusted self-signed")
TRUSTED = (ROOT, HALF_TRUSTED, TRUSTED_ITSELF, TRUSTED_SELF_SIGNED)
SERVER = issue("localhost", ROOT, uses=(ExtendedKeyUsageOID.SERVER_AUTH,))

CASES: dict[str, bytes | None] = {
    "none": None,
    "good": issue("alice", ROOT).with_key(),
    "no extended use": issue("alice", ROOT, uses=()).with_key(),
    "any extended use": issue("alice", ROOT, uses=(ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,)).with_key(),
    "for servers": issue("alice", ROOT, uses=(ExtendedKeyUsageOID.SERVER_AUTH,)).with_key(),
    "for servers and clients": issue(
        "alice", ROOT, uses=(ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
    ).with_key(),
    "for code": issue("alice", ROOT, uses=(ExtendedKeyUsageOID.CODE_SIGNING,)).with_key(),
    "not for signatures": issue("alice", ROOT, signs=False).with_key(),
    "expired": issue("alice", ROOT, ends=-DAY / 2).with_key(),
    "not yet valid": issue("alice", ROOT, begins=DAY / 2).with_key(),
    "another authority": issue("alice", OTHER).with_key(),
    "another authority, sent along": issue("alice", OTHER).with_key(OTHER),
    "another authority of the same name": issue("alice", SAME_NAME).with_key(),
    "an intermediate, sent along": issue("alice", MIDDLE).with_key(MIDDLE),
    "an intermediate, not sent": issue("alice", MIDDLE).with_key(),
    "an expired intermediate": issue("alice", OLD_MIDDLE).with_key(OLD_MIDDLE),
    "issued by no authority": issue("alice", NO_AUTHORITY).with_key(NO_AUTHORITY),
    "a trusted intermediate without its root": issue("alice", HALF_TRUSTED).with_key(),
    "trusted itself": TRUSTED_ITSELF.with_key(),
    "self-signed": SELF_SIGNED.with_key(),
    "self-signed and trusted": TRUSTED_SELF_SIGNED.with_key(),
    "an authority's": ROOT.with_key(),
    "RSA-2048": issue("alice", ROOT, key=rsa.generate_private_key(65537, 2048)).with_key(),
    "P-384": issue("alice", ROOT, key=ec.generate_private_key(ec.SECP384R1())).with_key(),
}

STRICTER = {
    ("any extended use", "TLSv1_2"): "OpenSSL asks for the use itself",
    ("any extended use", "TLSv1_3"): "OpenSSL asks for the use itself",
    ("P-384", "TLSv1_2"): "keys are agreed on by P-256 alone, and TLS 1.2 has one list of groups for that and for keys",
}
"""What Kafka takes and we do not, and why."""


def outcome(port: int, client: bytes | None, version: ssl.TLSVersion, folder: Path) -> str:
    """`served`, or what the client is told."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    if client is not None:
        path = folder / "client.pem"
        path.write_bytes(client)
        context.load_cert_chain(path)
    try:
        with (
            socket.create_connection((HOST, port), timeout=60) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as peer,
        ):
            peer.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))  # ApiVersions
            return "served" if peer.recv(4) else "closed"
    except ssl.SSLError as error:
        return f"alert {error.reason}"
    except OSError as error:
        return type(error).__name__


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("certificates")
    (made / "server.pem").write_bytes(SERVER.with_key())
    (made / "trusted.pem").write_bytes(b"".join(each.pem() for each in TRUSTED))
    return made


def settings_of(folder: Path) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "trusted.pem"),
        "connection.failed.authentication.delay.ms": "10",
        **{f"listener.name.{name.lower()}.ssl.client.auth": auth for name, auth in LISTENERS.items()},
    }


@pytest.fixture(scope="module")
def kafka(kafka_libs: Path, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    made = prepare_broker(kafka_libs, tmp_path_factory.mktemp("kafka"))
    first = free_port(2)
    ports = {name: first + at for at, name in enumerate(LISTENERS)}
    lines = dict(line.split("=", 1) for line in made.properties_file.read_text().splitlines())
    added = "".join(f",{name}://{HOST}:{port}" for name, port in ports.items())
    lines["listeners"] += added
    lines["advertised.listeners"] += added
    lines["listener.security.protocol.map"] += "".join(f",{name}:SSL" for name in ports)
    lines |= settings_of(folder)
    made.properties_file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    made.format()
    broker = made.start()
    try:
        yield ports
    finally:
        broker.stop()


@pytest.fixture(scope="module")
def ours(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    first = free_port(3)
    ports = {name: first + 1 + at for at, name in enumerate(LISTENERS)}
    settings = settings_of(folder) | {
        "listeners": ",".join([f"PLAINTEXT://{HOST}:{first}", *(f"{n}://{HOST}:{port}" for n, port in ports.items())]),
        "listener.security.protocol.map": ",".join(["PLAINTEXT:PLAINTEXT", *(f"{name}:SSL" for name in ports)]),
    }
    daemon = Daemon(tmp_path_factory.mktemp("ours"), settings, port=first)
    daemon.start()
    try:
        yield ports
    finally:
        daemon.stop()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=lambda each: each.name)
@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("case", CASES)
def test_a_certificate_is_taken_as_by_kafka(
    case: str, listener: str, version: ssl.TLSVersion, kafka: dict[str, int], ours: dict[str, int], folder: Path
) -> None:
    theirs = outcome(kafka[listener], CASES[case], version, folder)
    found = outcome(ours[listener], CASES[case], version, folder)
    print(f"{case}, {listener}, {version.name}: Kafka {theirs}, here {found}")
    expected = "alert" if (case, version.name) in STRICTER else theirs
    assert (found == "served") is (expected == "served"), f"Kafka: {theirs}, here: {found}"
    if found != "served":
        assert found.startswith("alert "), found
