"""Every public method of aiokafka's consumer, producer and admin client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.structs import OffsetAndMetadata
from surface import BOOTSTRAP, PREFIX, Surface, classes

TOPIC, OTHER, ABSENT = f"{PREFIX}-topic", f"{PREFIX}-other", f"{PREFIX}-absent"
GROUP = f"{PREFIX}-group"
FIRST, SECOND = PARTITIONS = [TopicPartition(TOPIC, number) for number in range(2)]
ADDRESS: Mapping[str, Any] = {"bootstrap_servers": BOOTSTRAP, "client_id": PREFIX}
TRANSACTION_API = 1
ATTEMPTS = 200


def error_name(error: BaseException) -> str:
    return type(error).__name__


async def prepare(admin: AIOKafkaAdminClient) -> None:
    await admin.create_topics([NewTopic(topic, 2, 1) for topic in (TOPIC, OTHER)])
    for topic in (TOPIC, OTHER):
        await until(lambda topic=topic: has_leaders(admin, topic))
    async with AIOKafkaProducer(**ADDRESS) as producer:
        for number in range(5):
            value = b"value-%d" % number
            await producer.send_and_wait(TOPIC, value, b"key", 0, 1000 + number, [("header", b"x")])


async def has_leaders(admin: AIOKafkaAdminClient, topic: str) -> bool:
    """Whether the broker knows a topic; a controller's answer comes before that."""
    (found,) = await admin.describe_topics([topic])
    return found["error_code"] == 0 and all(each["leader"] >= 0 for each in found["partitions"])


async def until(found: Callable[[], Awaitable[Any]]) -> Any:
    """The first result that is something."""
    for _ in range(ATTEMPTS):
        if result := await found():
            return result
        await asyncio.sleep(0.02)
    raise AssertionError("nothing came")


async def consumer_without_group() -> None:
    consumer = AIOKafkaConsumer(**ADDRESS, auto_offset_reset="earliest", enable_auto_commit=False)
    call, acall, local = consumer_surface.call, consumer_surface.acall, consumer_surface.local
    await acall("start", consumer.start)
    local("assignment", consumer.assignment)
    local("paused", consumer.paused)
    local("subscription", consumer.subscription)
    local("__aiter__", consumer.__aiter__)
    await acall("topics", lambda: own_topics(consumer))
    local("partitions_for_topic", lambda: consumer.partitions_for_topic(TOPIC))
    await acall("beginning_offsets", lambda: consumer.beginning_offsets(PARTITIONS))
    await acall("end_offsets", lambda: consumer.end_offsets(PARTITIONS))
    await acall("offsets_for_times", lambda: consumer.offsets_for_times({FIRST: 1002, SECOND: 0}))
    await acall("offsets_for_times", lambda: consumer.offsets_for_times({FIRST: 5000}), "after the last")
    await acall("commit", consumer.commit, "no group")
    call("assign", lambda: consumer.assign(PARTITIONS))
    await acall("position", lambda: consumer.position(FIRST))
    await acall("getmany", lambda: until(lambda: consumer.getmany(timeout_ms=500, max_records=2)))
    why = "as the last fetch said"
    call("highwater", lambda: consumer.highwater(FIRST), why)
    call("last_stable_offset", lambda: consumer.last_stable_offset(FIRST), why)
    call("last_poll_timestamp", lambda: consumer.last_poll_timestamp(FIRST), why)
    call("pause", lambda: consumer.pause(SECOND))
    call("resume", lambda: consumer.resume(SECOND))
    call("seek", lambda: consumer.seek(FIRST, 4))
    await acall("getone", lambda: consumer.getone(FIRST))
    await acall("seek_to_beginning", lambda: sought(consumer, consumer.seek_to_beginning))
    await acall("__anext__", lambda: anext(consumer))
    await acall("seek_to_end", lambda: sought(consumer, consumer.seek_to_end))
    consumer.seek(FIRST, 99)
    await acall("getmany", lambda: until(lambda: consumer.getmany(timeout_ms=500, max_records=2)), "out of range")
    call("unsubscribe", consumer.unsubscribe)
    await acall("stop", consumer.stop, "no group")


async def own_topics(consumer: AIOKafkaConsumer) -> set[str]:
    return {topic for topic in await consumer.topics() if topic.startswith(PREFIX)}


async def sought(consumer: AIOKafkaConsumer, seek: Callable[..., Awaitable[Any]]) -> Any:
    return [await seek(FIRST), await consumer.position(FIRST)]


async def consumer_in_group() -> None:
    settings = {**ADDRESS, "group_id": GROUP, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    call, acall = consumer_surface.call, consumer_surface.acall
    consumer = AIOKafkaConsumer(**settings)
    await acall("__aenter__", consumer.__aenter__)
    call("subscribe", lambda: consumer.subscribe([TOPIC]))
    await acall("getmany", lambda: until(lambda: consumer.getmany(timeout_ms=500)), "in a group")
    await acall("commit", consumer.commit)
    await acall("commit", lambda: consumer.commit({SECOND: (0, "note")}), "of one, with metadata")
    await acall("committed", lambda: consumer.committed(SECOND))
    await acall("committed", lambda: consumer.committed(TopicPartition(OTHER, 0)), "never committed")
    await acall("seek_to_committed", lambda: consumer.seek_to_committed(FIRST))
    await acall("stop", consumer.stop)

    pattern = AIOKafkaConsumer(**settings | {"group_id": f"{PREFIX}-pattern"})
    call("subscribe", lambda: pattern.subscribe(pattern=f"^{PREFIX}-t.*"), "a pattern")
    async with pattern:
        await acall("getmany", lambda: until(lambda: pattern.getmany(timeout_ms=500)), "a pattern's")
    committed = AIOKafkaConsumer(**settings | {"group_id": None, "isolation_level": "read_committed"})
    async with committed:
        committed.assign([FIRST])
        await acall("getmany", lambda: until(lambda: committed.getmany(timeout_ms=500)), "read committed")


async def producing() -> None:
    producer = AIOKafkaProducer(**ADDRESS)
    acall, local = producer_surface.acall, producer_surface.local
    await acall("start", producer.start)
    batch = producer.create_batch()
    local("create_batch", producer.create_batch)
    await acall("partitions_for", lambda: producer.partitions_for(TOPIC))
    await acall("partitions_for", lambda: producer.partitions_for(f"{PREFIX}-made"), "auto-created")
    await acall("send", lambda: sent(producer))
    await acall("flush", producer.flush)
    await acall("send_and_wait", lambda: producer.send_and_wait(OTHER, b"value", b"key", headers=[("h", b"x")]))
    batch.append(value=b"value", timestamp=7, key=None)
    batch.close()
    await acall("send_batch", lambda: batched(producer, batch))
    await acall(
        "send_and_wait", lambda: producer.send_and_wait(OTHER, b"x" * 1_040_000, partition=1), "nearly too large"
    )
    await acall("stop", producer.stop)
    async with AIOKafkaProducer(**ADDRESS, enable_idempotence=True) as other:
        await acall("send_and_wait", lambda: other.send_and_wait(OTHER, b"value", partition=1), "idempotent")
    for acks, compression in ((1, "snappy"), ("all", "lz4"), ("all", "zstd"), (0, "gzip")):
        async with AIOKafkaProducer(**ADDRESS, acks=acks, compression_type=compression) as other:
            case = f"acks={acks}, {compression}"
            await acall("send_and_wait", lambda p=other: p.send_and_wait(OTHER, b"v" * 99, partition=1), case)


async def entered(producer: AIOKafkaProducer) -> None:
    await producer.__aenter__()


async def sent(producer: AIOKafkaProducer) -> Any:
    return await (await producer.send(OTHER, b"value", partition=0))


async def batched(producer: AIOKafkaProducer, batch: Any) -> Any:
    return await (await producer.send_batch(batch, OTHER, partition=0))


async def transactions() -> None:
    producer = AIOKafkaProducer(**ADDRESS, transactional_id=f"{PREFIX}-producer")
    acall, call = producer_surface.acall, producer_surface.call
    await acall("__aenter__", lambda: entered(producer), "transactional")
    await acall("begin_transaction", producer.begin_transaction)
    await acall("send_and_wait", lambda: producer.send_and_wait(OTHER, b"value", partition=0), "in a transaction")
    group = f"{PREFIX}-in-transaction"
    offsets = {FIRST: OffsetAndMetadata(3, "")}
    await acall("send_offsets_to_transaction", lambda: producer.send_offsets_to_transaction(offsets, group))
    await acall("commit_transaction", producer.commit_transaction)
    await producer.begin_transaction()
    await producer.send_and_wait(OTHER, b"aborted", partition=0)
    await acall("abort_transaction", producer.abort_transaction)
    context = call("transaction", lambda: producer.transaction())
    async with context:
        await producer.send_and_wait(OTHER, b"value", partition=0)
    async with AIOKafkaProducer(**ADDRESS, transactional_id=f"{PREFIX}-producer"):
        await producer.begin_transaction()
        await acall("send_and_wait", lambda: producer.send_and_wait(OTHER, b"value", partition=0), "fenced")
    await producer.stop()


async def administer(admin: AIOKafkaAdminClient) -> None:
    acall = admin_surface.acall
    await topics(admin)
    await configs(admin)
    await groups(admin)
    await acall("delete_records", lambda: admin.delete_records({FIRST: RecordsToDelete(2)}))
    await acall("delete_records", lambda: admin.delete_records({FIRST: RecordsToDelete(99)}), "beyond the end")
    await acall("describe_cluster", admin.describe_cluster)
    await acall("delete_topics", lambda: answer(admin.delete_topics([f"{PREFIX}-new"])))
    await acall("delete_topics", lambda: answer(admin.delete_topics([ABSENT])), "absent")
    await acall("close", admin.close)


async def answer(asked: Awaitable[Any]) -> Any:
    """A response, or several, as its fields; the entries of configs in the order of their names."""
    response = await asked
    several = [each.to_object() for each in (response if isinstance(response, list) else [response])]
    for resource in (resource for each in several for resource in each.get("resources", ())):
        resource.get("config_entries", []).sort(key=lambda entry: str(entry["config_names"]))
    return several


async def topics(admin: AIOKafkaAdminClient) -> None:
    acall = admin_surface.acall
    new = NewTopic(f"{PREFIX}-new", 2, 1, topic_configs={"retention.ms": "86400000"})
    await acall("create_topics", lambda: answer(admin.create_topics([new])))
    await acall("create_topics", lambda: answer(admin.create_topics([new])), "exists")
    await acall("create_topics", lambda: answer(admin.create_topics([NewTopic("a/b", 1, 1)])), "a wrong name")
    validated = [NewTopic(f"{PREFIX}-validated", 1, 1)]
    await acall("create_topics", lambda: answer(admin.create_topics(validated, validate_only=True)), "validated")
    by_hand = NewTopic(f"{PREFIX}-manual", -1, -1, replica_assignments={0: [0], 1: [0]})
    await acall("create_topics", lambda: answer(admin.create_topics([by_hand])), "assigned by hand")
    for topic in (f"{PREFIX}-new", f"{PREFIX}-manual"):
        await until(lambda topic=topic: has_leaders(admin, topic))
    await acall("list_topics", lambda: listed(admin))
    await acall("describe_topics", lambda: admin.describe_topics([TOPIC]))
    await acall("describe_topics", lambda: admin.describe_topics([f"{PREFIX}-asked-for"]), "auto-created")
    more, fewer = NewPartitions(3), NewPartitions(1)
    await acall("create_partitions", lambda: one(admin.create_partitions({f"{PREFIX}-new": more})))
    await acall("create_partitions", lambda: one(admin.create_partitions({f"{PREFIX}-new": fewer})), "fewer")


async def one(asked: Awaitable[Any]) -> Any:
    return (await asked).to_object()


async def listed(admin: AIOKafkaAdminClient) -> list[str]:
    return sorted(topic for topic in await admin.list_topics() if topic.startswith(PREFIX))


async def configs(admin: AIOKafkaAdminClient) -> None:
    acall = admin_surface.acall
    whole = ConfigResource(ConfigResourceType.TOPIC, TOPIC)
    some = ConfigResource(ConfigResourceType.TOPIC, TOPIC, {"retention.ms": "1000000"})
    absent = ConfigResource(ConfigResourceType.TOPIC, ABSENT)
    broker = ConfigResource(ConfigResourceType.BROKER, "0", {"num.partitions": None})
    await acall("describe_configs", lambda: answer(admin.describe_configs([whole])))
    await acall("describe_configs", lambda: answer(admin.describe_configs([some], include_synonyms=True)), "synonyms")
    await acall("describe_configs", lambda: answer(admin.describe_configs([absent])), "absent")
    await acall("describe_configs", lambda: answer(admin.describe_configs([broker])), "of a broker")
    await acall("alter_configs", lambda: answer(admin.alter_configs([some])))
    wrong = ConfigResource(ConfigResourceType.TOPIC, TOPIC, {"retention.ms": "x"})
    await acall("alter_configs", lambda: answer(admin.alter_configs([wrong])), "a wrong value")


async def groups(admin: AIOKafkaAdminClient) -> None:
    acall = admin_surface.acall
    await acall("find_coordinator", lambda: admin.find_coordinator(GROUP))
    await acall("find_coordinator", lambda: admin.find_coordinator(GROUP, TRANSACTION_API), "of transactions")
    await acall("list_consumer_groups", lambda: own_groups(admin))
    await acall("describe_consumer_groups", lambda: answer(admin.describe_consumer_groups([GROUP])))
    await acall("describe_consumer_groups", lambda: answer(admin.describe_consumer_groups([ABSENT])), "absent")
    await acall("list_consumer_group_offsets", lambda: admin.list_consumer_group_offsets(GROUP))
    some = [FIRST, TopicPartition(ABSENT, 0)]
    await acall("list_consumer_group_offsets", lambda: admin.list_consumer_group_offsets(GROUP, None, some), "of some")
    await acall("list_consumer_group_offsets", lambda: admin.list_consumer_group_offsets(ABSENT), "absent")


async def own_groups(admin: AIOKafkaAdminClient) -> Any:
    return sorted(each for each in await admin.list_consumer_groups() if each[0].startswith(PREFIX))


async def main() -> None:
    found = [name for name in [*aiokafka.__all__, *aiokafka.admin.__all__] if name.startswith("AIOKafka")]
    called = {"AIOKafkaConsumer", "AIOKafkaProducer", "AIOKafkaAdminClient"}
    classes(found, called, {"AIOKafkaClient": "what the others are built on"})
    admin = AIOKafkaAdminClient(**ADDRESS)
    await admin_surface.acall("start", admin.start)
    await prepare(admin)
    await consumer_without_group()
    await consumer_in_group()
    consumer_surface.finish()
    await producing()
    await transactions()
    producer_surface.finish()
    await administer(admin)
    admin_surface.finish()


consumer_surface = Surface("consumer", AIOKafkaConsumer, error_name)
producer_surface = Surface("producer", AIOKafkaProducer, error_name)
admin_surface = Surface("admin", AIOKafkaAdminClient, error_name)

if __name__ == "__main__":
    asyncio.run(main())
