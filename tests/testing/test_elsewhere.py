"""A broker that is not ours to control, which here is a coordinatord that nobody controls."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaError as ClientError

from coordinatord.testing import Kafka, KafkaError
from coordinatord.testing.groups import Group
from coordinatord.testing.wire import GROUP_RESOURCE, Wire
from kafka_wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.server.control.world import GROUP, JOIN_VERSION, TOPIC, Client


@pytest.fixture
def broker() -> Iterator[Kafka]:
    with Kafka(topics={"theirs": 1}) as started:
        started.put("theirs", ["precious"])
        yield started


@pytest.fixture
def kafka(broker: Kafka) -> Iterator[Kafka]:
    with Kafka(broker.bootstrap_servers, topics={TOPIC: 1}) as started:
        yield started


def test_the_generation_of_a_classic_group_is_that_of_its_log(broker: Kafka, kafka: Kafka) -> None:
    a = Client(kafka, "a").join()
    view = kafka.group(GROUP).until_stable(members=1).result
    assert (view.protocol, view.generation) == ("classic", a.generation)
    with kafka.group(GROUP).no_rebalance():
        a.heartbeat()
    with pytest.raises(AssertionError, match="Group g has rebalanced"), kafka.group(GROUP).no_rebalance():
        a.join()
    assert kafka.group(GROUP).view.generation == broker.group(GROUP).view.generation == a.generation


def test_a_member_is_kicked(kafka: Kafka) -> None:
    a = Client(kafka, "a").join()
    assert kafka.group(GROUP).kick("a") == a.member_id
    kafka.group(GROUP).until_empty()
    with pytest.raises(KafkaError, match=r"Group g has 0 members called 'a'\. It has no members\."):
        kafka.group(GROUP).kick("a")


def test_a_transaction_expires(kafka: Kafka) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id="t1", api_version=(4, 0))
    with contextlib.closing(producer):
        producer.init_transactions()
        with pytest.raises(KafkaError, match="has no open transaction: its state is Empty"):
            kafka.transaction("t1").expire()
        producer.begin_transaction()
        producer.send(TOPIC, b"coffee").get(timeout=60)
        assert kafka.transaction("t1").state == "Ongoing"
        kafka.transaction("t1").expire()
        with pytest.raises(ClientError):
            producer.commit_transaction()
    assert kafka.records(TOPIC, committed=True) == []
    assert kafka.transaction("t1").state == "Empty"  # the id belongs to somebody else now


def test_what_a_test_has_made_is_deleted(broker: Kafka) -> None:
    """Also a topic that its client has made, and a group whose static member is closed and has not left."""
    with Kafka(broker.bootstrap_servers, topics={TOPIC: 1}) as kafka:
        with contextlib.closing(KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, api_version=(4, 0))) as client:
            client.send("made-by-a-client", b"x").get(timeout=60)
        assert kafka.records("made-by-a-client") == [b"x"]
        assert kafka.records("theirs") == [b"precious"]
        kafka.put("theirs", ["more"])
        kafka.put("made-by-put", ["y"])
        Client(kafka, "a").join()
        kafka.group(GROUP).until_stable(members=1)
    assert broker.group(GROUP).state == "Dead"
    assert broker.records("theirs") == [b"precious", b"more"], "not made by the test"
    for topic in (TOPIC, "made-by-a-client", "made-by-put"):
        with pytest.raises(KafkaError, match="There is no topic"):
            broker.records(topic)


def test_a_group_that_was_there_is_left_alone(broker: Kafka) -> None:
    member = Client(broker, "a").join()
    broker.group(GROUP).until_stable(members=1)
    with Kafka(broker.bootstrap_servers) as kafka:
        assert [each.member_id for each in kafka.group(GROUP).members] == [member.member_id]
        assert kafka.committed(GROUP) == {}
    assert [each.member_id for each in broker.group(GROUP).members] == [member.member_id]


def test_the_settings_of_a_tests_group_are_removed(broker: Kafka) -> None:
    asked = DescribeConfigsResource(GROUP_RESOURCE, GROUP, ["share.auto.offset.reset"])
    host, port = broker.bootstrap_servers.split(":")
    wire = Wire(lambda: (host, int(port)))

    def value() -> str:
        [described] = wire.ask(DescribeConfigsRequest([asked]), 4).results
        return str(described.configs[0].value)

    with Kafka(broker.bootstrap_servers) as kafka:
        kafka.configure_group(GROUP, {"share.auto.offset.reset": "earliest"})
        assert value() == "earliest"
    assert value() == "latest"
    wire.close()


def test_topics_are_made_for_each_start(broker: Kafka) -> None:
    """A stop deletes them, so the next start of the same object makes them again."""
    kafka = Kafka(broker.bootstrap_servers, topics={TOPIC: 2})
    for _ in range(2):
        with kafka:
            kafka.put(TOPIC, ["coffee"])
            assert kafka.records(TOPIC) == [b"coffee"]
            assert len(kafka.end_offsets(TOPIC)) == 2
        with pytest.raises(KafkaError, match="There is no topic"):
            broker.records(TOPIC)


def test_a_member_that_leaves_meanwhile_keeps_no_other_in_its_group(
    broker: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of two members is gone when it is to be removed: the second is removed all the same."""
    kick, gone = Group.kick, list[str]()

    def leave_first(group: Group, member: str) -> str:
        if not gone:
            gone.append(kick(group, member))
        return kick(group, member)

    with Kafka(broker.bootstrap_servers, topics={TOPIC: 1}) as kafka:
        Client(kafka, "a").join()
        second = Client(kafka, "b")
        second.member_id = second.wire.ask(second.join_request(), JOIN_VERSION).member_id
        waits = threading.Thread(target=second.wire.ask, args=(second.join_request(), JOIN_VERSION))
        waits.start()  # for the first to join again
        kafka.group(GROUP).until(lambda view: len(view.members) == 2)
        monkeypatch.setattr(Group, "kick", leave_first)
    waits.join(10)
    assert len(gone) == 1
    assert broker.group(GROUP).state == "Dead"
