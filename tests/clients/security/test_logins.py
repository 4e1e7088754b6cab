"""Real clients log in by each mechanism over TLS, and fail as they fail on Kafka: wrong passwords, expired tokens,
unknown authorities, missing certificates.

Each test runs against coordinatord and, in the tier `reference`, against Kafka, and is held to the same outcome.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme

from coordinatord.base.config import Entry, load
from coordinatord.transport.security.material import made_for
from tests.clients.families import toolchains
from tests.clients.families.toolchains import ToolMissing
from tests.daemon import HOST, Daemon, free_port
from tests.reference.broker import ReferenceUnavailable, kafka_libs, prepare_broker

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

PROGRAMS = Path(__file__).parent / "programs"
WAITS_S = 6.0
"""For clients that try again until their time is over, whatever they were told. Others end as soon as they are refused:
they get the long time, which a slow machine may need.
"""
TIMEOUT_S = 45.0

JAAS = "org.apache.kafka.common.security"
MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"


@dataclasses.dataclass(frozen=True, slots=True)
class Secured:
    """A broker with a SASL_SSL listener, and an SSL one that wants a certificate. `folder` has the certificates."""

    sasl_ssl: str
    ssl: str
    folder: Path


def token(lifetime_s: int) -> str:
    now = int(time.time())

    def part(content: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()

    claims = {"sub": "alice", "iat": now - 7_200, "exp": now + lifetime_s}
    return f"{part({'alg': 'none'})}.{part(claims)}."


def ports() -> dict[str, int]:
    first = free_port(3)
    return {"PLAINTEXT": first, "SASL_SSL": first + 1, "SSL": first + 2}


def listeners(of: dict[str, int]) -> str:
    return ",".join(f"{name}://{HOST}:{port}" for name, port in of.items())


def material(folder: Path, of: dict[str, int]) -> dict[str, str]:
    """The settings of coordinatord; its certificates are made, and another authority's."""
    trustme.CA().cert_pem.write_to_path(folder / "other-ca.pem")
    settings = {
        "listeners": listeners(of),
        "test.users": "alice:secret",
        "test.security.dir": str(folder),
        "test.oauthbearer.unsecured": "true",
        "sasl.enabled.mechanisms": MECHANISMS,
        "listener.name.ssl.ssl.client.auth": "required",
        "group.initial.rebalance.delay.ms": "0",
    }
    made_for(load(flags=[Entry(name, value, "test") for name, value in settings.items()]).settings)
    return settings


def secured(of: dict[str, int], folder: Path) -> Secured:
    return Secured(f"{HOST}:{of['SASL_SSL']}", f"{HOST}:{of['SSL']}", folder)


def coordinatord(directory: Path) -> Iterator[Secured]:
    of = ports()
    daemon = Daemon(directory, material(directory, of), port=of["PLAINTEXT"])
    daemon.start()
    try:
        yield secured(of, directory)
    finally:
        daemon.stop()


def kafka(directory: Path) -> Iterator[Secured]:
    try:
        libs = kafka_libs()
    except ReferenceUnavailable as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing))
        pytest.skip(str(missing))
    of = ports()
    material(directory, of)
    made = prepare_broker(libs, directory / "broker")
    lines = dict(line.split("=", 1) for line in made.properties_file.read_text().splitlines())
    more = listeners({name: port for name, port in of.items() if name != "PLAINTEXT"})
    lines["listeners"] += f",{more}"
    lines["advertised.listeners"] += f",{more}"
    lines["listener.security.protocol.map"] += ",SASL_SSL:SASL_SSL,SSL:SSL"
    prefix = "listener.name.sasl_ssl"
    lines |= {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(directory / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "ca.pem"),
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": MECHANISMS,
        f"{prefix}.plain.sasl.jaas.config": f'{JAAS}.plain.PlainLoginModule required user_alice="secret";',
        f"{prefix}.scram-sha-256.sasl.jaas.config": f"{JAAS}.scram.ScramLoginModule required;",
        f"{prefix}.scram-sha-512.sasl.jaas.config": f"{JAAS}.scram.ScramLoginModule required;",
        f"{prefix}.oauthbearer.sasl.jaas.config": (
            f'{JAAS}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
        ),
        "group.initial.rebalance.delay.ms": "0",
    }
    made.properties_file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    users = [f"{name}=[name=alice,password=secret]" for name in ("SCRAM-SHA-256", "SCRAM-SHA-512")]
    made.format(*[word for user in users for word in ("--add-scram", user)])
    broker = made.start()
    try:
        yield secured(of, directory)
    finally:
        broker.stop()


@pytest.fixture(scope="module", params=[coordinatord, pytest.param(kafka, marks=pytest.mark.reference)])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    yield from request.param(tmp_path_factory.mktemp("secured"))


# ---- clients ---------------------------------------------------------------------------------------------------------
def as_json(told: dict[str, object]) -> list[str]:
    return [json.dumps(told)]


def as_pairs(told: dict[str, object]) -> list[str]:
    return [f"{name}={value}" for name, value in told.items()]


def python(name: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, str(PROGRAMS / name)]


def java() -> list[str]:
    return toolchains.java("Login", toolchains.jars("org.apache.kafka:kafka-clients:4.4.0"), PROGRAMS / "java")


def franz_go() -> list[str]:
    return [toolchains.go("login", PROGRAMS / "go")]


FAMILIES: dict[str, tuple[Callable[[], list[str]], Callable[[dict[str, object]], list[str]]]] = {
    "kafka-python": (python("login_kafka_python.py"), as_json),
    "aiokafka": (python("login_aiokafka.py"), as_json),
    "confluent-kafka": (python("login_confluent.py"), as_json),
    "java": (java, as_pairs),
    "franz-go": (franz_go, as_json),
}

PASSWORD = {"user": "alice", "password": "secret"}
WRONG = {"user": "alice", "password": "wrong"}
GOOD: dict[str, dict[str, object]] = {
    "PLAIN": {"mechanism": "PLAIN", **PASSWORD},
    "SCRAM-SHA-256": {"mechanism": "SCRAM-SHA-256", **PASSWORD},
    "SCRAM-SHA-512": {"mechanism": "SCRAM-SHA-512", **PASSWORD},
    "OAUTHBEARER": {"mechanism": "OAUTHBEARER", "token": token(3_600)},
    "a certificate": {"protocol": "SSL", "key": "alice.pem"},
}
BAD: dict[str, dict[str, object]] = {
    "a wrong password": {"mechanism": "PLAIN", **WRONG},
    "a wrong password by SCRAM": {"mechanism": "SCRAM-SHA-512", **WRONG},
    "an expired token": {"mechanism": "OAUTHBEARER", "token": token(-3_600)},
    "an unknown authority": {"mechanism": "PLAIN", **PASSWORD, "ca": "other-ca.pem"},
    "no certificate": {"protocol": "SSL"},
}
NOT_IN = "Authentication failed: Invalid username or password"
NOT_IN_BY_SCRAM = "invalid credentials with SASL mechanism SCRAM-SHA-512"
OUTCOMES: dict[str, dict[str, tuple[str, str]]] = {
    "kafka-python": dict.fromkeys(BAD, ("KafkaTimeoutError", "Unable to bootstrap")),
    "aiokafka": {
        **dict.fromkeys(BAD, ("KafkaConnectionError", "Unable to bootstrap")),
        # It goes on as if it had logged in. Kafka answers its next request with an empty list of brokers, and the
        # program's time runs out; here the connection is closed.
        "an expired token": ("KafkaConnectionError TimeoutError", ""),
    },
    "confluent-kafka": {
        "a wrong password": ("_AUTHENTICATION", NOT_IN),
        "a wrong password by SCRAM": ("_AUTHENTICATION", NOT_IN_BY_SCRAM),
        "an expired token": ("_AUTHENTICATION", '{"status":"invalid_token"}'),
        "an unknown authority": ("_SSL", "certificate verify failed"),
        "no certificate": ("timeout", ""),
    },
    "java": {
        "a wrong password": ("SaslAuthenticationException", NOT_IN),
        "a wrong password by SCRAM": ("SaslAuthenticationException", NOT_IN_BY_SCRAM),
        "an expired token": ("SaslAuthenticationException", '{"status":"invalid_token"}'),
        "an unknown authority": ("SslAuthenticationException", "SSL handshake failed"),
        "no certificate": ("SslAuthenticationException", "Failed to process post-handshake messages"),
    },
    "franz-go": {
        "a wrong password": ("*fmt.wrapError", NOT_IN),
        "a wrong password by SCRAM": ("*fmt.wrapError", NOT_IN_BY_SCRAM),
        "an expired token": ("*fmt.wrapError", '{"status":"invalid_token"}'),
        "an unknown authority": ("*fmt.wrapError", "certificate signed by unknown authority"),
        # "certificate required" by OpenSSL, "bad certificate" by Java
        "no certificate": ("*tls.permanentError", "certificate"),
    },
}
"""Family -> case -> (the error's class, a part of what it says), on coordinatord and on Kafka alike."""


def said(broker: Secured, family: str, case: dict[str, object], timeout_s: float) -> str:
    """What the family's program prints."""
    find, written = FAMILIES[family]
    try:
        command = find()
    except ToolMissing as missing:
        if os.environ.get("CI") == "true" and family != "franz-go":
            pytest.fail(f"{family}: {missing}")
        pytest.skip(f"skipped: {family} {missing}")
    told = {"protocol": "SASL_SSL", "ca": "ca.pem", **case, "timeout_s": timeout_s}
    told |= {name: str(broker.folder / str(told[name])) for name in ("ca", "key") if name in told}
    name = secrets.token_hex(4)
    told |= {"bootstrap": broker.ssl if told["protocol"] == "SSL" else broker.sasl_ssl, "topic": name, "group": name}
    done = subprocess.run(
        [*command, *written(told)], capture_output=True, text=True, timeout=timeout_s * 4 + 60, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(("ok ", "failed "))]
    assert lines, done.stdout + done.stderr
    print(done.stderr)  # shown if the test fails
    return lines[-1]


@pytest.mark.parametrize("case", GOOD)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_client_logs_in(broker: Secured, family: str, case: str) -> None:
    assert said(broker, family, GOOD[case], TIMEOUT_S) == "ok hello"


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_client_that_cannot_prove_who_it_is_says_what_it_says_on_kafka(
    broker: Secured, family: str, case: str
) -> None:
    names, part = OUTCOMES[family][case]
    gives_up = family == "aiokafka"  # its KafkaConnectionError comes at once
    waits = "timeout" in names.lower() or ("KafkaConnectionError" in names and not gives_up)
    answer = said(broker, family, BAD[case], WAITS_S if waits else TIMEOUT_S)
    assert answer.split()[:2] in [["failed", f"{name}:"] for name in names.split()]
    assert part in answer
