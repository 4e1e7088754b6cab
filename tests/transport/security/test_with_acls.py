"""Whom a client has proved to be is whom ACLs are about: by password, and by certificate through the mapping rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError, TopicAuthorizationFailedError

from tests.daemon import HOST, Daemon, free_port

REFUSED = (TopicAuthorizationFailedError, KafkaTimeoutError)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    port = free_port(3)
    settings = {
        "listeners": f"PLAINTEXT://{HOST}:{port},SASL_SSL://{HOST}:{port + 1},SSL://{HOST}:{port + 2}",
        "test.users": "alice:secret,bob:word",
        "listener.name.ssl.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": r"RULE:^CN=(.*?)\,.*$/$1/,DEFAULT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:alice",
    }
    made = Daemon(tmp_path_factory.mktemp("acls"), settings, port=port)
    made.start()
    yield made
    assert made.stop() == 0


def options(daemon: Daemon, user: str, by: str) -> dict[str, Any]:
    folder = daemon.data_dir / "security"
    if by == "nothing":
        return {"bootstrap_servers": daemon.bootstrap}
    common = {"ssl_cafile": str(folder / "ca.pem")}
    if by == "a certificate":
        own = str(folder / f"{user}.pem")
        return common | {
            "bootstrap_servers": f"{HOST}:{daemon.port + 2}",
            "security_protocol": "SSL", "ssl_certfile": own, "ssl_keyfile": own,
        }  # fmt: skip
    return common | {
        "bootstrap_servers": f"{HOST}:{daemon.port + 1}",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": user,
        "sasl_plain_password": {"alice": "secret", "bob": "word"}[user],
    }


@pytest.mark.parametrize("by", ["a password", "a certificate", "nothing"])
@pytest.mark.parametrize("user", ["alice", "bob"])
def test_a_client_may_do_what_its_principal_may(daemon: Daemon, user: str, by: str) -> None:
    may = user == "alice" and by != "nothing"
    producer = KafkaProducer(**options(daemon, user, by), max_block_ms=60_000 if may else 4_000)
    if may:
        assert producer.send("orders", b"x").get(60).offset >= 0
    else:
        with pytest.raises(REFUSED):
            producer.send("orders", b"x").get(20)
    producer.close()
