"""What every admin client can ask about groups and do to them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import CoordinatorNotAvailableError, NoError
from kafka.structs import OffsetAndMetadata

from kafka_wire.errors import ErrorCode
from tests.clients.families.clients import CONSUMER, Client
from tests.clients.families.consumer_groups import join_members, leave
from tests.clients.families.program import Line, Program, parsed_pairs
from tests.clients.kinds import MakeMember, MakeTopic, Name, Produce
from tests.clients.members import wait_for_assignment
from tests.support.waiting import wait_until

pytestmark = pytest.mark.clients

PARTITIONS = 4
OFFSETS = {0: 3, 1: 0, 3: 7}


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    return make_topic(PARTITIONS)


@pytest.fixture
def offsets_of(admin: KafkaAdminClient) -> Callable[[str], dict[int, int]]:
    """What another client (kafka-python 3) sees of a group's offsets."""
    return lambda group: {tp.partition: each.offset for tp, each in admin.list_group_offsets([group])[group].items()}


@pytest.fixture
def group(
    client: Client, bootstrap: str, admin: KafkaAdminClient, topic: str, name: Name, produce: Produce
) -> str:  # fmt: skip
    """An empty group with offsets; by the consumer protocol it has had a member."""
    produce(topic, 8 * PARTITIONS, PARTITIONS)
    group_id = name("group")
    if client.protocol == CONSUMER:
        leave(bootstrap, group_id, join_members(bootstrap, group_id, topic, 1))
    offsets = {TopicPartition(topic, number): OffsetAndMetadata(offset, "", -1) for number, offset in OFFSETS.items()}

    def altered() -> bool:
        try:
            return set(admin.alter_group_offsets(group_id, offsets).values()) == {NoError}
        except CoordinatorNotAvailableError:  # Kafka itself, until it has made its offsets topic
            return False

    wait_until(altered, "offsets of an empty group")
    return group_id


@pytest.fixture
def busy_group(client: Client, bootstrap: str, topic: str, name: Name, member: MakeMember) -> str:
    """A group of two members that own all partitions."""
    group_id = name("busy")
    if client.protocol == CONSUMER:
        join_members(bootstrap, group_id, topic, 2)  # their sessions are longer than a test
        return group_id
    members = [member(group_id, topic, enable_auto_commit=False) for _ in range(2)]
    wait_for_assignment(members, PARTITIONS)
    return group_id


@pytest.fixture
def ask(start: Callable[..., Program], bootstrap: str) -> Callable[..., Line]:
    return start(mode="admin", bootstrap=bootstrap).ask


def failed(line: Line, code: ErrorCode) -> bool:
    return line.kind == "ERROR" and line.rest.split(" ")[0] == str(int(code))


@pytest.mark.scenario("describe")
def test_list_and_describe(client: Client, ask: Callable[..., Line], group: str, busy_group: str) -> None:
    listed = ask("list")
    assert listed.kind == "OK", listed
    assert {group, busy_group} <= set(listed.rest.split(" "))
    assert ask("describe", busy_group).rest == "Stable 2 0,1,2,3"
    assert ask("describe", group).rest == "Empty 0 -"


@pytest.mark.scenario("list by type")
def test_list_by_type_and_state(
    client: Client, ask: Callable[..., Line], group: str, busy_group: str, name: Name,
    topic: str, admin: KafkaAdminClient,
) -> None:  # fmt: skip
    classic = name("classic")
    admin.alter_group_offsets(classic, {TopicPartition(topic, 0): OffsetAndMetadata(1, "", -1)})
    ours = {group, busy_group, classic}
    for filters, expected in {
        ("consumer", "stable"): {busy_group},
        ("consumer", "empty"): {group},
        ("classic", "stable"): set(),
        ("classic", "empty"): {classic},
    }.items():
        listed = ask("list", *filters)
        assert listed.kind == "OK", listed
        assert ours & set(listed.rest.split(" ")) == expected, filters


@pytest.mark.scenario("offsets")
def test_list_offsets(client: Client, ask: Callable[..., Line], group: str) -> None:
    assert parsed_pairs(ask("offsets", group).rest) == OFFSETS


@pytest.mark.scenario("alter")
def test_alter_offsets(
    client: Client,
    ask: Callable[..., Line],
    group: str,
    busy_group: str,
    topic: str,
    offsets_of: Callable[[str], dict[int, int]],
) -> None:
    """Offsets of a group without members can be set; of one with members they cannot."""
    altered = ask("alter", group, topic, "0:1,2:8")
    assert altered.kind == "OK", altered
    assert offsets_of(group) == OFFSETS | {0: 1, 2: 8}
    refused = ask("alter", busy_group, topic, "0:5")
    assert refused.kind == "ERROR", refused
    assert offsets_of(busy_group).get(0, 0) == 0


@pytest.mark.scenario("delete offsets")
def test_delete_offsets(
    client: Client,
    ask: Callable[..., Line],
    group: str,
    busy_group: str,
    topic: str,
    offsets_of: Callable[[str], dict[int, int]],
) -> None:
    deleted = ask("delete-offsets", group, topic, "0,1")
    assert deleted.kind == "OK", deleted
    assert offsets_of(group) == {3: 7}
    refused = ask("delete-offsets", busy_group, topic, "0")
    assert failed(refused, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC), refused


@pytest.mark.scenario("delete")
def test_delete_groups(
    client: Client, ask: Callable[..., Line], group: str, busy_group: str, admin: KafkaAdminClient
) -> None:
    refused = ask("delete", busy_group)
    assert failed(refused, ErrorCode.NON_EMPTY_GROUP), refused
    deleted = ask("delete", group)
    assert deleted.kind == "OK", deleted
    missing = ask("delete", group)
    assert failed(missing, ErrorCode.GROUP_ID_NOT_FOUND), missing
    listed = {each["group_id"] for each in admin.list_groups()}
    assert busy_group in listed
    assert group not in listed
