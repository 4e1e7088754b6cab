"""AlterUserScramCredentials and DescribeUserScramCredentials: the answers of Kafka's controller."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from coordinatord.transport.blocking_client import BlockingConnection
from kafka_wire.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafka_wire.api.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from tests.daemon import HOST, Daemon
from tests.reference.broker import KafkaBroker

pytestmark = pytest.mark.reference

SALT = b"a salt of 19 bytes."
SHA_256, SHA_512 = 1, 2


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    daemon = Daemon(tmp_path_factory.mktemp("ours"))
    daemon.start()
    yield daemon.port
    daemon.stop()


def ask(port: int, request: Any) -> Any:
    with closing(BlockingConnection((HOST, port), "test", 30)) as connection:
        return connection.ask(request, 0)


def put(user: str, mechanism: int = SHA_256, iterations: int = 4096) -> ScramCredentialUpsertion:
    salted = hashlib.pbkdf2_hmac("sha256", b"secret", SALT, 4096)
    return ScramCredentialUpsertion(user, mechanism, iterations, SALT, salted)


def remove(user: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(user, mechanism)


STEPS: list[Any] = [
    AlterUserScramCredentialsRequest([], [put("alice"), put("bob", SHA_512, 8192), put("carol")]),
    AlterUserScramCredentialsRequest([], [put("alice", SHA_512)]),
    DescribeUserScramCredentialsRequest(None),
    DescribeUserScramCredentialsRequest([]),
    DescribeUserScramCredentialsRequest([UserName("alice"), UserName("eve"), UserName("bob"), UserName("bob")]),
    AlterUserScramCredentialsRequest([], [put(""), put("x", 0), put("y", 3), put("z", 1, 4095), put("v", 1, 16385)]),
    AlterUserScramCredentialsRequest([remove("eve"), remove("", 1), remove("bob", SHA_256), remove("bob2", 9)], []),
    AlterUserScramCredentialsRequest([remove("alice")], [put("alice"), put("dave")]),
    AlterUserScramCredentialsRequest([remove("carol"), remove("carol")], []),
    AlterUserScramCredentialsRequest([], [put("dave"), put("dave", SHA_512), put("dave")]),
    AlterUserScramCredentialsRequest([remove("carol"), remove("bob", SHA_512)], [put("alice", SHA_256, 16384)]),
    AlterUserScramCredentialsRequest([], []),
    DescribeUserScramCredentialsRequest(None),
]


def told(response: Any) -> Any:
    results = [
        (
            each.user,
            each.error_code,
            each.error_message,
            sorted((info.mechanism, info.iterations) for info in getattr(each, "credential_infos", [])),
        )
        for each in response.results
    ]
    return getattr(response, "error_code", 0), getattr(response, "error_message", None), sorted(results, key=str)


def test_the_answers_are_kafkas(kafka_broker: KafkaBroker, ours: int) -> None:
    """Kafka's controller answers a change before its broker, which describes, knows of it: that is waited for."""
    for number, request in enumerate(STEPS):
        expected = told(ask(ours, request))
        found = told(ask(kafka_broker.port, request))
        for _ in range(100):
            if found == expected or not isinstance(request, DescribeUserScramCredentialsRequest):
                break
            time.sleep(0.1)
            found = told(ask(kafka_broker.port, request))
        assert found == expected, number
