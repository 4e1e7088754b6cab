"""A Kafka with TLS and users, for tests of clients that need them."""

from __future__ import annotations

import pytest
from kafka import KafkaConsumer

from coordinatord.testing import Kafka
from coordinatord.testing.problems import KafkaError

SETTINGS = {"listeners": "SASL_SSL://127.0.0.1:0", "test.users": "alice:secret"}


@pytest.mark.parametrize("where", ["thread", "process"])
def test_a_client_logs_in_and_the_test_has_its_verbs(where: str) -> None:
    with Kafka(where, topics={"orders": 1}, settings=SETTINGS) as kafka:
        kafka.put("orders", ["one", "two"])
        assert (kafka.security_dir / "SASL_SSL" / "client.properties").exists()
        folder = kafka.security_dir
        for _ in range(2):
            consumer = KafkaConsumer(
                "orders",
                group_id="billing",
                auto_offset_reset="earliest",
                bootstrap_servers=kafka.bootstrap_servers,
                security_protocol="SASL_SSL",
                sasl_mechanism="SCRAM-SHA-256",
                sasl_plain_username="alice",
                sasl_plain_password="secret",
                ssl_cafile=str(folder / "ca.pem"),
            )
            assert next(consumer).value == b"one"
            consumer.close(autocommit=False)
            kafka.restart()
        assert kafka.records("orders") == [b"one", b"two"]
    assert not folder.exists()


def test_without_users_there_is_nothing_to_find() -> None:
    with Kafka() as kafka, pytest.raises(KafkaError, match="There are no users"):
        _ = kafka.security_dir
