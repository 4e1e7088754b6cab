"""The codec of what librdkafka stores, by version: it compresses only where version 0 of Produce is offered.

Up to librdkafka 2.11.0 gzip, snappy and lz4 need version 0 in the range that ApiVersions offers (KAFKA-18659).
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from coordinatord.testing.wire import Wire
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.records.batch import iterate_batches
from tests.clients.families import toolchains
from tests.clients.kinds import MakeTopic
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.clients, pytest.mark.timeout(600)]

OLDEST = "1.9.2"
"""confluent-kafka has no wheel of this version for Python 3.11, but one for 3.10, which contains librdkafka."""
VERSIONS = (OLDEST, "2.0.2", "2.8.2", "2.11.0", "2.11.1", "2.16.1")
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

LIBRARY_PROGRAM = """
import ctypes, sys
path, bootstrap, topic, codec, size = sys.argv[1:]
library = ctypes.CDLL(path)
pointer, text, failed = ctypes.c_void_p, ctypes.create_string_buffer(500), []
for function in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_topic_new"):
    getattr(library, function).restype = pointer
library.rd_kafka_err2str.restype = ctypes.c_char_p
reported = ctypes.CFUNCTYPE(None, pointer, pointer, ctypes.c_size_t, ctypes.c_int, pointer, pointer)(
    lambda producer, value, length, error, *opaque: error and failed.append(library.rd_kafka_err2str(error).decode())
)
conf = pointer(library.rd_kafka_conf_new())
for name, value in {"bootstrap.servers": bootstrap, "compression.type": codec, "message.max.bytes": "4000000"}.items():
    assert library.rd_kafka_conf_set(conf, name.encode(), value.encode(), text, len(text)) == 0, text.value
library.rd_kafka_conf_set_dr_cb(conf, reported)
producer = pointer(library.rd_kafka_new(0, conf, text, len(text)))
to = pointer(library.rd_kafka_topic_new(producer, topic.encode(), None))
value = b"text " * (int(size) // 5)
copied, partition, length = 2, 0, ctypes.c_size_t(len(value))
assert library.rd_kafka_produce(to, partition, copied, value, length, None, ctypes.c_size_t(0), None) == 0
left = library.rd_kafka_flush(producer, 60_000)
sys.exit("; ".join(failed) if failed else f"{left} unsent" if left else 0)
"""
"""PROGRAM without the package's own code."""


def librdkafka(version: str) -> Path:
    """The shared library in the wheel of a version without a wheel for this Python."""

    def install(directory: Path) -> None:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        wanted = ["--only-binary", ":all:", "--python-version", "3.10", "--platform", "manylinux2014_x86_64"]
        toolchains.run([*pip, *wanted, "--dest", directory, f"confluent-kafka=={version}"])
        (wheel,) = directory.glob("*.whl")
        zipfile.ZipFile(wheel).extractall(directory)

    (library,) = toolchains.installed("librdkafka-of-a-wheel", [version], install).glob("*.libs/librdkafka-*")
    return library


def command_for(version: str) -> list[str | Path]:
    if version == OLDEST:
        return [sys.executable, "-c", LIBRARY_PROGRAM, librdkafka(version)]
    return [toolchains.python(f"confluent-kafka=={version}"), "-c", PROGRAM]


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
def test_a_large_text_is_stored_compressed(version: str, codec: str, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(1)
    command = [*command_for(version), bootstrap, topic, codec, str(SIZE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    assert stored_codec(bootstrap, topic) == CODECS[codec]
