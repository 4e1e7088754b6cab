"""Dead letters of share groups (KIP-1191) through SIGKILLs: each rejected record has one, in the topic of the group."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

from tests.clients.librdkafka import admin_client
from tests.clients.test_share_consumers import (
    COUNT,
    GROUP,
    TOPIC,
    commit,
    number_of,
    poll,
    prepare,
    share_consumers,
)
from tests.daemon import running
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.clients

LETTERS, PARTITIONS = "dlq.orders", 3
KILLS = 2


def _configure(bootstrap: str) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    own = {"errors.deadletterqueue.group.enable": "true"}
    admin.create_topics({LETTERS: {"num_partitions": PARTITIONS, "replication_factor": 1, "configs": own}})
    admin.close()
    settings = {"errors.deadletterqueue.topic.name": LETTERS, "errors.deadletterqueue.copy.record.enable": "true"}
    entries = [ConfigEntry(*each, incremental_operation=AlterConfigOpType.SET) for each in settings.items()]
    resource = ConfigResource(ConfigResource.Type.GROUP, GROUP, incremental_configs=entries)
    for future in admin_client(bootstrap).incremental_alter_configs([resource]).values():
        future.result()


def _letters(bootstrap: str, expected: set[int]) -> Counter[int]:
    """Return how often each record has a letter, as soon as each of the expected ones has one."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(LETTERS, each) for each in range(PARTITIONS)])
    found: Counter[int] = Counter()
    deadline_s = time.monotonic() + PATIENCE_S
    while not expected <= found.keys():
        assert time.monotonic() < deadline_s, f"{len(expected - found.keys())} records have no letter"
        for letters in consumer.poll(1_000).values():
            for letter in letters:
                headers = dict(letter.headers)
                number = int(headers["__dlq.errors.offset"]) * 2 + int(headers["__dlq.errors.partition"])
                assert headers["__dlq.errors.topic"] == TOPIC.encode()
                assert headers["__dlq.errors.group"] == GROUP.encode()
                assert int(letter.value) == number
                assert letter.partition == number % 2
                found[number] += 1
    consumer.close()
    return found


@pytest.mark.parametrize("workers", [1, 2], ids=["one process", "two workers"])
def test_each_rejected_record_has_a_dead_letter_after_sigkills(tmp_path: Path, workers: int) -> None:
    """Reject half of the records, and kill the daemon while it writes the dead letters of the first ones."""
    confluent_kafka = pytest.importorskip("confluent_kafka", "2.16", reason="pip install '.[clients]'")
    types: Any = confluent_kafka.AcknowledgeType
    rejected = {number for number in range(COUNT) if number // 2 % 2 == 0}
    done: set[int] = set()
    perhaps: set[int] = set()
    kills = 0
    with running(tmp_path, workers=workers) as daemon, share_consumers(daemon.bootstrap) as make:
        prepare(daemon.bootstrap)
        _configure(daemon.bootstrap)
        consumers = [make(), make()]
        deadline_s = time.monotonic() + 3 * PATIENCE_S
        while len(done | perhaps) < COUNT:
            assert time.monotonic() < deadline_s, f"{len(done)} records of {COUNT}"
            for consumer in consumers:
                messages = poll(consumer)
                if not messages:
                    continue
                numbers = {number_of(message) for message in messages}
                for message in messages:
                    is_rejected = number_of(message) in rejected
                    consumer.acknowledge(message, types.REJECT if is_rejected else types.ACCEPT)
                killing = threading.Thread(target=daemon.kill)
                if kills < KILLS:
                    killing.start()
                (done if commit(consumer) else perhaps).update(numbers)
                if kills < KILLS:
                    kills += 1
                    killing.join()
                    daemon.start()
        found = _letters(daemon.bootstrap, rejected & done)
    assert kills == KILLS
    assert found.keys() <= rejected
    assert found.total() < 2 * len(rejected)  # those of a kill may have two
