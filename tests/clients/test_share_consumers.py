"""Share consumers of confluent-kafka (librdkafka) and a coordinatord: each record once, also after a SIGKILL. Of two
workers each leads a partition; the state of a share partition may be with either.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from coordinatord.cli.groups import look_up
from kafka_wire.records.rebalance_ledger import Redelivery
from tests.clients.librdkafka import admin_client
from tests.daemon import Daemon, running
from tests.server.workers.processes import kill_worker
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.clients

COUNT = 1_000
TOPIC, GROUP = "orders", "pickers"


@pytest.fixture
def confluent_kafka() -> Any:
    if os.environ.get("CI") == "true":
        import confluent_kafka
    else:
        confluent_kafka = pytest.importorskip("confluent_kafka", "2.16", reason="pip install '.[clients]'")
    return confluent_kafka


@pytest.fixture(params=[1, 2], ids=["one process", "two workers"])
def daemon(request: pytest.FixtureRequest, tmp_path: Path, confluent_kafka: Any) -> Iterator[Daemon]:
    """A daemon with a topic of two partitions that has COUNT records, and a share group that begins at the first."""
    with running(tmp_path, {}, workers=request.param) as made:
        prepare(made.bootstrap)
        yield made


def prepare(bootstrap: str) -> None:
    """Create the topic, its records, and the settings of the group."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics({TOPIC: {"num_partitions": 2, "replication_factor": 1}})
    admin.close()
    _from_earliest(bootstrap)
    producer = KafkaProducer(bootstrap_servers=bootstrap, batch_size=500)
    for number in range(COUNT):
        producer.send(TOPIC, str(number).encode(), partition=number % 2)
    producer.close()


def _from_earliest(bootstrap: str) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

    own = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "10"}
    entries = [ConfigEntry(*each, incremental_operation=AlterConfigOpType.SET) for each in own.items()]
    resource = ConfigResource(ConfigResource.Type.GROUP, GROUP, incremental_configs=entries)
    for future in admin_client(bootstrap).incremental_alter_configs([resource]).values():
        future.result()


@pytest.fixture
def member(confluent_kafka: Any, daemon: Daemon) -> Iterator[Any]:
    """Return a function that makes a share consumer, in explicit mode; all of them are closed at the end."""
    with share_consumers(daemon.bootstrap) as make:
        yield make


@contextlib.contextmanager
def share_consumers(bootstrap: str) -> Iterator[Callable[[], Any]]:
    """The function of the fixture `member`."""
    from confluent_kafka import ShareConsumer

    made = []

    def make() -> Any:
        consumer = ShareConsumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "share.acknowledgement.mode": "explicit",
                "log_level": 0,
            }
        )
        consumer.subscribe([TOPIC])
        made.append(consumer)
        return consumer

    yield make
    for consumer in made:
        consumer.close()


def poll(consumer: Any) -> list[Any]:
    """Return the records of one poll; an error only means that the consumer tries again."""
    return [message for message in consumer.poll(1.0) if message.error() is None]


def commit(consumer: Any) -> bool:
    """Return whether all acknowledgements were accepted."""
    results = consumer.commit_sync(PATIENCE_S)
    return all(error is None for error in results.values())


def number_of(message: Any) -> int:
    return int(message.value())


def test_two_members_get_each_record_once(confluent_kafka: Any, member: Any) -> None:
    consumers = [member(), member()]
    seen: Counter[int] = Counter()
    counts = [0, 0]
    deadline_s = time.monotonic() + 2 * PATIENCE_S
    while len(seen) < COUNT:
        assert time.monotonic() < deadline_s, f"{len(seen)} records of {COUNT}"
        for index, consumer in enumerate(consumers):
            messages = poll(consumer)
            counts[index] += len(messages)
            for message in messages:
                seen[number_of(message)] += 1
                assert message.delivery_count() == 1
                consumer.acknowledge(message)
            if messages:
                assert commit(consumer)
    assert set(seen.values()) == {1}
    assert sum(counts) == COUNT


def test_released_records_come_again_and_rejected_ones_do_not(
    confluent_kafka: Any, daemon: Daemon, member: Any
) -> None:
    """Release the first delivery of every third record, reject every fifth. `groups why` shows the releases."""
    types = confluent_kafka.AcknowledgeType
    consumer = member()
    seen: Counter[int] = Counter()
    expected = {number: 2 if number % 3 == 0 else 1 for number in range(COUNT)}
    deadline_s = time.monotonic() + 2 * PATIENCE_S
    while seen.total() < sum(expected.values()):
        assert time.monotonic() < deadline_s, f"{seen.total()} deliveries"
        messages = poll(consumer)
        for message in messages:
            number = number_of(message)
            seen[number] += 1
            is_first = seen[number] == 1
            if number % 3 == 0 and is_first:
                consumer.acknowledge(message, types.RELEASE)
            else:
                consumer.acknowledge(message, types.REJECT if number % 5 == 0 else types.ACCEPT)
        if messages:
            assert commit(consumer)
    assert dict(seen) == expected

    def released() -> dict[int, int]:
        """The number of released records by partition, from the ledger, which is written a moment later."""
        counts: Counter[int] = Counter()
        for record in look_up(daemon.bootstrap, GROUP, COUNT)[1] or ():
            assert record["cause"] == Redelivery.RELEASED
            counts[record["partition"]] += record["count"]
        return counts

    by_partition = Counter(number % 2 for number in range(0, COUNT, 3))
    wait_until(lambda: released() == by_partition)


def crash(daemon: Daemon) -> None:
    """SIGKILL of all processes, and another start."""
    daemon.kill()
    daemon.start()


def crash_of_a_worker(daemon: Daemon) -> None:
    """SIGKILL of one worker. The supervisor starts it again, and the other one serves meanwhile."""
    if daemon.workers == 1:
        pytest.skip("there is one process")
    kill_worker(daemon, 1)


@pytest.mark.parametrize("fail", [crash, crash_of_a_worker])
def test_after_sigkill_no_acknowledged_record_comes_again_and_no_other_is_lost(
    confluent_kafka: Any, daemon: Daemon, member: Any, fail: Callable[[Daemon], None]
) -> None:
    """Kill processes while a member has acknowledged some of the records that it has acquired."""
    acknowledge_through_a_failure(member, lambda: fail(daemon))


def acknowledge_through_a_failure(member: Callable[[], Any], fail: Callable[[], object]) -> None:
    """Acknowledge some records, hold others, `fail`, and acknowledge the others: no record that was acknowledged comes
    again.
    """
    from confluent_kafka import AcknowledgeType

    consumer = member()
    acknowledged: set[int] = set()
    deadline_s = time.monotonic() + PATIENCE_S
    while len(acknowledged) < COUNT // 4:  # of the third of each partition that is accepted
        assert time.monotonic() < deadline_s, f"{len(acknowledged)} records"
        messages = poll(consumer)
        taken = [message for message in messages if number_of(message) // 2 % 3 == 0]
        for message in messages:
            consumer.acknowledge(message, AcknowledgeType.ACCEPT if message in taken else AcknowledgeType.RELEASE)
        if messages and commit(consumer):
            acknowledged |= {number_of(message) for message in taken}
    while not (held := poll(consumer)):
        assert time.monotonic() < deadline_s, "nothing is left to hold"
    fail()
    left = set(range(COUNT)) - acknowledged
    assert {number_of(message) for message in held} <= left
    for message in held:
        consumer.acknowledge(message, AcknowledgeType.RELEASE)  # if its session is gone, they are released already
    # Each of the two has a partition for itself.
    consumers = consumer, member()
    again: set[int] = set()
    deadline_s = time.monotonic() + 2 * PATIENCE_S
    while again != left:
        assert time.monotonic() < deadline_s, f"{len(left - again)} records are missing"
        for each in consumers:
            messages = poll(each)
            for message in messages:
                again.add(number_of(message))
                each.acknowledge(message)
            if messages:
                commit(each)
        assert again <= left, f"acknowledged records came again: {sorted(again - left)[:10]}"
