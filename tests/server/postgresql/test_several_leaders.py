"""Several nodes lead at once: real clients whose groups and partitions are spread over them, and what happens to the
others when one of them dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from coordinatord.server.postgresql.status import read_status, status_lines
from coordinatord.transport.cluster.nodes import share_of
from coordinatord.transport.cluster.partitioner import partition_for
from kafka_wire.api.api_versions import ApiVersionsRequest
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafka_wire.api.describe_cluster import DescribeClusterRequest
from kafka_wire.api.describe_producers import DescribeProducersRequest, TopicRequest
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.init_producer_id import InitProducerIdRequest
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.api.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from tests.clients.raw import Line
from tests.clients.raw_member import RawMember
from tests.daemon import HOST
from tests.server.postgresql.server import Server
from tests.server.postgresql.test_nodes import Node, commit, committed, nodes, reached, settled, until, waits
from tests.support.waiting import PATIENCE_S

__all__ = ["nodes"]

pytestmark = [pytest.mark.full, pytest.mark.postgresql, pytest.mark.timeout(600)]

OFFSETS, OFFSETS_PARTITIONS = "__consumer_offsets", 4

TRANSACTION_PARTITIONS = 50
"""The default."""

Make = Callable[..., Node]


def led(node: Node) -> int | None:
    """The seat that a node has taken."""
    if not node.log_file.exists():
        return None
    found = node.events("this node leads")
    return found[-1]["seat"] if found else None


async def leading(make: Make, url: str, leaders: int, spares: int = 0, lease_ms: int = 10_000) -> list[Node]:
    """Nodes by seat, the spares after them; all of them run."""
    made = [make(url, number, lease_ms=lease_ms, storage_leaders=str(leaders)) for number in range(1, leaders + 1)]
    for node in made:
        await asyncio.to_thread(node.start)
    by_seat = sorted(made, key=lambda node: led(node) or 0)
    assert [led(node) for node in by_seat] == list(range(leaders))
    waiting = [make(url, leaders + 1 + each, lease_ms=lease_ms, storage_leaders=str(leaders)) for each in range(spares)]
    for node in waiting:
        node.launch()
        await until(lambda node=node: waits(node), "the spare to wait")  # type: ignore[misc]
    return by_seat + waiting


async def at(node: Node) -> Line:
    return await Line.connect(HOST, node.port, "test")


async def eventually(ask: Callable[[], Awaitable[Any]], right: Callable[[Any], bool], what: str) -> Any:
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        answer = None
        with contextlib.suppress(OSError):
            answer = await ask()
            if right(answer):
                return answer
        assert time.monotonic() < deadline_s, f"{what}: {answer}"
        await asyncio.sleep(0.05)


async def coordinates(node: Node, group: str) -> None:
    """Wait until the node answers for the group."""

    async def ask() -> Any:
        line = await reached(node)
        found = await committed(line, group)
        line.close()
        return found

    await eventually(ask, lambda found: not isinstance(found, ErrorCode), f"node {node.port} to coordinate {group}")


def group_of(seat: int, seats: int, prefix: str = "group") -> str:
    """A group that the holder of a seat coordinates."""
    names = (f"{prefix}-{number}" for number in range(1_000))
    return next(name for name in names if share_of(OFFSETS, partition_for(name, OFFSETS_PARTITIONS), seats) == seat)


async def create(node: Node, topic: str, partitions: int) -> None:
    """A node gives up after a second if the database does not answer, as on a busy machine."""
    done = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)

    async def ask() -> Any:
        line = await at(node)
        made = await line.ask(CreateTopicsRequest([CreatableTopic(topic, partitions, 1)]), 7)
        line.close()
        return made.topics[0].error_code

    await eventually(ask, lambda error: error in done, f"{topic} to be made")


async def delete(node: Node, topic: str) -> None:
    done = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    async def ask() -> Any:
        line = await at(node)
        answer = await line.ask(DeleteTopicsRequest(topics=[DeleteTopicState(topic)]), 6)
        line.close()
        return answer.responses[0].error_code

    await eventually(ask, lambda error: error in done, f"{topic} to be deleted")


async def known_to(made: list[Node], topic: str, *, exists: bool = True) -> list[int]:
    """All of these nodes know the topic, or do not any more; the leaders of its partitions."""
    error = ErrorCode.NONE if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    found = []
    for node in made:

        async def ask(node: Node = node) -> Any:
            line = await at(node)
            try:
                answer = await line.ask(MetadataRequest([MetadataRequestTopic(name=topic)], False), 12)
            finally:
                line.close()
            return answer.topics[0]

        def right(told: Any) -> bool:
            return told.error_code == error and all(each.leader_id > 0 for each in told.partitions)

        told = await eventually(ask, right, f"{topic} at node {node.port}")
        found.append([each.leader_id for each in told.partitions])
    assert all(each == found[0] for each in found)
    return found[0]


def ids(made: list[Node]) -> list[int]:
    return [int(node.settings["node.id"]) for node in made]


def test_all_nodes_tell_the_same_of_who_leads_what(nodes: Make, database: str) -> None:
    async def play() -> None:
        made = await leading(nodes, database, 2, spares=1)
        by_seat = ids(made[:2])
        await create(made[1], "topic", 5)
        leaders = await known_to(made, "topic")
        assert leaders == [by_seat[share_of("topic", number, 2)] for number in range(5)]
        for seat in range(2):
            group = group_of(seat, 2)
            for node in made:
                line = await reached(node)
                request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
                answer = await line.ask(request, 4)
                [found] = answer.coordinators
                assert (found.error_code, found.node_id, found.port) == (0, by_seat[seat], made[seat].port)
                right = ErrorCode.NONE if node is made[seat] else ErrorCode.NOT_COORDINATOR
                assert await settled(lambda line=line, group=group: commit(line, 7, group)) == right  # type: ignore[misc]
                described = await line.ask(DescribeClusterRequest(), 0)
                assert described.controller_id == by_seat[0]
                assert {each.broker_id for each in described.brokers} == set(ids(made))
                line.close()
        told = "\n".join(status_lines(read_status(database)))
        for seat, node_id in enumerate(by_seat):
            assert f"seat {seat}: node {node_id} leads in term" in told
            assert f"leads seat {seat}; up" in told
        assert "waits; up" in told
        # Blocks of producer ids are nobody's twice.
        given = []
        for node in made[:2]:
            line = await at(node)

            async def ask(line: Line = line) -> Any:
                return (await line.ask(InitProducerIdRequest(None, 60_000), 4)).producer_id

            given += [await eventually(ask, lambda found: found >= 0, "a producer id") for _ in range(3)]
        assert len(set(given)) == 6
        for node in made:
            if node is made[2]:  # it takes the first seat that was free: not to be stopped before it serves
                await coordinates(node, group_of(0, 2))
            assert await asyncio.to_thread(node.stop) == 0
            assert not node.events(level="error")

    asyncio.run(play())


def test_topics_are_created_and_deleted_at_each_node(nodes: Make, server: Server, database: str) -> None:
    """And what is committed for a deleted topic goes at the other node, too."""

    async def play() -> None:
        made = await leading(nodes, database, 2)
        lines = [await at(node) for node in made]
        for number, node in enumerate(made):
            name = f"topic-{number}"
            await create(node, name, 3)
            await known_to(made, name)
        for seat, line in enumerate(lines):
            group = group_of(seat, 2)
            for number in range(2):
                asked = lambda line=line, group=group, number=number: commit_to(line, group, f"topic-{number}")  # noqa: E731
                assert await settled(asked) == ErrorCode.NONE
        for number, node in enumerate(made):  # each at the node that has not made it
            await delete(node, f"topic-{1 - number}")
            await known_to(made, f"topic-{1 - number}", exists=False)
        for seat, line in enumerate(lines):
            asked = lambda line=line, seat=seat: committed(line, group_of(seat, 2))  # noqa: E731
            await eventually(asked, lambda found: found == -1, "offsets of a deleted topic")
        # The same name is another topic now.
        await create(made[0], "topic-0", 2)
        await known_to(made, "topic-0")
        assert await committed(lines[1], group_of(1, 2)) == -1

        def left() -> bytes:
            name = database.rsplit("/", 1)[1]
            [(content,)] = server.ask(name, "SELECT content FROM coordinatord_file WHERE name = 'topics.json'")
            assert isinstance(content, bytes)
            return content

        # Deletions are written down until each seat has followed them; the next change drops them.
        for number in range(100):
            await create(made[1], f"last-{number}", 1)
            if orjson.loads(left())["deleting"] == {}:
                break
            await asyncio.sleep(0.1)
        else:
            raise AssertionError(left())
        for node in made:
            assert await asyncio.to_thread(node.stop) == 0
            assert not node.events(level="error")

    asyncio.run(play())


async def commit_to(line: Line, group: str, topic: str) -> ErrorCode:
    partition = OffsetCommitRequestPartition(0, 5)
    request = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(topic, partitions=[partition])])
    answer = await line.ask(request, 8)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


CLIENT: dict[str, Any] = {"metadata_max_age_ms": 1_000, "reconnect_backoff_max_ms": 200}


def read(bootstrap: list[str], topic: str, partitions: int, count: int, **settings: Any) -> set[bytes]:
    """The first `count` values of a topic."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", **CLIENT, **settings)
    places = [TopicPartition(topic, number) for number in range(partitions)]
    try:
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        found: list[bytes] = []
        deadline_s = time.monotonic() + PATIENCE_S
        while len(found) < count:
            assert time.monotonic() < deadline_s, f"{len(found)} of {count}"
            found += [record.value for batch in consumer.poll(timeout_ms=300).values() for record in batch]
        assert len(found) == count
        return set(found)
    finally:
        consumer.close()


def consumed(bootstrap: list[str], group: str, count: int) -> set[bytes]:
    """What a group's consumer reads, and commits. If kafka-python 3.0.12 joins before it has the topic's metadata it
    assigns nothing, and stays so: then another one takes its place.
    """
    ends_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends_s:
        consumer = KafkaConsumer(
            "topic",
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **CLIENT,
        )
        found: set[bytes] = set()
        hangs_s = time.monotonic() + 20
        while len(found) < count and (found or time.monotonic() < hangs_s):
            assert time.monotonic() < ends_s
            found |= {record.value for batch in consumer.poll(timeout_ms=300).values() for record in batch}
        if found:
            consumer.commit()
        consumer.close()
        if found:
            return found
    raise TimeoutError(f"{group} reads nothing")


def test_real_clients_work_with_partitions_and_groups_of_several_nodes(nodes: Make, database: str) -> None:
    made = asyncio.run(leading(nodes, database, 3))
    asyncio.run(create(made[2], "topic", 6))
    asyncio.run(known_to(made, "topic"))
    bootstrap = [made[0].bootstrap]  # they find the others
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", **CLIENT)
    values = {b"%d" % number for number in range(60)}
    sent = [producer.send("topic", b"%d" % number, partition=number % 6) for number in range(60)]
    for each in sent:
        each.get(timeout=PATIENCE_S)
    producer.close()
    assert read([made[1].bootstrap], "topic", 6, 60) == values
    for seat in range(3):
        name = group_of(seat, 3, "real")
        assert consumed(bootstrap, name, 60) == values

        async def stored(seat: int = seat, name: str = name) -> None:
            line = await at(made[seat])
            assert await settled(lambda: committed(line, name)) == 10
            assert await committed(await at(made[(seat + 1) % 3]), name) == ErrorCode.NOT_COORDINATOR

        asyncio.run(stored())


def test_transactions_span_nodes(nodes: Make, database: str) -> None:
    """Records on three nodes, offsets of a group on one of them: all or nothing, whichever node coordinates."""
    made = asyncio.run(leading(nodes, database, 3))
    asyncio.run(create(made[0], "topic", 3))
    asyncio.run(known_to(made, "topic"))
    bootstrap = [each.bootstrap for each in made]
    committed_values: set[bytes] = set()
    for number in range(4):  # with 4 partitions of __transaction_state the coordinators are on all nodes
        producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"tx-{number}", **CLIENT)
        producer.init_transactions()
        for outcome in ("commit", "abort", "commit"):
            producer.begin_transaction()
            for partition in range(3):
                value = f"{number} {outcome} {partition} {len(committed_values)}".encode()
                producer.send("topic", value, partition=partition)
                if outcome == "commit":
                    committed_values.add(value)
            place = {TopicPartition("topic", 0): OffsetAndMetadata(10 * number + len(committed_values), "", -1)}
            for seat in range(3):
                producer.send_offsets_to_transaction(place, group_of(seat, 3, "in-tx"))
            if outcome == "commit":
                producer.commit_transaction()
                kept = 10 * number + len(committed_values)
            else:
                producer.abort_transaction()
        producer.close()
    found = read(bootstrap, "topic", 3, len(committed_values), isolation_level="read_committed")
    assert found == committed_values

    async def stored() -> None:
        for seat in range(3):
            line = await at(made[seat])
            await eventually(
                lambda line=line, seat=seat: committed(line, group_of(seat, 3, "in-tx")),  # type: ignore[misc]
                lambda found: found == kept,
                "the offsets of the last transaction",
            )

    asyncio.run(stored())
    for node in made:
        assert node.stop() == 0
        assert not node.events(level="error")


def test_a_late_marker_of_a_former_coordinator_is_refused(nodes: Make, server: Server, database: str) -> None:
    """Markers for other nodes' partitions have the term of the coordinator's seat. A coordinator that was followed by
    another one, and whose request arrives late, could end a later transaction.
    """
    made = asyncio.run(leading(nodes, database, 2))
    asyncio.run(create(made[0], "topic", 2))
    asyncio.run(known_to(made, "topic"))
    name = next(
        f"tx-{number}" for number in range(99) if partition_for(f"tx-{number}", TRANSACTION_PARTITIONS) % 2 == 0
    )
    producer = KafkaProducer(bootstrap_servers=made[0].bootstrap, transactional_id=name, **CLIENT)
    producer.init_transactions()
    elsewhere = next(number for number in range(2) if share_of("topic", number, 2) == 1)
    producer.begin_transaction()
    producer.send("topic", b"1", partition=elsewhere).get(timeout=PATIENCE_S)
    producer.commit_transaction()
    producer.begin_transaction()
    producer.send("topic", b"2", partition=elsewhere).get(timeout=PATIENCE_S)
    [(term,)] = server.ask(database.rsplit("/", 1)[1], "SELECT epoch FROM coordinatord_leader WHERE seat = 0")

    async def late() -> None:
        line = await at(made[1])
        described = await line.ask(DescribeProducersRequest([TopicRequest("topic", [elsewhere])]), 0)
        [known] = described.topics[0].partitions[0].active_producers
        assert known.coordinator_epoch == term
        for epoch, error in (
            (int(str(term)) - 1, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
            (-1, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        ):
            topics = [WritableTxnMarkerTopic("topic", [elsewhere])]
            marker = WritableTxnMarker(known.producer_id, known.producer_epoch, True, topics, epoch)
            answer = await line.ask(WriteTxnMarkersRequest([marker]), 1)
            assert answer.markers[0].topics[0].partitions[0].error_code == error

    asyncio.run(late())
    producer.abort_transaction()
    producer.close()
    assert read([made[0].bootstrap], "topic", 2, 1, isolation_level="read_committed") == {b"1"}


def test_all_nodes_offer_the_same(nodes: Make, database: str) -> None:
    async def play() -> None:
        made = await leading(nodes, database, 2, spares=1)
        offers = []
        for node in made:
            line = await reached(node)
            answer = await line.ask(ApiVersionsRequest("test", "1"), 4)
            offers.append({each.api_key for each in answer.api_keys})
        assert offers[0] == offers[1] == offers[2]
        assert {ApiKey.OFFSET_COMMIT, ApiKey.ALTER_CLIENT_QUOTAS, ApiKey.CREATE_ACLS} <= offers[0]

    asyncio.run(play())


def test_a_spare_takes_the_seat_of_a_dead_node_and_the_others_do_not_notice(
    nodes: Make, server: Server, database: str
) -> None:
    async def play() -> None:
        made = await leading(nodes, database, 2, spares=1)
        await create(made[0], "topic", 4)
        await known_to(made, "topic")
        groups = [group_of(seat, 2) for seat in range(2)]
        lines = [await at(node) for node in made[:2]]
        for seat in range(2):
            assert await settled(lambda seat=seat: commit(lines[seat], 1, groups[seat])) == ErrorCode.NONE  # type: ignore[misc]
        member = RawMember(await at(made[1]), group_of(1, 2, "members"), {"topic": 4})
        await member.join()
        term = server.ask(database.rsplit("/", 1)[1], "SELECT epoch FROM coordinatord_leader WHERE seat = 1")
        # Seat 0 dies: the group of seat 1 goes on as if nothing was.
        made[0].kill()
        offset, taken = 1, False
        deadline_s = time.monotonic() + PATIENCE_S
        while not taken:
            offset += 1
            assert await commit(lines[1], offset, groups[1]) == ErrorCode.NONE
            assert await member.heartbeat() == ErrorCode.NONE
            taken = led(made[2]) is not None
            assert time.monotonic() < deadline_s, "nobody takes the seat"
        assert led(made[2]) == 0

        async def old() -> Any:
            line = await at(made[2])
            try:
                return await committed(line, groups[0])
            finally:
                line.close()

        assert await eventually(old, lambda found: found == 1, "the spare to answer") == 1
        assert await commit(lines[1], offset + 1, groups[1]) == ErrorCode.NONE
        assert await member.heartbeat() == ErrorCode.NONE
        assert server.ask(database.rsplit("/", 1)[1], "SELECT epoch FROM coordinatord_leader WHERE seat = 1") == term
        # The other node hears of the new holder, and topics are made as before.
        by_seat = [ids(made)[2], ids(made)[1]]
        for node in (made[1], made[2]):

            async def leaders(node: Node = node) -> Any:
                line = await at(node)
                try:
                    answer = await line.ask(MetadataRequest([MetadataRequestTopic(name="topic")], False), 12)
                finally:
                    line.close()
                return [each.leader_id for each in answer.topics[0].partitions]

            right = [by_seat[share_of("topic", number, 2)] for number in range(4)]
            await eventually(leaders, lambda found, right=right: found == right, "the leaders")  # type: ignore[misc]
        await create(made[2], "after", 2)
        await known_to([made[1], made[2]], "after")
        for node in made[1:]:
            assert await asyncio.to_thread(node.stop) == 0

    asyncio.run(play())


def test_what_a_dead_node_had_of_a_deleted_topic_goes_when_its_seat_is_taken(
    nodes: Make, server: Server, database: str
) -> None:
    """Its rows, and what its groups had committed there."""
    name = database.rsplit("/", 1)[1]

    def rows() -> dict[str, int]:
        found = server.ask(name, "SELECT topic, count(*) FROM coordinatord_partition GROUP BY topic")
        return {str(topic): int(str(count)) for topic, count in found if not str(topic).startswith("__")}

    async def play() -> None:
        made = await leading(nodes, database, 2, lease_ms=8_000)
        for topic in ("gone", "kept"):
            await create(made[0], topic, 2)
            await known_to(made, topic)
        producer = KafkaProducer(bootstrap_servers=[each.bootstrap for each in made], **CLIENT)
        for topic in ("gone", "kept"):
            for number in range(2):
                await asyncio.to_thread(producer.send(topic, b"v", partition=number).get, timeout=PATIENCE_S)
        await asyncio.to_thread(producer.close)
        line = await at(made[1])
        group = group_of(1, 2)
        assert await settled(lambda: commit_to(line, group, "gone")) == ErrorCode.NONE
        assert rows() == {"gone": 2, "kept": 2}
        made[1].kill()
        await delete(made[0], "gone")
        await until(lambda: rows() == {"gone": 1, "kept": 2}, "the living node to remove its rows")
        await asyncio.to_thread(made[1].start)
        await until(lambda: len(made[1].events("this node leads")) == 2, "the dead node's seat to be taken")

        async def left() -> Any:
            line = await at(made[1])
            try:
                return await committed(line, group)
            finally:
                line.close()

        await eventually(left, lambda found: found == -1, "the offsets of a deleted topic")
        await until(lambda: rows() == {"kept": 2}, "its rows to be removed")
        for node in made:
            assert await asyncio.to_thread(node.stop) == 0

    asyncio.run(play())


def test_without_a_spare_a_seat_is_nobodys_and_clients_are_told(nodes: Make, database: str) -> None:
    async def play() -> None:
        made = await leading(nodes, database, 2, lease_ms=8_000)
        await create(made[0], "topic", 2)
        await known_to(made, "topic")
        made[1].kill()
        line = await at(made[0])

        async def told() -> Any:
            return await line.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group_of(1, 2)]), 4)

        def nobody(answer: Any) -> bool:
            found = answer.coordinators[0]
            return found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE and found.node_id == -1

        await eventually(told, nobody, "nobody to coordinate")
        answer = await line.ask(MetadataRequest([MetadataRequestTopic(name="topic")], False), 12)
        of_seat = {share_of("topic", each.partition_index, 2): each for each in answer.topics[0].partitions}
        assert (of_seat[0].error_code, of_seat[0].leader_id) == (ErrorCode.NONE, ids(made)[0])
        assert (of_seat[1].error_code, of_seat[1].leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
        assert await asyncio.to_thread(made[0].stop) == 0

    asyncio.run(play())


def test_another_number_of_leaders_is_refused(nodes: Make, database: str) -> None:
    made = asyncio.run(leading(nodes, database, 2))
    other = nodes(database, 9, storage_leaders="3")
    process = other.launch()
    assert process.wait(PATIENCE_S) == 1
    other.process = None
    assert "made for 2 leading nodes at a time and this start asks for 3" in other.log_tail()
    for node in made:
        assert node.stop() == 0
