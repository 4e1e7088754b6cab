"""The reference itself works: jars arrive, a broker starts, its tools run, it stops."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reference.broker import KafkaBroker, running_broker

pytestmark = pytest.mark.reference


def eventually(condition: Callable[[], bool], within_s: float = 30) -> bool:
    """Wait for what the broker does after it has answered (it makes a topic's directories then)."""
    deadline = time.monotonic() + within_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def test_the_broker_serves_its_own_tools(kafka_broker: KafkaBroker) -> None:
    kafka_broker.tool("TopicCommand", "--create", "--topic", "ask", "--partitions", "3")
    assert "ask" in kafka_broker.tool("TopicCommand", "--list").split()
    assert eventually((kafka_broker.data_dir / "ask-2").is_dir)
    assert kafka_broker.tool("ConsumerGroupCommand", "--list").strip() == ""
    assert "Kafka Server started" in kafka_broker.log_file.read_text()


def test_overrides_reach_the_broker_and_it_stops(kafka_libs: Path, tmp_path: Path) -> None:
    with running_broker(kafka_libs, tmp_path, {"num.partitions": "5"}) as broker:
        broker.tool("TopicCommand", "--create", "--topic", "five")
        directories = {f"five-{n}" for n in range(5)}
        assert eventually(lambda: {path.name for path in broker.data_dir.glob("five-*")} == directories)
        port = broker.port
    assert broker.process.poll() is not None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_dump_log_segments_reads_a_segment(
    kafka_broker: KafkaBroker, kafka_tool: Callable[..., str], tmp_path: Path
) -> None:
    segment = next((kafka_broker.data_dir / "__cluster_metadata-0").glob("*.log"))
    printed = kafka_tool("DumpLogSegments", "--files", str(segment), "--cluster-metadata-decoder")
    assert "REGISTER_BROKER_RECORD" in printed
