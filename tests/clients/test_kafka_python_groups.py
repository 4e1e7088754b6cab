"""kafka-python's consumer groups as applications run them: formed, left, bereaved of a member, side by side."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

from tests.clients.brokers import Broker
from tests.clients.kinds import MakeMember, MakeTopic, Name, Produce
from tests.clients.members import ConsumerProcess, Member, wait_for_assignment, wait_for_values
from tests.daemon import logged_at_s
from tests.support.waiting import wait_until

pytestmark = pytest.mark.clients

PARTITIONS = 6
RECORDS = 600
EXPELLED_LATE_S = 10.0
"""By which a busy machine may tell of it later; a rebalance timeout is a minute and more."""


def test_three_consumers_and_a_producer_with_default_settings(default_broker: Broker, name: Name) -> None:
    """Nothing is set but the address, the group and the topic: every record is seen once, also when a member leaves."""
    bootstrap, topic, group = default_broker.bootstrap, name("topic"), name("group")
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics({topic: {"num_partitions": PARTITIONS, "replication_factor": 1}})
    admin.wait_for_topics([topic])
    members = [Member(bootstrap, group, topic) for _ in range(3)]
    producer = KafkaProducer(bootstrap_servers=bootstrap)

    def produce(first: int) -> list[bytes]:
        values = [b"%d" % number for number in range(first, first + RECORDS)]
        for value in values:
            producer.send(topic, value, key=value)
        producer.flush(timeout=30)
        return values

    wait_for_assignment(members, PARTITIONS)
    assert [len(member.assignment) for member in members] == [2, 2, 2]
    values = produce(0)
    wait_for_values(members, values)
    described = admin.describe_groups([group])[group]
    assert (described["group_state"], described["protocol_type"], described["protocol_data"]) == (
        "Stable",
        "consumer",
        "range",
    )
    assert {each["member_id"] for each in described["members"]} == {member.member_id for member in members}

    members[0].close()
    wait_for_assignment(members[1:], PARTITIONS)
    values += produce(RECORDS)
    wait_for_values(members, values)
    assert Counter(value for member in members for value in member.values) == Counter(values)

    for member in members[1:]:
        member.close()  # commits
    committed = admin.list_group_offsets([group])[group]
    ends = {tp: end.offset for tp, end in admin.list_partition_offsets(dict.fromkeys(committed, -1)).items()}
    assert {tp: each.offset for tp, each in committed.items()} == ends
    assert sum(ends.values()) == 2 * RECORDS
    assert admin.describe_groups([group])[group]["group_state"] == "Empty"
    producer.close(timeout=10)
    admin.close()


def test_the_others_take_over_from_a_killed_member(
    broker: Broker,
    make_topic: MakeTopic,
    produce: Produce,
    consumer_process: Callable[..., ConsumerProcess],
    name: Name,
    record_property: Callable[[str, object], None],
) -> None:
    """A member that gets SIGKILL is expelled when its session ends; the others go on where it had committed."""
    session_timeout_ms = 3_000
    topic, group = make_topic(PARTITIONS), name("group")
    settings = {"session_timeout_ms": session_timeout_ms, "heartbeat_interval_ms": 300}
    processes = [consumer_process(broker.bootstrap, group, topic, **settings) for _ in range(3)]
    everything = list(range(PARTITIONS))

    def assigned_to(members: list[ConsumerProcess]) -> bool:
        assignments = [each.assignment for each in members]
        return all(assignments) and sorted(itertools.chain(*assignments)) == everything

    wait_until(lambda: assigned_to(processes), "three members with two partitions each")
    values = produce(topic, RECORDS, PARTITIONS)

    def seen() -> set[str]:
        return {value for each in processes for event in each.of_kind("records") for value in event["values"]}

    wait_until(lambda: len(seen()) == len(values), "all records before the kill")
    wait_until(lambda: processes[0].of_kind("committed"), "a commit of the one that will be killed")
    killed_at_s = processes[0].kill()
    values += produce(topic, RECORDS, PARTITIONS)
    takeover_s = wait_until(lambda: assigned_to(processes[1:]), "all partitions with the two that are left")
    wait_until(lambda: len(seen()) == len(values), "all records after the kill")

    last_commit = processes[0].of_kind("committed")[-1]["offsets"]
    taken_over = {}
    for event in processes[1].of_kind("assigned")[-1:] + processes[2].of_kind("assigned")[-1:]:
        taken_over.update(event["positions"])
    for partition, offset in last_commit.items():
        assert taken_over[partition] >= offset, f"partition {partition} went back behind its committed offset"
    record_property("takeover_s", round(takeover_s, 2))
    print(f"\ntakeover {takeover_s:.2f} s after SIGKILL with a session timeout of {session_timeout_ms / 1000:g} s")
    if broker.daemon is not None:
        transitions = broker.daemon.events("group transition", group=group, new="PreparingRebalance")
        expelled_s = next(logged_at_s(each) - killed_at_s for each in transitions if logged_at_s(each) > killed_at_s)
        assert expelled_s <= session_timeout_ms / 1000 + EXPELLED_LATE_S
    assert {each.terminate() for each in processes[1:]} == {0}


def test_two_groups_side_by_side_see_everything(
    make_topic: MakeTopic, produce: Produce, member: MakeMember, name: Name
) -> None:
    topic = make_topic(4)
    groups = [[member(name(word), topic) for _ in range(2)] for word in ("red", "blue")]
    values = produce(topic, RECORDS, 4)
    for members in groups:
        wait_for_values(members, values)
        assert Counter(value for each in members for value in each.values) == Counter(values)


def test_more_members_than_partitions(make_topic: MakeTopic, produce: Produce, member: MakeMember, name: Name) -> None:
    """One is idle, and takes over at once when the other leaves."""
    topic, group = make_topic(1), name("group")
    members = [member(group, topic) for _ in range(2)]
    wait_until(lambda: sorted(len(each.assignment) for each in members) == [0, 1], "one with the partition")
    wait_until(lambda: len({each.generation for each in members}) == 1, "one generation")
    values = produce(topic, 10)
    wait_for_values(members, values)
    # Who has the partition is known for certain by who has read: what members say may be of the generation before.
    busy, idle = sorted(members, key=lambda each: -len(each.values))
    busy.close()
    values = produce(topic, 10)
    wait_for_values([idle], values)
    assert idle.values == values


def test_a_group_grows_one_by_one(make_topic: MakeTopic, produce: Produce, member: MakeMember, name: Name) -> None:
    """Every arrival rebalances; nothing is lost, and what is seen twice was not committed in between."""
    topic, group = make_topic(PARTITIONS), name("group")
    members: list[Member] = []
    values: list[bytes] = []
    for _ in range(3):
        members.append(member(group, topic))
        wait_for_assignment(members, PARTITIONS)
        values += produce(topic, 60, PARTITIONS)
        wait_for_values(members, values)
    generations = [each.generation for each in members]
    assert len(set(generations)) == 1
    assert generations[0] >= 3
    # kafka-python commits before it gives partitions up, so nobody reads anything again.
    assert Counter(value for each in members for value in each.values) == Counter(values)


def test_a_member_that_stops_polling_loses_its_partitions_and_comes_back(
    make_topic: MakeTopic, produce: Produce, member: MakeMember, name: Name
) -> None:
    """max.poll.interval.ms is the rebalance timeout: the client leaves by itself, and joins again when it polls."""
    topic, group = make_topic(2), name("group")
    first = member(group, topic, max_poll_interval_ms=1_000)
    second = member(group, topic)
    wait_for_assignment([first, second], 2)
    first.call(lambda _: wait_until(lambda: len(second.assignment) == 2, "both partitions with the one that polls"))
    wait_for_assignment([first, second], 2)
    values = produce(topic, 20, 2)
    wait_for_values([first, second], values)


def test_consumers_without_a_group(bootstrap: str, make_topic: MakeTopic, produce: Produce) -> None:
    """No group, no coordinator: partitions assigned by hand."""
    from kafka import KafkaConsumer
    from kafka.errors import IllegalStateError

    topic = make_topic(2)
    values = produce(topic, 40, 2)
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="earliest", consumer_timeout_ms=40_000
    )
    consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
    seen = [record.value for _, record in zip(values, consumer, strict=False)]
    assert Counter(seen) == Counter(values)
    with pytest.raises(IllegalStateError):
        consumer.commit()
    consumer.close()
