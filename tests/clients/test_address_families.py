"""A listener at `[::]` takes clients of both address families, as on Kafka: three families of clients, by each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.daemon import Daemon, free_port
from tests.support.waiting import PATIENCE_S
from tests.test_listening import needs_ipv6

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300), needs_ipv6]


def kafka_python(bootstrap: str) -> bytes:
    from kafka import KafkaConsumer, KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap)
    producer.send("orders", b"from kafka-python").get(timeout=PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer("orders", bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id="billing")
    value = next(consumer).value
    consumer.close()
    return bytes(value)


def aiokafka(bootstrap: str) -> bytes:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def program() -> bytes:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            await producer.send_and_wait("orders", b"from aiokafka")
        consumer = AIOKafkaConsumer(
            "orders", bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id="billing"
        )
        async with consumer:
            return bytes((await asyncio.wait_for(consumer.getone(), PATIENCE_S)).value)

    return asyncio.run(program())


def librdkafka(bootstrap: str) -> bytes:
    from confluent_kafka import Consumer, Producer

    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("orders", b"from librdkafka")
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    message = consumer.poll(PATIENCE_S)
    assert message is not None
    assert message.error() is None, message.error()
    consumer.close()
    return bytes(message.value())


CLIENTS = {"kafka-python": kafka_python, "aiokafka": aiokafka, "librdkafka": librdkafka}


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_reaches_the_wildcard_address_of_ipv6(name: str, host: str, tmp_path: Path) -> None:
    client: Callable[[str], bytes] = CLIENTS[name]
    port = free_port()
    arguments = ["--listen", f"[::]:{port}", "--advertise", f"{host}:{port}"]
    daemon = Daemon(tmp_path, {"group.initial.rebalance.delay.ms": "0"}, arguments, port=port)
    daemon.start()
    try:
        assert client(f"{host}:{port}") == f"from {name}".encode()
    finally:
        assert daemon.stop() == 0
