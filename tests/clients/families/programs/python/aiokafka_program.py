"""aiokafka."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import KafkaError
from line_protocol import (
    ARGUMENTS,
    aborted_values,
    closing,
    isolation,
    listen_for_close,
    numbers,
    pairs,
    say,
    values,
)

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Listener(ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        say("ASSIGNED", numbers(each.partition for each in assigned))

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        say("REVOKED", numbers(each.partition for each in revoked))


async def consume() -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=ARGUMENTS["bootstrap"],
        group_id=ARGUMENTS["group"],
        group_instance_id=ARGUMENTS.get("instance") or None,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level=isolation(),
        session_timeout_ms=int(ARGUMENTS["session_timeout_ms"]),
        heartbeat_interval_ms=int(ARGUMENTS["heartbeat_interval_ms"]),
        partition_assignment_strategy=[ASSIGNORS[ARGUMENTS["assignor"]]],
    )
    consumer.subscribe([ARGUMENTS["topic"]], listener=Listener())
    await consumer.start()
    try:
        while not closing.is_set():
            batches = await consumer.getmany(timeout_ms=50)
            for partition, records in batches.items():
                for record in records:
                    say("RECORD", partition.partition, record.offset, record.value.decode())
            if batches:
                try:
                    await consumer.commit({each: records[-1].offset + 1 for each, records in batches.items()})
                    say("COMMITTED", pairs({each.partition: got[-1].offset + 1 for each, got in batches.items()}))
                except KafkaError as error:
                    say("COMMIT_FAILED", repr(error))
    finally:
        await consumer.stop()
    say("CLOSED")


async def answer(admin: AIOKafkaAdminClient, verb: str, words: list[str]) -> str:
    """The rest of an OK line."""
    if verb == "list":
        return " ".join(group for group, _ in await admin.list_consumer_groups())
    if verb == "describe":
        (response,) = await admin.describe_consumer_groups([words[0]])
        _, _, state, _, _, members, *_ = response.groups[0]
        owned = []
        for member in members:
            assignment = ConsumerProtocolMemberAssignment.decode(member[-1])
            owned += [partition for _, partitions in assignment.assignment for partition in partitions]
        return f"{state} {len(members)} {numbers(owned)}"
    assert verb == "offsets", verb
    answered = await admin.list_consumer_group_offsets(words[0])
    return pairs({each.partition: offset.offset for each, offset in answered.items()})


async def administer() -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=ARGUMENTS["bootstrap"])
    await admin.start()
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        verb, *words = line.split()
        try:
            say("OK", await answer(admin, verb, words))
        except KafkaError as error:
            say("ERROR", error.errno, repr(error))
    await admin.close()


async def produce() -> None:
    compression = None if ARGUMENTS["compression"] == "none" else ARGUMENTS["compression"]
    producer = AIOKafkaProducer(
        bootstrap_servers=ARGUMENTS["bootstrap"],
        compression_type=compression,
        acks="all",
        transactional_id=ARGUMENTS.get("transactional_id"),
    )
    await producer.start()
    if "transactional_id" in ARGUMENTS:
        for written, end in ((values(), producer.commit_transaction), (aborted_values(), producer.abort_transaction)):
            await producer.begin_transaction()
            await write(producer, written)
            await end()
    else:
        await write(producer, values())
    await producer.stop()
    say("PRODUCED", ARGUMENTS["count"])


async def write(producer: AIOKafkaProducer, written: list[bytes]) -> None:
    await asyncio.gather(*[await producer.send(ARGUMENTS["topic"], value) for value in written])


if ARGUMENTS["mode"] == "consume":
    listen_for_close()
    asyncio.run(consume())
elif ARGUMENTS["mode"] == "admin":
    asyncio.run(administer())
else:
    asyncio.run(produce())
