"""What the captured clients do: small programs that use a client's API broadly, so that its frames show all it sends.

Each takes the address to bootstrap from and a word that makes its topics and groups its own. They assert little: their
frames are what matters. A program's steps are bounded in time, so that a broker that does not answer ends them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

from tests.support.waiting import PATIENCE_S

RECORDS = 40
MEMBERS = 2
SESSION_TIMEOUT_MS = 10_000


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S} s for {what}"
        time.sleep(0.05)


def attempt(call: Callable[..., Any], *arguments: Any) -> None:
    """Make a call that the broker, or the client itself, may refuse; say so when it does."""
    try:
        call(*arguments)
    except Exception as refusal:
        print(f"  {call.__name__}: {type(refusal).__name__}: {refusal}")


def in_threads(work: Callable[[int], None], count: int) -> None:
    """Run `work(n)` for n below `count` at the same time, and raise what any of them raised."""
    problems: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(4 * PATIENCE_S)
    if problems:
        raise problems[0]


def kafka_python(bootstrap: str, word: str) -> None:
    """kafka-python: idempotent producer, a group of two members, a static member, seeks, the admin client."""
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import ConfigResource, ConfigResourceType, MemberToRemove, NewTopic
    from kafka.structs import OffsetAndMetadata

    topic, group = f"{word}-topic", f"{word}-group"
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, 4, 1)])
    admin.wait_for_topics([topic])

    for compression in (None, "gzip"):
        producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=compression, linger_ms=50)
        for number in range(RECORDS):
            producer.send(topic, key=b"%d" % number, value=b"value-%d" % number, headers=[("h", b"1")])
        producer.flush()
        producer.close()

    def member(**settings: Any) -> Any:
        return KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=500,
            **settings,
        )

    seen, assigned = [0] * MEMBERS, [0] * MEMBERS
    arrived, left = threading.Event(), threading.Event()

    def consume(number: int) -> None:
        consumer = member(client_id=f"{word}-{number}")
        deadline = time.monotonic() + PATIENCE_S
        while not arrived.is_set():
            assert time.monotonic() < deadline, "the records did not arrive"
            seen[number] += sum(map(len, consumer.poll(timeout_ms=2_000).values()))
            assigned[number] = len(consumer.assignment())
            if sum(seen) >= 2 * RECORDS and assigned == [4 // MEMBERS] * MEMBERS:
                arrived.set()  # for both: when one leaves, the other one has all partitions
        consumer.commit()
        if number == 0:
            consumer.close()  # leaves: the other one takes over
            left.set()
            return
        assert left.wait(PATIENCE_S)
        wait_for(lambda: bool(consumer.poll(timeout_ms=2_000)) or len(consumer.assignment()) == 4, "all partitions")
        partition = TopicPartition(topic, 0)
        consumer.seek_to_beginning(partition)
        consumer.poll(timeout_ms=500)
        consumer.seek_to_end(partition)
        consumer.pause(partition)
        consumer.commit({partition: OffsetAndMetadata(1, "by hand", -1)})
        consumer.committed(partition)
        consumer.beginning_offsets([partition])
        consumer.end_offsets([partition])
        consumer.offsets_for_times({partition: 0})
        consumer.topics()
        consumer.close()

    in_threads(consume, MEMBERS)

    static = member(group_instance_id=f"{word}-static", partition_assignment_strategy=_kafka_python_cooperative())
    wait_for(lambda: bool(static.poll(timeout_ms=2_000)) or len(static.assignment()) == 4, "a static member's share")
    static.commit()

    admin.describe_cluster()
    admin.list_groups()
    admin.describe_groups([group, f"{word}-nobody"])
    admin.list_group_offsets({group: None})
    admin.list_topics()
    admin.describe_topics([topic])
    attempt(admin.describe_topic_partitions, [topic])
    admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    attempt(admin.delete_group_offsets, group, [TopicPartition(topic, 1)])  # subscribed to: refused
    static.close()
    attempt(admin.delete_groups, [group])  # the static member is still in: refused
    attempt(admin.remove_group_members, group, [MemberToRemove(group_instance_id=f"{word}-static")])
    admin.alter_group_offsets(group, {TopicPartition(topic, 1): OffsetAndMetadata(5, "altered", -1)})
    attempt(admin.delete_group_offsets, group, [TopicPartition(topic, 1)])
    attempt(admin.delete_groups, [group, f"{word}-nobody"])
    admin.create_partitions({topic: 6})
    admin.delete_records({TopicPartition(topic, 0): 1})
    admin.delete_topics([topic])
    admin.close()


def _kafka_python_cooperative() -> list[Any]:
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

    return [CooperativeStickyAssignor]


def confluent_kafka(bootstrap: str, word: str) -> None:
    """confluent-kafka (librdkafka): producer, classic and KIP-848 consumers, a static member, the admin client."""
    from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, OffsetSpec, ResourceType

    topic, group = f"{word}-topic", f"{word}-group"
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def done(futures: dict[Any, Any]) -> None:
        for future in futures.values():
            attempt(future.result, PATIENCE_S)

    done(admin.create_topics([NewTopic(topic, 4, 1)]))
    for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
        idempotent = compression == "lz4"
        settings = {"compression.type": compression, "enable.idempotence": idempotent, "linger.ms": 50}
        producer = Producer({"bootstrap.servers": bootstrap, **settings})
        for number in range(RECORDS):
            producer.produce(topic, key=b"%d" % number, value=b"value-%d" % number, headers={"h": b"1"})
        producer.flush(PATIENCE_S)

    def consume_as(settings: dict[str, Any], members: int) -> None:
        seen, assigned = [0] * members, [0] * members
        arrived = threading.Event()

        def consume(number: int) -> None:
            own = {name: value.format(number=number) for name, value in settings.items()}
            consumer = Consumer(
                {
                    "bootstrap.servers": bootstrap,
                    "auto.offset.reset": "earliest",
                    "client.id": f"{word}-{number}",
                    "enable.auto.commit": False,
                    **own,
                }
            )
            consumer.subscribe([topic])
            deadline = time.monotonic() + PATIENCE_S
            while not arrived.is_set():
                assert time.monotonic() < deadline, "the records did not arrive"
                message = consumer.poll(0.2)
                seen[number] += message is not None and message.error() is None
                assigned[number] = len(consumer.assignment())
                if sum(seen) >= 5 * RECORDS and assigned == [4 // members] * members:
                    arrived.set()
            consumer.commit(asynchronous=False)
            partitions = consumer.assignment()
            consumer.committed(partitions, PATIENCE_S)
            consumer.get_watermark_offsets(partitions[0], PATIENCE_S)
            consumer.offsets_for_times([TopicPartition(topic, partitions[0].partition, 0)], PATIENCE_S)
            consumer.seek(TopicPartition(topic, partitions[0].partition, 0))
            consumer.poll(0.5)
            consumer.pause(partitions)
            consumer.poll(3.1 if number == 0 else 0.5)  # long enough for a heartbeat of the one that stays
            consumer.close()

        in_threads(consume, members)

    classic = {"session.timeout.ms": str(SESSION_TIMEOUT_MS), "heartbeat.interval.ms": "500"}
    consume_as({"group.id": group, **classic}, MEMBERS)
    consume_as({"group.id": f"{word}-static", "group.instance.id": word + "-static-{number}", **classic,
                "partition.assignment.strategy": "cooperative-sticky"}, MEMBERS)  # fmt: skip
    consume_as({"group.id": f"{word}-848", "group.protocol": "consumer"}, MEMBERS)

    admin.list_topics(timeout=PATIENCE_S)
    admin.describe_cluster().result(PATIENCE_S)
    admin.list_consumer_groups().result(PATIENCE_S)
    done(admin.describe_consumer_groups([group, f"{word}-848", f"{word}-nobody"]))
    done(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
    done(admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.latest()}))
    done(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
    changed = [ConsumerGroupTopicPartitions(f"{word}-848", [TopicPartition(topic, 1, 5)])]
    done(admin.alter_consumer_group_offsets(changed))
    done(admin.delete_consumer_groups([group, f"{word}-nobody"]))
    done(admin.create_partitions([NewPartitions(topic, 6)]))
    done(admin.delete_records([TopicPartition(topic, 0, 1)]))
    done(admin.delete_topics([topic]))


def aiokafka(bootstrap: str, word: str) -> None:
    """aiokafka: producer, a group of two members one of which leaves, the admin client."""
    asyncio.run(asyncio.wait_for(_aiokafka(bootstrap, word), 4 * PATIENCE_S))


async def _aiokafka(bootstrap: str, word: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic

    topic, group = f"{word}-topic", f"{word}-group"
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(topic, 4, 1)])
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=50)
    await producer.start()
    for number in range(RECORDS):
        await producer.send(topic, key=b"%d" % number, value=b"value-%d" % number)
    await producer.stop()

    members = [
        AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            client_id=f"{word}-{number}",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=500,
            group_instance_id=None if number else f"{word}-static",
        )
        for number in range(MEMBERS)
    ]
    await asyncio.gather(*(member.start() for member in members))
    seen = 0
    while seen < RECORDS or any(len(member.assignment()) != 4 // MEMBERS for member in members):
        batches = await asyncio.gather(*(member.getmany(timeout_ms=200) for member in members))
        seen += sum(len(records) for batch in batches for records in batch.values())
    for member in members:
        await member.commit()
    await members[1].stop()
    while len(members[0].assignment()) != 4:
        await members[0].getmany(timeout_ms=200)
    partition = TopicPartition(topic, 0)
    await members[0].committed(partition)
    await members[0].seek_to_beginning(partition)
    await members[0].end_offsets([partition])
    await members[0].offsets_for_times({partition: 0})
    await admin.list_consumer_groups()
    await admin.describe_consumer_groups([group])
    await admin.list_consumer_group_offsets(group)
    await members[0].stop()
    await admin.delete_topics([topic])
    await admin.close()
