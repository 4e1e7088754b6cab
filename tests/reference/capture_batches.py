"""Record the golden batches of tests/golden/records: what Kafka's Java classes and other clients' producers write.

    python -m tests.reference.capture_batches

needs Java 17, Maven, kafka-python, aiokafka and confluent-kafka. The clients produce to a real broker, one topic a
codec, and what its segments then hold is kept: the broker stores a batch as it came, offsets and leader epoch apart.
"""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from tests.reference import broker as reference

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "golden" / "records"
SOURCE = HERE / "java" / "RecordBatches.java"
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
TIME_MS = 1_700_000_000_000


def expected_records() -> Iterator[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]:
    """(timestamp, key, value, headers) of the records in every golden batch; RecordBatches.java makes the same."""
    for i in range(40):
        headers = [("trace", b"id-%d" % i), ("empty", None)] if i % 10 == 3 else []
        key = None if i % 6 == 5 else b"key-%d" % i
        value = None if i % 7 == 6 else b"value-%d-" % i + b"x" * (i * 13)
        yield TIME_MS + i * 7 - (i % 3) * 20, key, value, headers


def java(libs: Path, *arguments: str, text: str = "") -> str:
    """Run RecordBatches.java."""
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{libs}/*", str(SOURCE), *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=True).stdout


def with_kafka_python(bootstrap: str, topic: str, codec: str) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec, linger_ms=50
    )
    for timestamp, key, value, headers in expected_records():
        # kafka-python has no header without a value
        given = [(name, data or b"") for name, data in headers]
        producer.send(topic, key=key, value=value, headers=given, timestamp_ms=timestamp)
    producer.flush(30)
    producer.close()


def with_confluent(bootstrap: str, topic: str, codec: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 50})
    for timestamp, key, value, headers in expected_records():
        producer.produce(topic, key=key, value=value, headers=headers, timestamp=timestamp)
    assert producer.flush(30) == 0


def with_aiokafka(bootstrap: str, topic: str, codec: str) -> None:
    from aiokafka import AIOKafkaProducer

    async def produce() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec, linger_ms=50
        )
        await producer.start()
        sent = []
        for timestamp, key, value, headers in expected_records():
            given = [(name, data or b"") for name, data in headers]
            sent.append(await producer.send(topic, key=key, value=value, headers=given, timestamp_ms=timestamp))
        await asyncio.gather(*sent)
        await producer.stop()

    asyncio.run(produce())


CLIENTS = {"kafka-python": with_kafka_python, "confluent-kafka": with_confluent, "aiokafka": with_aiokafka}


def capture(libs: Path) -> None:
    GOLDEN.mkdir(parents=True, exist_ok=True)
    origin = f"# Kafka's MemoryRecords (kafka-clients {reference.KAFKA_VERSION}), {time.strftime('%Y-%m-%d')}\n"
    (GOLDEN / f"kafka-clients-{reference.KAFKA_VERSION}.tsv").write_text(origin + java(libs, "write"))
    with tempfile.TemporaryDirectory() as directory, reference.running_broker(libs, Path(directory)) as broker:
        for client, produce in CLIENTS.items():
            origin = f"# {client} {version(client)}, as stored by Kafka {reference.KAFKA_VERSION}"
            lines = [f"{origin}, {time.strftime('%Y-%m-%d')}"]
            for codec in CODECS:
                topic = f"{client}.{codec}"
                produce(broker.bootstrap, topic, codec)
                segment = broker.data_dir / f"{topic}-0" / f"{0:020d}.log"
                lines.append(f"{codec}\t{segment.read_bytes().hex()}")
            (GOLDEN / f"{client}-{version(client)}.tsv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    capture(reference.kafka_libs())
