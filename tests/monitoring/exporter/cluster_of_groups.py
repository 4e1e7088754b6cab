"""A cluster as operators have it, on Apache Kafka: groups that are well, dead, stuck, robbed of records, in a crash
loop, behind transactions, or with a partition of a broker that is down; of both protocols, with static members and
without members. What has to be said of each is written down here, by hand.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.structs import OffsetAndMetadata

from tests.reference.broker import KafkaBroker, running_broker, wait_until_serving
from tests.reference.test_tools_in_an_outage import join_share_group, join_streams_group, leaders, second_broker
from tests.support.waiting import wait_until

WINDOW_S = 30
"""Of the rules. The pause between two runs of the pipeline may be longer or shorter than it."""
WAIT_S = 600
HEALTHY = "healthy"
"""Stands for each status that needs nobody."""
HOSTILE = 'b[1]*{}"\\ \x1b[31m$(x) ü'

PARTITIONS: dict[str, dict[str, str]] = {
    "healthy": {"orders": HEALTHY},
    "static": {"orders": HEALTHY},
    "new": {"orders": HEALTHY},
    "thinks": {"seldom": HEALTHY},
    "dead": {"orders": "members expired"},
    "static dead": {"orders": "members expired"},
    "new dead": {"orders": "members expired"},
    "left": {"orders": "ended"},
    "once": {"orders": "ended"},
    HOSTILE: {"orders": "ended"},
    "robbed": {"scarce": "records lost"},
    "stuck": {"orders": "stuck"},
    "creeps": {"short": "near loss"},
    "marker": {"exact": "ok"},
    "aborted": {"undone": "ok"},
    "waiting": {"open": "waiting"},
    "moved on": {"orders": "unsubscribed", "quiet": "ok"},
    "again": {"again": HEALTHY},
    "loop": {"quiet": "ok"},
    "killed loop": {"quiet": "ok"},
    "half away": {"orders": "ended", "away": "unknown"},
}
"""The status of each group in each topic."""
GROUPS = {group: next(iter(of_topics.values())) for group, of_topics in PARTITIONS.items()} | {
    "moved on": "ok", "loop": "crash loop", "killed loop": "crash loop", "half away": "unknown",
}  # fmt: skip
"""What has to be said of each group."""
ALERTS = {
    ("ConsumerGroupMembersExpired", "dead"),
    ("ConsumerGroupMembersExpired", "static dead"),
    ("ConsumerGroupMembersExpired", "new dead"),
    ("ConsumerGroupRecordsLost", "robbed"),
    ("ConsumerGroupStuck", "stuck"),
    ("ConsumerGroupNearLoss", "creeps"),
    ("ConsumerGroupCrashLoop", "loop"),
    ("ConsumerGroupCrashLoop", "killed loop"),
}
"""All alerts that fire, each with its group."""
OTHERS = {"sharers": "share", "streamers": "streams"}
"""Groups of other types, of which no verdict is given."""
SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.max.timeout.ms": "7200000",
    "auto.create.topics.enable": "false",  # or a member makes the deleted topic anew
    "log.retention.check.interval.ms": "86400000",  # nothing is deleted but by DeleteRecords
    "log.flush.start.offset.checkpoint.interval.ms": "2000",  # what DeleteRecords does is soon on disk
}

MEMBER = """
import sys, time
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata
address, group, topic, how, instance = sys.argv[1:]
consumer = KafkaConsumer(topic, group_id=group, bootstrap_servers=address, client_id=group, enable_auto_commit=False,
                         session_timeout_ms=10000, heartbeat_interval_ms=1000, auto_offset_reset="earliest",
                         group_instance_id=instance or None, metadata_max_age_ms=2000)
place, commits, past, crept = TopicPartition(topic, 0), 0, [], 0
while True:
    consumer.poll(500)
    if place in consumer.assignment():
        position = consumer.position(place)
        if how == "thinks":  # eight seconds for a record
            past.append((time.monotonic(), position))
            while len(past) > 1 and past[1][0] < time.monotonic() - 8:
                del past[0]
            position = past[0][1]
        elif how == "creeps":
            position = crept = crept + 1
        elif how == "stuck":
            position = 5
        try:
            consumer.commit({place: OffsetAndMetadata(position, "", -1)})
        except Exception:  # the topic is being made anew
            continue
        commits += 1
        if commits == 10:
            print("there", flush=True)
    time.sleep(0.2)
"""
NEW_MEMBER = """
import sys, time
from confluent_kafka import Consumer
address, group, topic = sys.argv[1:4]
consumer = Consumer({"bootstrap.servers": address, "group.id": group, "client.id": group, "group.protocol": "consumer",
                     "auto.offset.reset": "earliest", "enable.auto.commit": False})
consumer.subscribe([topic])
commits = 0
while True:
    message = consumer.poll(0.2)
    if message is not None and message.error() is None:
        consumer.commit(message, asynchronous=False)
        commits += 1
        if commits == 10:
            print("there", flush=True)
"""


@contextmanager
def member(
    broker: KafkaBroker, group: str, topic: str, how: str = "reads", instance: str = ""
) -> Iterator[subprocess.Popen[str]]:
    """A member in a process of its own, which has committed ten times: from its rhythm one can tell that it is dead. It
    is killed at the end. `how`: reads, thinks, creeps, stuck; `new` is one of the consumer protocol.
    """
    program = NEW_MEMBER if how == "new" else MEMBER
    arguments = [sys.executable, "-c", program, broker.bootstrap, group, topic, how, instance]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "there\n", group
            yield process
        finally:
            process.kill()


def commit(broker: KafkaBroker, group: str, topic: str, offset: int) -> None:
    """Without a member, as Flink does it."""
    consumer = KafkaConsumer(group_id=group, bootstrap_servers=broker.bootstrap, enable_auto_commit=False)
    consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(offset, "", -1)})
    consumer.close()


def come_and_go(broker: KafkaBroker, group: str, topic: str) -> None:
    """A member that reads what there is, commits and leaves."""
    consumer = KafkaConsumer(
        topic, group_id=group, bootstrap_servers=broker.bootstrap, client_id=group, auto_offset_reset="earliest",
        enable_auto_commit=False, session_timeout_ms=6_000, heartbeat_interval_ms=1_000,
    )  # fmt: skip
    deadline = time.monotonic() + WAIT_S
    while not consumer.assignment():
        assert time.monotonic() < deadline, "no assignment"
        consumer.poll(2_000)
    place = TopicPartition(topic, 0)
    consumer.commit({place: OffsetAndMetadata(consumer.end_offsets([place])[place], "", -1)})
    consumer.close()


def produce(broker: KafkaBroker, topic: str, count: int) -> None:
    with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        for _ in range(count):
            producer.send(topic, b"x", partition=0)
        producer.flush()


def transaction(broker: KafkaBroker, topic: str, name: str) -> KafkaProducer:
    """Five records in an open transaction."""
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap, transactional_id=name, transaction_timeout_ms=7_200_000
    )
    producer.init_transactions()
    producer.begin_transaction()
    for _ in range(5):
        producer.send(topic, b"x", partition=0)
    producer.flush()
    return producer


@contextmanager
def again_and_again(what: Callable[[], object], pause_s: float) -> Iterator[None]:
    """Done on a thread of its own, until the end of the block; a failure of it fails the block."""
    stopping, failed = threading.Event(), []

    def run() -> None:
        try:
            while not stopping.is_set():
                what()
                stopping.wait(pause_s)
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(WAIT_S)
    assert not failed, failed


def killed(broker: KafkaBroker, group: str, topic: str, how: str = "reads", instance: str = "") -> None:
    """A member that dies."""
    with member(broker, group, topic, how, instance):
        pass


def make_anew(broker: KafkaBroker, admin: KafkaAdminClient, topic: str) -> None:
    """Delete a topic and make it again, with fewer records."""
    admin.delete_topics([topic])
    deadline = time.monotonic() + WAIT_S
    while True:
        with contextlib.suppress(Exception):  # it is still being deleted
            admin.create_topics([NewTopic(topic, 1, 1)])
            break
        assert time.monotonic() < deadline, "the topic is not deleted"
        time.sleep(0.3)
    produce(broker, topic, 3)


def commit_on_a_lost_broker(broker: KafkaBroker, directory: Path, admin: KafkaAdminClient, group: str) -> None:
    """A commit for a partition of another broker, which dies then. All other partitions are there already."""
    commit(broker, group, "orders", 3)
    lost = second_broker(broker, directory, SETTINGS)
    try:
        assert wait_until_serving(lost), lost.log_tail()
        admin.create_topics([NewTopic("away", replica_assignments={0: [1]})])
        produce(broker, "away", 5)
        commit(broker, group, "away", 3)
    finally:
        lost.stop(kill=True)
    wait_until(lambda: leaders(broker.bootstrap, "away").get(0) == -1, "no leader", timeout_s=WAIT_S)


@contextmanager
def cluster_of_groups(libs: Path, directory: Path) -> Iterator[KafkaBroker]:
    """The cluster, in which all that has to happen to groups has begun."""
    with ExitStack() as stack:
        broker = stack.enter_context(running_broker(libs, directory, SETTINGS))
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        stack.callback(admin.close)
        topics = [
            NewTopic(each, 1, 1) for each in ("orders", "scarce", "exact", "undone", "open", "quiet", "seldom", "again")
        ]
        admin.create_topics([*topics, NewTopic("short", 1, 1, topic_configs={"retention.ms": "60000"})])
        for topic, count in (
            ("orders", 50), ("scarce", 100), ("undone", 5), ("open", 5), ("quiet", 5), ("seldom", 5), ("again", 20),
            ("short", 20_000),
        ):  # fmt: skip
            produce(broker, topic, count)
        transaction(broker, "exact", "exact-0").commit_transaction()
        transaction(broker, "undone", "undone-0").abort_transaction()
        stack.callback(transaction(broker, "open", "open-0").close, timeout=0)  # also if the broker is dead by then
        for group, topic, offset in (
            ("robbed", "scarce", 20), ("once", "orders", 3), (HOSTILE, "orders", 3), ("marker", "exact", 5),
            ("aborted", "undone", 5), ("waiting", "open", 5), ("moved on", "orders", 4),
        ):  # fmt: skip
            commit(broker, group, topic, offset)
        admin.delete_records({TopicPartition("scarce", 0): 100})
        join_share_group(broker.port, "sharers")
        join_streams_group(broker.port, "streamers")
        commit_on_a_lost_broker(broker, directory / "lost", admin, "half away")
        come_and_go(broker, "left", "orders")
        for group, topic, how in (
            ("healthy", "orders", "reads"), ("stuck", "orders", "stuck"), ("moved on", "quiet", "reads"),
            ("thinks", "seldom", "thinks"), ("creeps", "short", "creeps"), ("again", "again", "reads"),
            ("new", "orders", "new"),
        ):  # fmt: skip
            stack.enter_context(member(broker, group, topic, how))
        stack.enter_context(member(broker, "static", "orders", instance="static-1"))
        make_anew(broker, admin, "again")
        for group, how, instance in (
            ("dead", "reads", ""),
            ("static dead", "reads", "dead-1"),
            ("new dead", "new", ""),
        ):
            with member(broker, group, "orders", how, instance):
                pass
        yield broker


@contextmanager
def going_on(broker: KafkaBroker) -> Iterator[None]:
    """Records that come, and members in crash loops, during the block."""
    with (
        # A machine that gives a member no time for ten records, 20 s, has failed it: its session ends before.
        again_and_again(lambda: produce(broker, "orders", 1), 2.0),
        again_and_again(lambda: come_and_go(broker, "loop", "quiet"), 20.0),
        again_and_again(lambda: killed(broker, "killed loop", "quiet"), 20.0),
    ):
        yield
