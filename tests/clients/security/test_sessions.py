"""Sessions that end (KIP-368): clients authenticate again on the connections that they have, and nothing is lost."""

from __future__ import annotations

import time
import urllib.request
from pathlib import Path

import pytest

from tests.daemon import HOST, Daemon, free_port

pytestmark = pytest.mark.clients

SESSION_MS = 6_000
"""librdkafka authenticates again when a tenth of it is left."""
WATCHED_S = 19.0


def metric(admin: int, name: str) -> float:
    with urllib.request.urlopen(f"http://{HOST}:{admin}/metrics", timeout=10) as response:
        lines = response.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_consumer_outlives_its_sessions(tmp_path: Path, mechanism: str) -> None:
    from confluent_kafka import Consumer, Producer

    port = free_port(3)
    settings = {
        "listeners": f"PLAINTEXT://{HOST}:{port},SASL_SSL://{HOST}:{port + 1}",
        "admin.listeners": f"{HOST}:{port + 2}",
        "test.users": "alice:secret",
        "connections.max.reauth.ms": str(SESSION_MS),
        "group.initial.rebalance.delay.ms": "0",
    }
    daemon = Daemon(tmp_path, settings, port=port)
    daemon.start()
    try:
        options: dict[str, str | int | float | bool] = {
            "bootstrap.servers": f"{HOST}:{port + 1}",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": "alice",
            "sasl.password": "secret",
            "ssl.ca.location": str(daemon.data_dir / "security" / "ca.pem"),
        }
        before = metric(port + 2, "coordinatord_connections_accepted_total")  # those of the start
        producer = Producer(options)
        consumer = Consumer({**options, "group.id": "g", "auto.offset.reset": "earliest", "heartbeat.interval.ms": 300})
        producer.produce("orders", b"0")
        assert producer.flush(20) == 0
        consumer.subscribe(["orders"])
        seen, sent = 0, 1
        ends_s = time.monotonic() + WATCHED_S
        while time.monotonic() < ends_s or seen < sent:
            assert time.monotonic() < ends_s + 20
            found = consumer.poll(0.2)
            if found is not None:
                assert found.error() is None
                seen += 1
                if time.monotonic() < ends_s:
                    producer.produce("orders", b"next")
                    sent += 1
                    assert producer.flush(20) == 0
        connections = metric(port + 2, "coordinatord_connections_accepted_total") - before
        assert metric(port + 2, 'coordinatord_requests_total{api="SaslHandshake"}') >= connections + 3
        consumer.close()
        assert daemon.events("authentication failed") == []
        closed = [each["reason"] for each in daemon.events("connection closed")]
        late = [each for each in closed if "has expired" in str(each)]  # a busy machine; the client comes back
        assert closed == late
        assert len(daemon.events("rebalance")) <= 4, "nobody was expelled"
    finally:
        daemon.stop()
