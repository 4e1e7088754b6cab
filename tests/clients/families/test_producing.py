"""What every client produces, in every codec it has, is what a kafka-python consumer reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from kafka import KafkaConsumer, TopicPartition

from tests.clients.families.clients import Client
from tests.clients.families.program import Program
from tests.clients.kinds import MakeTopic
from tests.support.waiting import wait_until

pytestmark = pytest.mark.clients

PARTITIONS = 2
RECORDS = 200


@pytest.mark.scenario("produce")
def test_produce(client: Client, bootstrap: str, make_topic: MakeTopic, start: Callable[..., Program]) -> None:
    topic = make_topic(PARTITIONS)
    for codec in client.codecs:
        program = start(
            mode="produce", bootstrap=bootstrap, topic=topic, compression=codec, prefix=codec, count=RECORDS
        )
        assert program.finished() == 0, program.story()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=None)
    consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
    seen: list[str] = []

    def arrived() -> bool:
        for records in consumer.poll(timeout_ms=200).values():
            seen.extend(record.value.decode() for record in records)
        return len(seen) >= RECORDS * len(client.codecs)

    wait_until(arrived, "all that was produced", seen=lambda: len(seen))
    consumer.close()
    assert Counter(seen) == Counter(f"{codec}-{number:06d}" for codec in client.codecs for number in range(RECORDS))
