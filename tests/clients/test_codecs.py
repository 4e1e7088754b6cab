"""The codec of what librdkafka stores, by version: it compresses only where version 0 of Produce is offered.

Up to librdkafka 2.11.0 gzip, snappy and lz4 need version 0 in the range that ApiVersions offers (KAFKA-18659).
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from coordinatord.testing.wire import Wire
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.records.batch import iterate_batches
from tests.clients.families import toolchains
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.clients, pytest.mark.timeout(600)]

VERSIONS = ("2.0.2", "2.8.2", "2.11.0", "2.11.1", "2.16.1")
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
SIZE = 3_000_000
"""More than max.message.bytes, unless it is compressed."""

PROGRAM = """
import sys
from confluent_kafka import Producer
bootstrap, topic, codec, size = sys.argv[1:]
failed = []
producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "message.max.bytes": 4_000_000})
producer.produce(topic, b"text " * (int(size) // 5), on_delivery=lambda error, _: error and failed.append(str(error)))
left = producer.flush(60)
sys.exit("; ".join(failed) if failed else f"{left} unsent" if left else 0)
"""


def stored_codec(bootstrap: str, topic: str) -> int:
    """The codec of the only batch of a topic's partition 0."""
    host, port = bootstrap.split(":")
    wire = Wire(lambda: (host, int(port)))
    partition = FetchPartition(0, -1, 0, log_start_offset=-1, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=1_000, min_bytes=1, max_bytes=1 << 20, topics=[FetchTopic(topic, b"", [partition])]
    )
    response = wire.ask(request, 12)
    wire.close()
    [batch] = [header for _, header in iterate_batches(response.responses[0].partitions[0].records)]
    return batch.attributes & 7


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "none"])
def test_a_large_text_is_stored_compressed(
    version: str, codec: str, bootstrap: str, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(1)
    python = toolchains.python(f"confluent-kafka=={version}")
    command = [python, "-c", PROGRAM, bootstrap, topic, codec, str(SIZE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    assert stored_codec(bootstrap, topic) == CODECS[codec]
