"""kafka-python's admin client: groups, their offsets, topics, the cluster."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, MemberToRemove, OffsetSpec
from kafka.errors import (
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    InvalidPartitionsError,
    NoError,
    NonEmptyGroupError,
    TopicAlreadyExistsError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)
from kafka.structs import OffsetAndMetadata

from tests.clients.brokers import Broker
from tests.clients.kinds import MakeMember, MakeTopic, Name, Produce
from tests.clients.members import wait_for_assignment, wait_for_members, wait_for_values
from tests.support.waiting import wait_until

pytestmark = pytest.mark.clients


def test_groups_can_be_listed_and_described(
    admin: KafkaAdminClient, make_topic: MakeTopic, member: MakeMember, name: Name
) -> None:
    topic, group, elsewhere = make_topic(4), name("group"), name("nobody")
    members = [member(group, topic, client_id=f"reader-{number}") for number in range(2)]
    wait_for_assignment(members, 4)
    listed = {each["group_id"]: each for each in admin.list_groups()}
    assert (listed[group]["protocol_type"], listed[group]["group_state"]) == ("consumer", "Stable")
    assert listed[group]["group_type"] == "classic"
    assert group in {each["group_id"] for each in admin.list_groups(states_filter=["Stable"])}
    assert group not in {each["group_id"] for each in admin.list_groups(states_filter=["Empty"])}
    assert group not in {each["group_id"] for each in admin.list_groups(types_filter=["consumer"])}

    described = admin.describe_groups([group])[group]
    assert described["error"] is None
    assert (described["group_state"], described["protocol_data"]) == ("Stable", "range")
    by_id = {each["member_id"]: each for each in described["members"]}
    assert set(by_id) == {each.member_id for each in members}
    for each in members:
        seen = by_id[each.member_id]
        assert seen["client_id"].startswith("reader-")
        assert seen["client_host"] == "/127.0.0.1"
        assert seen["member_metadata"]["topics"] == [topic]
        (assigned,) = seen["member_assignment"]["assigned_partitions"]
        assert (assigned["topic"], sorted(assigned["partitions"])) == (topic, each.partitions)
    nobody = admin.describe_groups([elsewhere])[elsewhere]
    assert nobody["group_state"] == "Dead"
    assert "GroupIdNotFound" in nobody["error"]


def test_groups_can_be_deleted_when_they_are_empty(
    admin: KafkaAdminClient, make_topic: MakeTopic, produce: Produce, member: MakeMember, name: Name
) -> None:
    topic, group, nobody = make_topic(1), name("group"), name("nobody")
    reader = member(group, topic)
    wait_for_values([reader], produce(topic, 5))
    assert admin.delete_groups([group]) == {group: "NonEmptyGroupError"}
    reader.close()
    assert admin.list_group_offsets([group])[group][TopicPartition(topic, 0)].offset == 5
    assert admin.delete_groups([group, nobody]) == {group: "OK", nobody: "GroupIdNotFoundError"}
    assert admin.list_group_offsets([group])[group] == {}
    assert group not in {each["group_id"] for each in admin.list_groups()}
    again = member(group, topic)
    wait_for_members([again], lambda: len(again.records) == 5, "all records again: nothing is committed any more")


def test_offsets_of_an_empty_group_can_be_changed(
    admin: KafkaAdminClient, make_topic: MakeTopic, produce: Produce, name: Name
) -> None:
    topic, group = make_topic(2), name("group")
    produce(topic, 40, 2)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    # The first commit makes the group: one without members, as tools and stream processors have them.
    altered = admin.alter_group_offsets(
        group, {zero: OffsetAndMetadata(5, "by hand", -1), one: OffsetAndMetadata(7, "", -1)}
    )
    assert set(altered.values()) == {NoError}
    assert {each["group_id"]: each["group_state"] for each in admin.list_groups()}[group] == "Empty"
    known = admin.list_group_offsets({group: [zero]})[group]
    assert (known[zero].offset, known[zero].metadata) == (5, "by hand")
    reset = admin.reset_group_offsets(group, {zero: OffsetSpec.LATEST, one: OffsetSpec.EARLIEST})
    assert {tp: each["offset"] for tp, each in reset.items()} == {zero: 20, one: 0}
    assert admin.delete_group_offsets(group, [one]) == {one: NoError}
    assert {tp: each.offset for tp, each in admin.list_group_offsets([group])[group].items()} == {zero: 20}
    with pytest.raises(GroupIdNotFoundError):
        admin.delete_group_offsets(name("nobody"), [one])


def test_offsets_of_a_living_group_are_its_own(
    admin: KafkaAdminClient, make_topic: MakeTopic, produce: Produce, member: MakeMember, name: Name
) -> None:
    topic, group = make_topic(1), name("group")
    partition = TopicPartition(topic, 0)
    reader = member(group, topic, auto_commit_interval_ms=100)
    wait_for_values([reader], produce(topic, 5))
    assert admin.alter_group_offsets(group, {partition: OffsetAndMetadata(1, "", -1)}) == {
        partition: UnknownMemberIdError
    }
    assert admin.delete_group_offsets(group, [partition]) == {partition: GroupSubscribedToTopicError}


def test_a_static_member_stays_until_it_is_removed(
    admin: KafkaAdminClient, make_topic: MakeTopic, member: MakeMember, name: Name
) -> None:
    topic, group = make_topic(1), name("group")
    reader = member(group, topic, group_instance_id="the-one", session_timeout_ms=30_000)
    wait_for_assignment([reader], 1)
    reader.close()
    assert admin.delete_groups([group]) == {group: "NonEmptyGroupError"}
    (described,) = admin.describe_groups([group])[group]["members"]
    assert described["group_instance_id"] == "the-one"
    stranger = MemberToRemove(member_id="nobody")
    assert admin.remove_group_members(group, [stranger]) == {"nobody": UnknownMemberIdError}
    removed = admin.remove_group_members(group, [MemberToRemove(group_instance_id="the-one")])
    assert set(removed.values()) == {NoError}
    assert admin.delete_groups([group]) == {group: "OK"}


def test_topics_can_be_created_described_grown_and_deleted(
    broker: Broker, admin: KafkaAdminClient, produce: Produce, name: Name, bootstrap: str
) -> None:
    topic = name("topic")
    new = {topic: {"num_partitions": 3, "replication_factor": 1, "configs": {"retention.ms": "3600000"}}}
    admin.create_topics(new, validate_only=True)
    assert topic not in admin.list_topics()
    admin.create_topics(new)
    admin.wait_for_topics([topic])
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics(new)
    (described,) = admin.describe_topics([topic])
    assert sorted(each["partition_index"] for each in described["partitions"]) == [0, 1, 2]
    assert {each["leader_id"] for each in described["partitions"]} == set(range(broker.nodes))
    assert str(described["topic_id"]) != "00000000-0000-0000-0000-000000000000"

    produce(topic, 30, 3)
    admin.create_partitions({topic: 5})
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({topic: 2})
    (grown,) = admin.describe_topics([topic])
    assert len(grown["partitions"]) == 5
    assert grown["topic_id"] == described["topic_id"]
    partitions = [TopicPartition(topic, number) for number in range(5)]
    ends = admin.list_partition_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    assert [ends[partition].offset for partition in partitions] == [10, 10, 10, 0, 0]

    admin.delete_topics([topic])
    assert topic not in admin.list_topics()
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([topic])
    admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})
    admin.wait_for_topics([topic])
    (anew,) = admin.describe_topics([topic])
    assert anew["topic_id"] != described["topic_id"]
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    assert consumer.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 0}, "a new one, and empty"
    consumer.close()


def test_commits_go_with_their_topic(admin: KafkaAdminClient, make_topic: MakeTopic, name: Name) -> None:
    """Kafka forgets the offsets of a topic that is deleted."""
    kept, deleted, group = make_topic(1), make_topic(1), name("group")
    offsets = {TopicPartition(topic, 0): OffsetAndMetadata(3, "", -1) for topic in (kept, deleted)}
    assert set(admin.alter_group_offsets(group, offsets).values()) == {NoError}
    admin.delete_topics([deleted])
    wait_until(
        lambda: set(admin.list_group_offsets([group])[group]) == {TopicPartition(kept, 0)},
        "the deleted topic's offset to go",
        seen=lambda: str(admin.list_group_offsets([group])),
        timeout_s=15,
    )


def test_records_can_be_deleted(
    admin: KafkaAdminClient, make_topic: MakeTopic, produce: Produce, bootstrap: str
) -> None:
    partition = TopicPartition(make_topic(1), 0)
    produce(partition.topic, 20)
    admin.delete_records({partition: 15})
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=20_000)
    assert consumer.beginning_offsets([partition]) == {partition: 15}
    consumer.assign([partition])
    assert next(consumer).offset == 15
    consumer.close()


def test_configs_can_be_described(admin: KafkaAdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(1, **{"retention.ms": "3600000"})
    described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all")
    configs = described["topic"][topic]
    assert configs["retention.ms"]["value"] == "3600000"
    assert configs["cleanup.policy"]["value"] == "delete"
    node = admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, "0")], config_filter="all")
    assert node["broker"]["0"]["group.min.session.timeout.ms"]["value"] == "500"


def test_a_group_can_keep_its_offsets_for_ever(admin: KafkaAdminClient, name: Name) -> None:
    group, retention = name("group"), "offsets.retention.minutes"

    def described() -> dict[str, Any]:
        resource = ConfigResource(ConfigResourceType.GROUP, group)
        configs: dict[str, Any] = admin.describe_configs([resource], config_filter="all")["group"][group]
        return configs[retention]

    before = described()["value"]
    admin.alter_configs([ConfigResource(ConfigResourceType.GROUP, group, {retention: "-1"})])
    assert described()["value"] == "-1"
    admin.alter_configs([ConfigResource(ConfigResourceType.GROUP, group, {retention: ("DELETE", None)})])
    assert described()["value"] == before


def test_the_cluster_can_be_described(admin: KafkaAdminClient, broker: Broker) -> None:
    cluster = admin.describe_cluster()
    host, _, port = broker.bootstrap.partition(":")
    told = [(each["broker_id"], each["host"], each["port"]) for each in cluster["brokers"]]
    assert told == [(number, host, int(port) + number) for number in range(broker.nodes)]
    assert cluster["controller_id"] == 0
    assert cluster["cluster_id"]


def test_a_group_that_is_not_empty_keeps_its_state(
    admin: KafkaAdminClient, make_topic: MakeTopic, member: MakeMember, name: Name
) -> None:
    """A refused deletion changes nothing for the members."""
    topic, group = make_topic(2), name("group")
    reader = member(group, topic)
    wait_for_assignment([reader], 2)
    generation = reader.generation
    assert admin.delete_groups([group]) == {group: NonEmptyGroupError.__name__}
    reader.call(lambda consumer: consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(0, "", -1)}))
    assert reader.generation == generation
