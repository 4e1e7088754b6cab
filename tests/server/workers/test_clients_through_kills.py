"""Real clients, and one of two workers that is killed again and again while they work.

Two groups, one of each worker, with two members each, read what a producer writes and commit after each record, and all
of them note what was acknowledged. The group of the worker that lives must not notice: no error, no rebalance, the
generation that it had. That of the other one comes back from the log: the same members in the same generation, no
commit that was acknowledged lost. And everybody reads each value whose producer was told that it was there.
"""

from __future__ import annotations

import abc
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import Daemon, running
from tests.server.workers.processes import group_of, kill_worker
from tests.support.waiting import wait_until

PARTITIONS = 4
KILLS = 4
"""The sixth death in a row would be the supervisor's end of it."""
BETWEEN_KILLS_S = 1.0
SETTINGS = {"group.initial.rebalance.delay.ms": "1000", "num.partitions": str(PARTITIONS)}
VICTIM = 1


class Client(abc.ABC, threading.Thread):
    """A thread with a client of its own."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.stopping = threading.Event()
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            self.work()
        except BaseException as problem:
            self.problem = problem

    @abc.abstractmethod
    def work(self) -> None: ...

    def end(self) -> None:
        self.stopping.set()
        self.join(60)
        assert not self.is_alive(), f"{self} did not end"
        assert self.problem is None, f"{self}: {self.problem!r}"


class Reader(Client):
    """Commits after each poll; notes values read, commits acknowledged, and errors."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        super().__init__()
        self.bootstrap, self.group, self.topic = bootstrap, group, topic
        self.values: set[bytes] = set()
        self.acknowledged: dict[int, int] = {}
        self.errors: list[str] = []
        self.assignments = 0
        self.assigned: frozenset[int] = frozenset()
        """Partitions, as of its last rebalance."""


class KafkaPythonReader(Reader):
    def work(self) -> None:
        from kafka import KafkaConsumer, TopicPartition
        from kafka.consumer.subscription_state import ConsumerRebalanceListener
        from kafka.errors import KafkaError
        from kafka.structs import OffsetAndMetadata

        reader = self

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_assigned(self, assigned: Any) -> None:
                reader.assigned = frozenset(each.partition for each in assigned)
                reader.assignments += 1

            def on_partitions_revoked(self, revoked: Any) -> None:
                reader.assigned = frozenset()

        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap, group_id=self.group, auto_offset_reset="earliest",
            enable_auto_commit=False, heartbeat_interval_ms=300, metadata_max_age_ms=5_000,
        )  # fmt: skip
        consumer.subscribe([self.topic], listener=Listener())
        while not self.stopping.is_set():
            for partition, records in consumer.poll(timeout_ms=1_000, max_records=10).items():
                self.values.update(record.value for record in records)
                offset = records[-1].offset + 1
                try:
                    consumer.commit(
                        {TopicPartition(self.topic, partition.partition): OffsetAndMetadata(offset, "", -1)}
                    )
                except KafkaError as error:
                    self.errors.append(repr(error))
                else:
                    self.acknowledged[partition.partition] = offset
        consumer.close(autocommit=False)


class ConfluentReader(Reader):
    def work(self) -> None:
        from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap, "group.id": self.group, "auto.offset.reset": "earliest",
                "enable.auto.commit": False, "heartbeat.interval.ms": 300, "reconnect.backoff.max.ms": 500,
                "error_cb": lambda error: None,
            }
        )  # fmt: skip

        def assigned(_consumer: Any, partitions: Any) -> None:
            self.assigned = frozenset(each.partition for each in partitions)
            self.assignments += 1

        def revoked(_consumer: Any, _partitions: Any) -> None:
            self.assigned = frozenset()

        consumer.subscribe([self.topic], on_assign=assigned, on_revoke=revoked)
        while not self.stopping.is_set():
            message = consumer.poll(0.2)
            if message is None:
                continue
            if message.error():
                # The topic is made by the first who asks; KIP-899 and the like are not what this is about.
                if message.error().code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    self.errors.append(str(message.error()))
                continue
            self.values.add(message.value())
            offset = message.offset() + 1
            try:
                answered = consumer.commit(
                    offsets=[TopicPartition(self.topic, message.partition(), offset)], asynchronous=False
                )
            except KafkaException as error:
                self.errors.append(str(error))
            else:
                assert answered[0].error is None
                self.acknowledged[message.partition()] = offset
        consumer.close()


class Writer(Client):
    """Writes numbered values; notes those that were acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__()
        self.bootstrap, self.topic = bootstrap, topic
        self.acknowledged: list[bytes] = []


class KafkaPythonWriter(Writer):
    def work(self) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=self.bootstrap)
        number = 0
        while not self.stopping.wait(0.01):
            value = b"%d" % number
            producer.send(self.topic, value, partition=number % PARTITIONS).get(30)
            self.acknowledged.append(value)
            number += 1
        producer.close()


class ConfluentWriter(Writer):
    def work(self) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 0})
        number = 0

        def delivered(error: Any, message: Any) -> None:
            assert error is None, error
            self.acknowledged.append(message.value())

        while not self.stopping.wait(0.01):
            producer.produce(self.topic, b"%d" % number, partition=number % PARTITIONS, on_delivery=delivered)
            producer.poll(0)
            number += 1
        assert producer.flush(120) == 0


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        pytest.param(KafkaPythonReader, KafkaPythonWriter, id="kafka-python", marks=pytest.mark.clients),
        pytest.param(ConfluentReader, ConfluentWriter, id="confluent-kafka", marks=pytest.mark.clients),
    ],
)
@pytest.mark.timeout(1200)
def test_one_of_two_workers_dies_again_and_again(tmp_path: Path, reader: type[Reader], writer: type[Writer]) -> None:
    with running(tmp_path, SETTINGS, workers=2) as daemon:
        producing = writer(daemon.bootstrap, "orders")
        producing.start()
        wait_until(lambda: producing.acknowledged, "a first value")
        groups = {worker: group_of(worker, 2) for worker in (0, 1)}
        readers = {
            worker: [reader(daemon.bootstrap, group, "orders") for _ in range(2)] for worker, group in groups.items()
        }
        everybody = [each for several in readers.values() for each in several]
        for each in everybody:
            each.start()
        for several in readers.values():
            wait_until(lambda several=several: is_shared(several), "everybody to know of its last rebalance")
        wait_until(lambda: all(each.acknowledged for each in everybody), "a first commit of everybody")
        before = {worker: transitions(daemon, group) for worker, group in groups.items()}
        assert {changes[-1]["new"] for changes in before.values()} == {"Stable"}
        assignments = {each: each.assignments for each in everybody}

        for _ in range(KILLS):
            time.sleep(BETWEEN_KILLS_S)
            kill_worker(daemon, VICTIM)
        count = len(producing.acknowledged)
        wait_until(lambda: len(producing.acknowledged) > count + 100, "the producer goes on")
        producing.end()
        written = set(producing.acknowledged)
        for worker, several in readers.items():
            wait_until(
                lambda several=several: written <= set().union(*(each.values for each in several)),
                f"all {len(written)} values to be read by the group of worker {worker}",
                timeout_s=600,
                seen=lambda several=several: len(set().union(*(each.values for each in several))),
            )
        assert {worker: transitions(daemon, group) for worker, group in groups.items()} == before, "a rebalance"
        assert {each: each.assignments for each in everybody} == assignments
        for each in everybody:
            each.end()
        assert [error for each in readers[1 - VICTIM] for error in each.errors] == [], "the living worker's group"
        found = committed(daemon, list(groups.values()))
        for worker, group in groups.items():
            acknowledged: dict[int, int] = {}
            for each in readers[worker]:
                acknowledged.update(each.acknowledged)
            assert set(acknowledged) == set(range(PARTITIONS))
            for partition, offset in acknowledged.items():
                assert found[group][partition] >= offset, f"{group}, partition {partition}"
        assert len(daemon.events("worker died", worker=VICTIM, how="SIGKILL")) == KILLS


def is_shared(several: list[Reader]) -> bool:
    """Whether each has some partitions, and no two have the same: nobody is still where another one has come since."""
    return all(each.assigned for each in several) and sum(len(each.assigned) for each in several) == PARTITIONS


def transitions(daemon: Daemon, group: str) -> list[dict[str, object]]:
    """What the group has been through, but for its end."""
    return [each for each in daemon.events("group transition", group=group) if each["new"] != "Empty"]


def committed(daemon: Daemon, groups: list[str]) -> dict[str, dict[int, int]]:
    from kafka import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=daemon.bootstrap)
    found: dict[str, dict[int, int]] = defaultdict(dict)
    for group in groups:
        for partition, offset in admin.list_group_offsets(group)[group].items():
            found[group][partition.partition] = offset.offset
    admin.close()
    return found
