"""Share consumers of librdkafka in a process of their own: the `Clients` of real_clients.py, in one share group.

    python -m bench.share_clients '{"port": 9092, "pid": 4711, "consumers": 60, …}'

The lines are those of real_clients.py. Each consumer has librdkafka's defaults, and acknowledges implicitly: what a
poll has returned is accepted with the next one. One more client writes PER_SECOND records a second to PARTITIONS
partitions.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from bench.child import cpu_at_rest_s
from bench.real_clients import LOG_ERR, LOOK_S, POLL_S, READY_S, VALUE, Json, Order, main
from bench.servers import cpu_s

GROUP, TOPIC = "share-clients", "share-clients"
PARTITIONS, PER_SECOND = 12, 600


class ShareClients:
    """All of them. Each consumer has a thread, as it would have in an application."""

    def __init__(self, order: Order) -> None:
        import confluent_kafka

        self.order = order
        self.records = [0] * order.consumers
        self.failed: str | None = None
        bootstrap: Json = {"bootstrap.servers": f"127.0.0.1:{order.port}", "log_level": LOG_ERR}
        self._kafka = confluent_kafka
        self._producer = confluent_kafka.Producer({**bootstrap, "linger.ms": 0})
        self._prepare(bootstrap)
        for number in range(order.consumers):
            threading.Thread(target=self._consume, args=(number, {**bootstrap, "group.id": GROUP}), daemon=True).start()
        threading.Thread(target=self._produce, daemon=True).start()
        self._wait_until_ready()

    def _prepare(self, bootstrap: Json) -> None:
        from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

        admin = AdminClient(bootstrap)
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(READY_S)
        earliest = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.GROUP, GROUP, incremental_configs=[earliest])
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(READY_S)

    def _produce(self) -> None:
        due_s, number = time.monotonic(), 0
        while True:
            self._producer.produce(TOPIC, VALUE, partition=number % PARTITIONS)
            self._producer.poll(0)
            number += 1
            due_s += 1 / PER_SECOND
            time.sleep(max(0.0, due_s - time.monotonic()))

    def _consume(self, number: int, settings: Json) -> None:
        consumer = self._kafka.ShareConsumer(settings)
        consumer.subscribe([TOPIC])
        while True:
            try:
                messages: list[Any] = consumer.poll(POLL_S)
            except self._kafka.KafkaException as error:
                self.failed = str(error)
                return
            self.records[number] += sum(message.error() is None for message in messages)

    def _wait_until_ready(self) -> None:
        """A share consumer may have no records for a while: all records are read, by however many."""
        until_s = time.monotonic() + READY_S
        while sum(self.records) < PER_SECOND:
            if self.failed or time.monotonic() > until_s:
                raise RuntimeError(self.failed or f"records: {self.records}")
            time.sleep(LOOK_S)
        time.sleep(self.order.warm_s)

    def window(self, seconds: float) -> Json:
        """Let some time go by."""
        records, used_s, own_s = sum(self.records), cpu_s(self.order.pid), time.process_time()
        began_s = time.monotonic()
        time.sleep(seconds)
        used_s = cpu_at_rest_s(self.order.pid) - used_s
        return {
            "wall_s": time.monotonic() - began_s,
            "server_cpu_s": used_s,
            "own_cpu_s": time.process_time() - own_s,
            "records": sum(self.records) - records,
            "failed": self.failed,
        }


if __name__ == "__main__":
    main(Order(**json.loads(sys.argv[1])), ShareClients)
