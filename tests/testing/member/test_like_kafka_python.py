"""The same story with kafka-python and with our client: the same requests in the same order, saying the same.

Both go through a proxy that writes down their frames. Versions differ (kafka-python has JoinGroup v7, we v9); what is
compared is what the requests say. ApiVersions, Metadata, Fetch and Heartbeat come as often as time has it, so only what
the last two say is compared.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from coordinatord.testing.member.client import Client
from coordinatord.testing.member.state import MemberSettings
from coordinatord.testing.member.subscription import decode_assignment, decode_subscription
from kafka_wire.headers import read_request_header
from kafka_wire.registry import codec
from tests.clients.recording_proxy import Frame, RecordingProxy
from tests.daemon import free_port, running
from tests.testing.member.client_stories import prepare

HOST = "127.0.0.1"
TOPIC = "t"
RECORDS = 8
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
IN_ORDER = {"FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch", "ListOffsets", "OffsetCommit", "LeaveGroup"}


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordingProxy]:
    port = free_port()
    settings = {
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
    }
    with running(tmp_path_factory.mktemp("daemon"), settings) as daemon:
        host, _, target = daemon.bootstrap.rpartition(":")
        with RecordingProxy(HOST, port, host, int(target)) as recording:
            prepare(f"{HOST}:{port}", TOPIC, RECORDS)
            recording.take()
            yield recording


def kafka_python(bootstrap: str, group: str, assignor: str, instance_id: str | None) -> None:
    consumer = KafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id=group,
        group_instance_id=instance_id,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=10_000,
        heartbeat_interval_ms=100,
        max_poll_interval_ms=60_000,
        partition_assignment_strategy=[ASSIGNORS[assignor]],
    )
    # Else it may lead before it knows the topic, assign nothing, and rebalance again. Kafka's client asks first.
    while not consumer.partitions_for_topic(TOPIC):
        pass
    seen = 0
    while seen < RECORDS:
        seen += sum(len(records) for records in consumer.poll(timeout_ms=1_000).values())
    consumer.poll(timeout_ms=300)  # heartbeats
    consumer.commit()
    consumer.close()


def ours(bootstrap: str, group: str, assignor: str, instance_id: str | None) -> None:
    settings = MemberSettings(
        group,
        instance_id,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=10_000,
        heartbeat_interval_ms=100,
        max_poll_interval_ms=60_000,
        partition_assignment_strategy=(assignor,),
    )

    async def run() -> None:
        async with Client(bootstrap, settings) as consumer:
            consumer.subscribe([TOPIC])
            seen = 0
            while seen < RECORDS:
                seen += sum(len(records) for records in (await consumer.poll(1.0)).values())
            await consumer.poll(0.3)
            await consumer.commit()

    asyncio.run(run())


def requests(frames: list[Frame]) -> list[tuple[str, Any]]:
    """Name and message of each request, in the order in which they came."""
    found = []
    for frame in frames:
        if frame.direction == "request":
            used = codec(frame.api_key, frame.api_version)
            _, body = read_request_header(frame.data, 0, len(frame.data), used.flexible)
            found.append((used.name, used.decode_request(frame.data, body, len(frame.data))))
    return found


def said(name: str, message: Any, member_ids: dict[str, str]) -> Any:
    """What a request says, without what differs from client to client or from version to version."""

    def member(member_id: str) -> str:
        return member_ids.setdefault(member_id, f"member {len(member_ids)}") if member_id else ""

    match name:
        case "FindCoordinator":
            return (message.key or message.coordinator_keys[0], message.key_type)
        case "JoinGroup":
            kept = dataclasses.replace(message, protocols=[], reason=None, member_id=member(message.member_id))
            return kept, [(each.name, _subscription(each.metadata)) for each in message.protocols]
        case "SyncGroup":
            assignments = {member(each.member_id): decode_assignment(each.assignment) for each in message.assignments}
            return dataclasses.replace(message, assignments=[], member_id=member(message.member_id)), assignments
        case "OffsetFetch":
            group = message.groups[0]
            asked = {(topic.name, n) for topic in group.topics or [] for n in topic.partition_indexes}
            return group.group_id, sorted(asked)
        case "ListOffsets" | "OffsetCommit":
            topics = {
                (topic.name, each.partition_index): getattr(each, "timestamp", None) or each.committed_offset
                for topic in message.topics
                for each in topic.partitions
            }
            by = [getattr(message, each, None) for each in ("group_id", "generation_id_or_member_epoch")]
            return sorted(topics.items()), by
        case "LeaveGroup":
            return message.group_id, [(member(each.member_id), each.group_instance_id) for each in message.members]
        case "Heartbeat":
            return dataclasses.replace(message, member_id=member(message.member_id))
    raise AssertionError(name)


def _subscription(metadata: bytes) -> Any:
    """kafka-python says neither what an eager member owns (nothing) nor its generation."""
    read = decode_subscription(metadata)
    return read.topics, read.owned_partitions, read.rack_id


def story(
    proxy: RecordingProxy, client: Callable[[str, str, str, str | None], None], assignor: str, instance_id: str | None
) -> tuple[list[Any], list[Any], list[Any]]:
    """(what was said in order, what heartbeats said, what was fetched), with the group's name taken out."""
    group = f"group-{client.__name__}-{assignor}-{instance_id}"
    client(f"{proxy.host}:{proxy.port}", group, assignor, instance_id)
    member_ids: dict[str, str] = {}
    in_order, heartbeats, fetched = [], [], set()
    for name, message in requests(proxy.take()):
        if hasattr(message, "group_id") and message.group_id:
            if message.group_id != group:
                continue  # a last heartbeat of the client before
            message = dataclasses.replace(message, group_id="g")
        if name in IN_ORDER:
            in_order.append((name, _as_text(said(name, message, member_ids), group)))
        elif name == "Heartbeat":
            heartbeats.append(_as_text(said(name, message, member_ids), group))
        elif name == "Fetch":
            fetched |= {(each.partition, each.fetch_offset) for topic in message.topics for each in topic.partitions}
    return in_order, heartbeats, sorted(fetched)


def _as_text(value: Any, group: str) -> str:
    return repr(value).replace(group, "g")


def test_the_coordinator_has_a_connection_of_its_own(proxy: RecordingProxy) -> None:
    """So no heartbeat waits behind a parked Fetch. In Kafka's client it has the id `Integer.MAX_VALUE - node.id`."""
    ours(f"{proxy.host}:{proxy.port}", "own-connection", "range", None)
    connections: dict[str, set[int]] = {}
    for frame in proxy.take():
        if frame.direction == "request":
            name = codec(frame.api_key, frame.api_version).name
            connections.setdefault(name, set()).add(frame.connection)
    of_group = ["JoinGroup", "SyncGroup", "Heartbeat", "OffsetFetch", "OffsetCommit", "LeaveGroup"]
    of_data = ["Metadata", "FindCoordinator", "ListOffsets", "Fetch"]
    group = set().union(*(connections[name] for name in of_group))
    assert len(group) == 1
    assert not group & set().union(*(connections[name] for name in of_data))


@pytest.mark.parametrize(("assignor", "instance_id"), [("range", None), ("sticky", "i"), ("cooperative-sticky", None)])
def test_the_same_requests(proxy: RecordingProxy, assignor: str, instance_id: str | None) -> None:
    theirs, their_heartbeats, they_fetched = story(proxy, kafka_python, assignor, instance_id)
    mine, my_heartbeats, i_fetched = story(proxy, ours, assignor, instance_id)
    assert mine == theirs
    assert set(my_heartbeats) == set(their_heartbeats)
    assert len(set(my_heartbeats)) == 1
    assert i_fetched == they_fetched
    names = [name for name, _ in mine]
    joins = ["JoinGroup"] if instance_id else ["JoinGroup", "JoinGroup"]
    end = ["OffsetCommit"] if instance_id else ["OffsetCommit", "LeaveGroup"]
    assert names == ["FindCoordinator", *joins, "SyncGroup", "OffsetFetch", "ListOffsets", *end]
