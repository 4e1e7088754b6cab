"""Dead letters in their topic: which partition, which headers, and when their records are archived."""

from __future__ import annotations

from typing import Any

import pytest

from coordinatord.coordination.share import dead_letters
from coordinatord.coordination.share.dead_letters import DeadLetterQueue
from coordinatord.coordination.share.group_settings import GroupShareSettings
from coordinatord.coordination.share.partition.state import Limits
from coordinatord.coordination.share.persister import ARCHIVED, PartitionState, StateBatch
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.net.cooperative_tasks import run_through
from kafka_wire.api.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import iterate_batches, records
from kafka_wire.records.compression import Compression
from tests.broker.topics.world import START_MS, batch
from tests.coordination.share.handlers.world import Member, ShareWorld, acquired, errors

RELEASE, REJECT = 2, 3
ENABLED = {"errors_deadletterqueue_group_enable": "true"}
OWN = {"errors.deadletterqueue.topic.name": "dlq.orders", "share.auto.offset.reset": "earliest"}
COPY = {**OWN, "errors.deadletterqueue.copy.record.enable": "true"}


class LetterWorld(ShareWorld):
    """Share groups with the settings that clients set, and a queue of dead letters."""

    def open(self) -> None:
        super().open()
        settings = GroupShareSettings(self.topics.group_configs)
        self.partitions.settings = settings
        call_soon = self.loop.call_soon
        self.queue = DeadLetterQueue(
            self.topics, settings, self.partitions.timers, lambda: self.time_ms, lambda callback: call_soon(callback)
        )
        self.partitions.dead_letters = self.queue

    def configure(self, own: dict[str, str], group: str = "g") -> None:
        run_through(self.topics.group_configs.configure({group: own}))

    def letters(self, topic: str = "dlq.orders", partition: int = 0) -> list[tuple[Any, ...]]:
        """Return key, value and headers of the records of a partition, and the number of batches."""
        log = self.topics.catalogue.by_name[topic].partitions[partition].log
        found, offset = [], log.log_start_offset
        while offset < log.high_watermark:
            data = log.read(offset, 1 << 20)
            for at, header in iterate_batches(data):
                found += [
                    (each.key, each.value, {name: (value or b"").decode() for name, value in each.headers})
                    for each in records(data, at, header)
                ]
                offset = header.next_offset
        return found

    @property
    def states(self) -> list[tuple[int, int, int]]:
        """Return (offset, state, delivery count) of what is persisted of the one share partition."""
        [state] = self.persister.states.values()
        return [(each.first_offset, each.delivery_state, each.delivery_count) for each in state.state_batches]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> LetterWorld:
    """A slice has time enough for all letters, however busy the machine is."""
    monkeypatch.setattr("coordinatord.base.budget.SLICE_S", 3600.0)
    return LetterWorld()


def _member(world: LetterWorld, count: int = 5, partition: int = 0, **topic: str) -> Member:
    """Return a member that has acquired the records of a partition of the topic `orders`."""
    made = Member(world, world.create("orders", 3))
    world.create("dlq.orders", 2, **ENABLED, **topic)
    values = [b"value %d" % number for number in range(count)]
    world.produce("orders", batch(*values, keys=b"key"), partition)
    assert acquired(made.fetch(partition)) == [(partition, 0, count - 1, 1)]
    return made


REJECTED = "Offset rejected by client."


def _headers(offset: int, partition: int = 0, count: int = 1, why: str = REJECTED) -> dict[str, str]:
    return {
        "__dlq.errors.topic": "orders",
        "__dlq.errors.partition": str(partition),
        "__dlq.errors.offset": str(offset),
        "__dlq.errors.group": "g",
        "__dlq.errors.delivery.count": str(count),
        "__dlq.errors.message": why,
    }


def test_rejected_records_are_in_the_topic_then_they_are_archived(world: LetterWorld) -> None:
    world.configure(OWN)
    member = _member(world, partition=2)
    assert errors(member.send_acks((2, 1, 2, [REJECT]), (2, 4, 4, [REJECT])).response) == {}
    assert world.states == [(1, 3, 1), (2, 3, 1), (4, 3, 1)]
    world.settle()
    assert world.letters() == [(None, None, _headers(offset, 2)) for offset in (1, 2, 4)]
    assert list(world.letters()[0][2]) == list(_headers(1))
    assert world.letters(partition=1) == []
    assert world.states == [(1, 4, 1), (2, 4, 1), (4, 4, 1)]
    assert len(world.queue) == 0


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_letters_with_key_and_value(world: LetterWorld, compression: Compression) -> None:
    world.configure(COPY)
    member = Member(world, world.create("orders", 1))
    world.create("dlq.orders", 1, **ENABLED)
    world.produce("orders", batch(b"zero", b"one", None, keys=b"key", compression=compression))
    member.fetch(0)
    member.send_acks((0, 1, 2, [REJECT]))
    world.settle()
    assert [each[:2] for each in world.letters()] == [(b"key", b"one"), (b"key", None)]
    assert world.letters()[0][2] == _headers(1)


def test_a_record_that_does_not_fit_has_a_letter_without_content(world: LetterWorld) -> None:
    world.configure(COPY)
    member = Member(world, world.create("orders", 1))
    world.create("dlq.orders", 1, **ENABLED, max_message_bytes="400")
    world.produce("orders", batch(b"x" * 1_000))
    world.produce("orders", batch(b"small"))
    world.produce("orders", batch(b"y" * 10_000, compression=Compression.GZIP))
    assert member.fetch(0).error_code == 0
    member.send_acks((0, 0, 2, [REJECT]))
    world.settle()
    assert [each[1] for each in world.letters()] == [None, b"small", None]


def test_a_record_that_is_gone_has_a_letter_without_content(world: LetterWorld) -> None:
    world.configure(COPY)
    member = _member(world)
    member.send_acks((0, 0, 0, [REJECT]))
    log = world.topics.catalogue.by_name["orders"].partitions[0].log
    world.writer.delete_records(log, 3)
    world.settle()
    assert [each[:2] for each in world.letters()] == [(None, None)]


def test_records_at_their_delivery_limit(world: LetterWorld) -> None:
    world.configure({**OWN, "share.delivery.count.limit": "2"})
    member = _member(world, 1)
    world.pass_time(30_000)
    world.settle()
    assert acquired(member.fetch(0)) == [(0, 0, 0, 2)]
    world.pass_time(30_000)
    world.settle()
    why = "Offset delivery count exceeded the threshold."
    assert world.letters() == [(None, None, _headers(0, count=2, why=why))]


def test_many_letters_are_batches_that_the_topic_allows(world: LetterWorld) -> None:
    world.configure(OWN)
    member = _member(world, 200, max_message_bytes="2000")
    member.send_acks((0, 0, 199, [REJECT]))
    world.settle()
    assert world.letters() == [(None, None, _headers(offset)) for offset in range(200)]
    log = world.topics.catalogue.by_name["dlq.orders"].partitions[0].log
    sizes = [header.size for _, header in iterate_batches(log.read(0, 1 << 20))]
    assert len(sizes) > 10
    assert max(sizes) <= 2_000
    assert {state for _, state, _ in world.states} == {ARCHIVED}


UNWRITABLE = [
    ("no such topic", {"errors.deadletterqueue.topic.name": "dlq.none"}, "there is no such topic"),
    ("another prefix", {"errors.deadletterqueue.topic.name": "orders"}, "does not begin with dlq."),
    ("not enabled", {"errors.deadletterqueue.topic.name": "dlq.other"}, "does not allow dead letters"),
    ("compacted", {"errors.deadletterqueue.topic.name": "dlq.compacted"}, "INVALID_RECORD"),
    ("too small", {"errors.deadletterqueue.topic.name": "dlq.small"}, "MESSAGE_TOO_LARGE"),
]


@pytest.mark.parametrize(("own", "reason"), [row[1:] for row in UNWRITABLE], ids=[row[0] for row in UNWRITABLE])
def test_letters_that_cannot_be_written(
    world: LetterWorld, caplog: pytest.LogCaptureFixture, own: dict[str, str], reason: str
) -> None:
    """The records are archived without them, and the log says why."""
    world.configure({**OWN, **own})
    member = _member(world)
    world.create("dlq.other")
    world.create("dlq.compacted", cleanup_policy="compact", **ENABLED)
    world.create("dlq.small", max_message_bytes="100", **ENABLED)
    member.send_acks((0, 1, 2, [REJECT]))
    world.settle()
    assert world.states == [(1, 4, 1), (2, 4, 1)]
    lines = [record.getMessage() for record in caplog.records if "dead letters" in record.getMessage()]
    assert lines
    assert all("group='g'" in line and reason in line for line in lines)


def test_the_topic_is_created(world: LetterWorld) -> None:
    world = LetterWorld(errors_deadletterqueue_auto_create_topics_enable=True, num_partitions=2)
    world.configure({**OWN, "errors.deadletterqueue.topic.name": "dlq.new"})
    member = _member(world, partition=1)
    member.send_acks((1, 0, 0, [REJECT]))
    world.settle()
    topic = world.topics.catalogue.by_name["dlq.new"]
    assert topic.configs.own == {"errors.deadletterqueue.group.enable": "true", "message.timestamp.type": "CreateTime"}
    assert world.letters("dlq.new", 1) == [(None, None, _headers(0, 1))]


def test_a_name_that_a_topic_cannot_have(world: LetterWorld) -> None:
    world = LetterWorld(errors_deadletterqueue_auto_create_topics_enable=True)
    world.configure({**OWN, "errors.deadletterqueue.topic.name": "dlq.no space"})
    member = _member(world)
    member.send_acks((0, 0, 0, [REJECT]))
    world.settle()
    assert world.states == [(0, 4, 1)]
    assert "dlq.no space" not in world.topics.catalogue.by_name


def test_a_group_that_has_no_queue_any_more(world: LetterWorld) -> None:
    world.configure(OWN)
    member = _member(world)
    member.send_acks((0, 1, 1, [REJECT]))
    world.configure({"share.auto.offset.reset": "earliest"})
    world.settle()
    assert world.letters() == []
    assert world.states == [(1, 4, 1)]


def test_share_version_1_has_no_dead_letters(world: LetterWorld) -> None:
    world.configure(OWN)
    settings = GroupShareSettings(world.topics.group_configs, dead_letters=False)
    assert settings.limits("g") == Limits()
    assert GroupShareSettings(world.topics.group_configs).limits("g") == Limits(dead_letters=True)


def test_letters_are_tried_again_while_another_node_leads_the_partition(world: LetterWorld) -> None:
    world.configure(OWN)
    member = _member(world)
    target = world.topics.catalogue.by_name["dlq.orders"].partitions[0]
    target.is_here = False
    member.send_acks((0, 1, 1, [REJECT]))
    world.settle()
    assert world.states == [(1, 3, 1)]
    world.pass_time(dead_letters.BACKOFF_MS)
    world.settle()
    target.is_here = True
    world.pass_time(2 * dead_letters.BACKOFF_MS)
    world.settle()
    assert world.letters() == [(None, None, _headers(1))]
    assert world.states == [(1, 4, 1)]


def test_letters_are_given_up_after_five_attempts(world: LetterWorld) -> None:
    world.configure(OWN)
    member = _member(world)
    world.topics.catalogue.by_name["dlq.orders"].partitions[0].is_here = False
    member.send_acks((0, 1, 1, [REJECT]))
    world.settle()
    for doubled in range(dead_letters.ATTEMPTS - 1):
        assert world.states == [(1, 3, 1)]
        world.pass_time(dead_letters.BACKOFF_MS << doubled)
        world.settle()
    assert world.states == [(1, 4, 1)]


class Peers:
    """The node that leads the other partitions: it has the requests, and the test its responses."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, ProduceRequest, Any]] = []

    def ask(self, worker: int, api_version: int, request: ProduceRequest, answered: Any) -> None:
        assert api_version == 13
        self.asked.append((worker, request, answered))


def test_letters_for_a_partition_that_another_node_leads(world: LetterWorld) -> None:
    """They are sent to it, and again if it does not respond."""
    world.configure(OWN)
    member = _member(world)
    peers, nodes = Peers(), Nodes(0, worker=0, workers=2)
    world.queue._others = nodes, peers
    topic = world.topics.catalogue.by_name["dlq.orders"]
    topic.partitions[0].is_here = False
    member.send_acks((0, 1, 2, [REJECT]))
    world.settle()
    [(worker, request, answered)] = peers.asked
    assert worker == nodes.worker_of("dlq.orders", 0)
    [sent] = request.topic_data
    assert (request.acks, sent.topic_id, sent.partition_data[0].index) == (-1, topic.topic_id, 0)
    found = list(records(sent.partition_data[0].records or b""))
    assert [dict(each.headers)["__dlq.errors.offset"] for each in found] == [b"1", b"2"]
    answered(None)
    assert world.states == [(1, 3, 1), (2, 3, 1)]
    world.pass_time(dead_letters.BACKOFF_MS)
    world.settle()
    [_, (_, again, answered)] = peers.asked
    assert again.topic_data[0].topic_id == topic.topic_id
    answered(ProduceResponse([TopicProduceResponse("", topic.topic_id, [PartitionProduceResponse(0, 0, 7)])]))
    assert world.states == [(1, 4, 1), (2, 4, 1)]


def test_a_member_that_rejects_and_leaves(world: LetterWorld) -> None:
    """The group has no session any more, and its share partitions are removed: the letter is written all the same."""
    world.configure(OWN)
    member = _member(world)
    world.persister.is_prompt = False
    member.send_acks((0, 0, 0, [REJECT]))
    world.partitions.remove_group("g")
    world.persister.is_prompt = True
    world.persister.end()
    world.settle()
    assert world.letters() == [(None, None, _headers(0))]
    assert world.states == [(0, 4, 1)]


def test_a_share_partition_that_reads_its_state_again_has_its_letter_once(world: LetterWorld) -> None:
    world.configure(OWN)
    member = _member(world)
    member.send_acks((0, 1, 1, [REJECT]))
    world.partitions.remove_group("g")
    member.fetch(0)
    world.settle()
    assert world.letters() == [(None, None, _headers(1))]
    assert world.states == [(1, 4, 1)]


def test_a_restart_between_the_state_and_the_letter(world: LetterWorld) -> None:
    world.configure(OWN)
    member = _member(world)
    member.send_acks((0, 1, 1, [REJECT]))
    kept = world.persister.states
    world.crash()
    world.open()
    world.persister.states = kept
    assert world.letters() == []
    Member(world, member.topic_id).fetch(0)
    world.settle()
    assert world.letters() == [(None, None, _headers(1))]
    assert world.states == [(1, 4, 1)]
    assert world.topics.catalogue.by_name["dlq.orders"].partitions[0].log.high_watermark == 1


def test_a_record_is_archived_when_its_letter_is_durable(world: LetterWorld) -> None:
    world.configure(OWN)
    member = _member(world)
    member.send_acks((0, 1, 1, [REJECT]))
    while world.loop.ready:
        world.loop.turn()
    assert world.worker.jobs
    assert world.states == [(1, 3, 1)]
    world.settle()
    assert world.states == [(1, 4, 1)]


def test_a_letter_has_the_time_of_its_writing(world: LetterWorld) -> None:
    world.configure(OWN)
    member = _member(world)
    world.pass_time(5_000)
    member.send_acks((0, 0, 0, [REJECT]))
    world.settle()
    log = world.topics.catalogue.by_name["dlq.orders"].partitions[0].log
    [(_, header)] = iterate_batches(log.read(0, 1 << 20))
    assert (header.max_timestamp, header.producer_id, header.codec) == (START_MS + 5_000, -1, 0)


def test_letters_of_imported_state() -> None:
    """A state that another broker has written: a range with one state has one letter for each record."""
    world = LetterWorld()
    world.configure(OWN)
    topic_id = world.create("orders", 1)
    world.create("dlq.orders", 1, **ENABLED)
    world.produce("orders", batch(*[b"x"] * 4))
    world.persister.is_prompt = True
    key = "g", topic_id, 0
    world.persister.states[key] = PartitionState(
        topic_id, 0, ErrorCode.NONE, None, 0, 0, [StateBatch(0, 2, 3, 5), StateBatch(3, 3, ARCHIVED, 1)]
    )
    Member(world, topic_id).fetch(0)
    world.settle()
    why = "Offset delivery count exceeded the threshold."
    assert world.letters() == [(None, None, _headers(offset, count=5, why=why)) for offset in range(3)]
    assert world.states == [(offset, ARCHIVED, 5) for offset in range(3)] + [(3, ARCHIVED, 1)]
