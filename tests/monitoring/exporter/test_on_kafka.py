"""The exporter on Apache Kafka: while a script plays, each value of each series is what Kafka's own tool says, and what
`coordinatord lag` says; each rebalance has the cause that the script knows.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.structs import OffsetAndMetadata

from tests.clients.members import polling
from tests.monitoring.exporter.scraped import expected, get, of, samples
from tests.monitoring.exporter.test_exporter import exporting, looked, told_by_lag
from tests.monitoring.pipeline.epochs_story import OVERRIDES
from tests.reference.broker import KafkaBroker, running_broker
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.reference, pytest.mark.timeout(600)]

NAMES = ("offset", "lag", "sum_lag", "max_lag", "topic_sum_lag")
DOOMED = """
import sys
from kafka import KafkaConsumer
consumer = KafkaConsumer("orders", group_id="classic", bootstrap_servers=sys.argv[1], client_id="doomed",
                         session_timeout_ms=20000, heartbeat_interval_ms=1000, auto_commit_interval_ms=500)
while True:
    if consumer.poll(2_000) or consumer.assignment():
        consumer.commit()
        print("there", flush=True)
"""


def table(text: str) -> list[dict[str, str]]:
    """What ConsumerGroupCommand prints: tables with a head, one after the other; columns that hold blanks come last."""
    found: list[dict[str, str]] = []
    head: list[str] = []
    for line in text.splitlines():
        cells = line.split()
        if cells[:1] == ["GROUP"]:
            head = cells
        elif head and len(cells) >= len(head) - 1:
            found.append(dict(zip(head, cells, strict=False)))
    return found


def told_by_kafka(broker: KafkaBroker) -> list[dict[str, Any]]:
    """Rows as of `coordinatord lag --json`."""

    def number(text: str) -> int | None:
        return None if text == "-" else int(text)

    rows = table(broker.tool("ConsumerGroupCommand", "--describe", "--all-groups"))
    return [
        {
            "group_id": row["GROUP"], "topic": row["TOPIC"], "partition": int(row["PARTITION"]),
            "committed_offset": number(row["CURRENT-OFFSET"]), "end_offset": number(row["LOG-END-OFFSET"]),
            "lag": number(row["LAG"]),
        }
        for row in rows if row["TOPIC"] != "-"
    ]  # fmt: skip


def members_by_kafka(broker: KafkaBroker) -> dict[tuple[str, ...], float]:
    found = table(broker.tool("ConsumerGroupCommand", "--describe", "--all-groups", "--state"))
    return {
        (row["GROUP"],): float(row["#MEMBERS"] if row["#MEMBERS"].isdigit() else list(row.values())[-1])
        for row in found
    }


@contextmanager
def classic(broker: KafkaBroker, name: str) -> Iterator[KafkaConsumer]:
    consumer = KafkaConsumer(
        "orders", group_id="classic", bootstrap_servers=broker.bootstrap, client_id=name, enable_auto_commit=False,
        session_timeout_ms=20_000, heartbeat_interval_ms=1_000, auto_offset_reset="earliest",
    )  # fmt: skip
    yield consumer
    consumer.commit()  # without one, nobody could tell from the log that it did not expire
    consumer.close()


def poll_until(done: Callable[[], bool], *consumers: Any) -> None:
    """Each by a thread of its own, in polls that outlast a join: see `polling`."""
    with ExitStack() as together:
        for consumer in consumers:
            together.enter_context(polling(consumer))
        wait_until(done, "an assignment")


def test_every_value_is_what_kafka_says(kafka_libs: Path, tmp_path: Path) -> None:
    confluent = pytest.importorskip("confluent_kafka")
    with running_broker(kafka_libs, tmp_path, {**OVERRIDES, "offsets.topic.num.partitions": "5"}) as broker:
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        for topic, partitions in (("orders", 4), ("payments", 2), ("again", 1)):
            admin.create_topics([NewTopic(topic, partitions, 1)])
        with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(400):
                producer.send(("orders", "payments", "again")[number % 3], b"x", partition=None)
        # before the exporter: an empty group, one of a topic that is made anew, one whose offsets are deleted
        for group, place in (("simple", ("payments", 0)), ("again", ("again", 0)), ("deleted", ("orders", 1))):
            commit(broker, group, {place: 3})
        admin.delete_groups(["deleted"]) if hasattr(admin, "delete_groups") else admin.delete_consumer_groups(
            ["deleted"]
        )
        with exporting(broker.bootstrap) as (url, watcher):
            looked(watcher)
            play(broker, confluent, lambda: check(broker, url, watcher), watcher)
            causes = of(samples(get(f"{url}/metrics")[2]), "coordinatord_group_rebalances_total")
            told = {key: value for key, value in causes.items() if key[1] == "classic"}
            assert told["session expired", "classic"] == 1, told
            assert told["new member", "classic"] >= 2
            assert told["member left", "classic"] >= 1
            modern = {cause: value for (cause, group), value in causes.items() if group == "modern"}
            assert modern == {"new member": 2, "member left": 2}
        admin.close()


def commit(broker: KafkaBroker, group: str, offsets: dict[tuple[str, int], int]) -> None:
    consumer = KafkaConsumer(group_id=group, bootstrap_servers=broker.bootstrap, enable_auto_commit=False)
    consumer.commit({TopicPartition(*place): OffsetAndMetadata(n, "", -1) for place, n in offsets.items()})
    consumer.close()


def check(broker: KafkaBroker, url: str, watcher: Any) -> None:
    """Each series of offsets, lag and members is the tool's; nothing moves meanwhile."""
    looked(watcher, 3)
    found = samples(get(f"{url}/metrics")[2])
    for rows in (told_by_kafka(broker), told_by_lag(broker)):
        for name, values in expected(rows).items():
            ours = of(found, name)
            assert {key: value for key, value in ours.items() if value is not None} == values, name
    members = of(found, "kminion_kafka_consumer_group_members")
    right = members_by_kafka(broker)
    assert {group: right[group] for group in members} == members
    assert {group for group, count in right.items() if count} <= members.keys()


def play(broker: KafkaBroker, confluent: Any, check: Callable[[], None], watcher: Any) -> None:
    check()
    with classic(broker, "one") as one:
        poll_until(lambda: len(one.assignment()) == 4, one)
        one.commit({TopicPartition("orders", n): OffsetAndMetadata(7 * n, "", -1) for n in range(4)})
        doomed = subprocess.Popen([sys.executable, "-c", DOOMED, broker.bootstrap], stdout=subprocess.PIPE, text=True)
        try:
            poll_until(lambda: len(one.assignment()) == 2, one)
            assert doomed.stdout is not None
            assert doomed.stdout.readline() == "there\n"
            check_and_poll(check, one)
        finally:
            doomed.kill()
            doomed.wait(20)
        poll_until(lambda: len(one.assignment()) == 4, one)
        one.commit()
        with classic(broker, "two") as two:
            poll_until(lambda: [len(each.assignment()) for each in (one, two)] == [2, 2], one, two)
        poll_until(lambda: len(one.assignment()) == 4, one)
        modern(broker, confluent, check)
        check()
    check()
    with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(50):
            producer.send("payments", b"x", partition=number % 2)
    check()


def check_and_poll(check: Callable[[], None], *consumers: Any) -> None:
    """Heartbeats are of another thread; a check takes less than max.poll.interval.ms."""
    check()
    for consumer in consumers:
        consumer.poll(2_000)


def modern(broker: KafkaBroker, confluent: Any, check: Callable[[], None]) -> None:
    """Two members of the consumer protocol come and go; the first one has read a part."""
    settings = {
        "bootstrap.servers": broker.bootstrap, "group.id": "modern", "group.protocol": "consumer",
        "enable.auto.commit": False, "auto.offset.reset": "earliest",
    }  # fmt: skip
    members = []
    for number, name in enumerate(("a", "b")):
        member = confluent.Consumer({**settings, "client.id": name})
        member.subscribe(["orders", "payments"])
        members.append(member)
        shares = [6, 3][number]
        wait_until(
            lambda shares=shares: (
                all(each.poll(0.1) is not None or True for each in members)
                and all(len(each.assignment()) == shares for each in members)
            ),
            "an assignment",
        )
        place = members[0].assignment()[0]
        members[0].commit(
            offsets=[confluent.TopicPartition(place.topic, place.partition, 5 + number)], asynchronous=False
        )
        check()
    for member in members:  # a sign of life: on a busy machine the checks take longer than a session lasts
        place = member.assignment()[0]
        member.commit(offsets=[confluent.TopicPartition(place.topic, place.partition, 8)], asynchronous=False)
    for member in members:
        member.close()
