"""`coordinatord groups` and `lag` on share groups, as a user types them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from coordinatord.cli import cli
from coordinatord.monitoring.offsets_log.source.share_state_topic import SHARE_STATE_TOPIC
from coordinatord.testing import Kafka
from coordinatord.testing.wire import Wire
from coordinatord.transport.security.authorizer import Operation, Permission, ResourceType
from kafka_wire.api.create_acls import AclCreation, CreateAclsRequest
from kafka_wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.server.control.world import TOPIC
from tests.support.waiting import wait_until
from tests.testing.test_share_groups import ACCEPT, GROUP, REJECT, Member, until_fetched

RECORDS = 10
Command = Callable[..., str]


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    """A Kafka with ten records in the first of two partitions."""
    with Kafka(topics={TOPIC: 2}) as started:
        started.put(TOPIC, [str(number) for number in range(RECORDS)], partition=0)
        started.share_group(GROUP).configure({"share.auto.offset.reset": "earliest"})
        yield started


@pytest.fixture
def command(kafka: Kafka) -> Command:
    """Runs a command with the expected exit status, and returns what it prints."""

    def run(*arguments: str, status: int = 0) -> str:
        told = CliRunner().invoke(cli, [*arguments, "--bootstrap", str(kafka.bootstrap_servers)])
        assert told.exit_code == status, told.output
        return told.output

    return run


def worked(kafka: Kafka, *, leave: bool = False) -> Member:
    """A member that has accepted records 0 and 1, rejected 4, and still has 2, 3 and 5."""
    member, group = Member(kafka, "picker"), kafka.share_group(GROUP)
    while not (found := member.fetch(max_records=6)):  # the first fetch begins to load the share partition
        group.until(lambda view: view.partitions)
    assert found == [(0, 5, 1)]
    member.acknowledge(0, 1, ACCEPT)
    member.acknowledge(4, 4, REJECT)
    if leave:
        kafka.share_group(GROUP).kick("picker")
    return member


def assigned(member: Member) -> bool:
    """Whether the member has its partitions, as of a new heartbeat."""
    response = member.ask(ShareGroupHeartbeatRequest(GROUP, member.member_id, 0, None, [TOPIC]), 1)
    return response.assignment is not None and bool(response.assignment.topic_partitions)


def rows(command: Command, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(command(*arguments, "--json"))
    return found


def start_offsets(command: Command) -> dict[int, int | None]:
    return {row["partition"]: row["start_offset"] for row in rows(command, "groups", "describe", GROUP)}


def test_list_describe_and_members(kafka: Kafka, command: Command) -> None:
    member = worked(kafka)
    wait_until(lambda: assigned(member), "the member to have its partitions")
    assert [(each["group_id"], each["type"], each["state"]) for each in rows(command, "groups", "list")] == [
        (GROUP, "share", "Stable")
    ]
    first, second = rows(command, "groups", "describe", GROUP)
    # 0 and 1 are done, and 4 is archived behind them.
    assert (first["start_offset"], first["end_offset"], first["lag"]) == (2, RECORDS, RECORDS - 3)
    assert (first["committed_offset"], first["members"], first["client_id"]) == (None, 1, "picker")
    assert (second["partition"], second["end_offset"]) == (1, 0)
    text = command("groups", "describe", GROUP)
    assert f"Group {GROUP} is Stable: 1 member in epoch" in text
    assert "(share protocol" in text
    assert "START" in text
    assert "COMMITTED" not in text
    [row] = rows(command, "groups", "members", GROUP)
    assert (row["client_id"], row["assigned"]) == ("picker", {TOPIC: [0, 1]})


def test_a_share_partition_without_a_start_offset(kafka: Kafka, command: Command) -> None:
    """The group has been given it, and has read nothing of it."""
    member = worked(kafka)
    wait_until(lambda: assigned(member), "the member to have its partitions")
    kafka.share_group(GROUP).kick("picker")
    assert start_offsets(command) == {0: 2, 1: None}
    plan = command("groups", "reset-offsets", GROUP, "--all-topics", "--to-latest")
    assert f"{GROUP} {TOPIC} 1 - 0 -" in [" ".join(line.split()) for line in plan.splitlines()]
    assert "would be deleted" in command("groups", "delete-offsets", GROUP, "--topic", TOPIC)
    [row] = rows(command, "lag", GROUP)
    assert row["partition"] == 0


def test_several_members_of_a_partition_are_counted(kafka: Kafka, command: Command) -> None:
    members = [worked(kafka), Member(kafka, "second"), Member(kafka, "third")]
    wait_until(lambda: all(assigned(member) for member in members), "all members to have partitions")
    found = rows(command, "groups", "describe", GROUP)
    shared = [row for row in found if row["members"] > 1]
    assert all(row["client_id"] is None for row in shared)
    assert sum(row["members"] for row in found if row["partition"] is not None) >= len(members)


def test_a_member_is_not_removed(kafka: Kafka, command: Command) -> None:
    worked(kafka)
    told = command("groups", "evict", GROUP, "picker", "--execute", status=1)
    assert told == f"coordinatord: group {GROUP} is a share group: Kafka has no request to remove its members.\n"


def test_reset_offsets(kafka: Kafka, command: Command) -> None:
    worked(kafka)
    busy = command("groups", "reset-offsets", GROUP, "--all-topics", "--to-latest", "--execute", status=1)
    assert f"group {GROUP} is Stable and not reset: it has picker on " in busy
    kafka.share_group(GROUP).kick("picker")
    reset = ("groups", "reset-offsets", GROUP, "--topic", f"{TOPIC}:0")
    assert "Nothing was changed" in command(*reset, "--to-earliest")
    assert start_offsets(command)[0] == 2, "a dry run"
    command(*reset, "--to-earliest", "--execute")
    assert start_offsets(command)[0] == 0
    command(*reset, "--to-offset", "7", "--execute")
    assert start_offsets(command)[0] == 7
    command(*reset, "--to-latest", "--execute")
    assert start_offsets(command)[0] == RECORDS
    command(*reset, "--shift-by", "-4", "--execute")
    assert until_fetched(Member(kafka, "late"), kafka.share_group(GROUP)) == [(RECORDS - 4, RECORDS - 1, 1)]


def test_there_is_no_history_of_start_offsets(kafka: Kafka, command: Command) -> None:
    worked(kafka, leave=True)
    told = command("groups", "reset-offsets", GROUP, "--to-moment", "03:12", "--execute", status=1)
    assert f"group {GROUP} is a share group: the offsets log has no history of its offsets." in told


def test_delete_offsets(kafka: Kafka, command: Command) -> None:
    worked(kafka, leave=True)
    part = command("groups", "delete-offsets", GROUP, "--topic", f"{TOPIC}:0", "--execute", status=1)
    assert part == (
        f"coordinatord: group {GROUP} is a share group, which forgets whole topics only: --topic {TOPIC}.\n"
    )
    assert "would be deleted" in command("groups", "delete-offsets", GROUP, "--topic", TOPIC)
    assert start_offsets(command)[0] == 2, "a dry run"
    command("groups", "delete-offsets", GROUP, "--topic", TOPIC, "--execute")
    assert start_offsets(command) == {}


def test_delete(kafka: Kafka, command: Command) -> None:
    worked(kafka)
    assert "is Stable and not deleted" in command("groups", "delete", GROUP, "--execute", status=1)
    kafka.share_group(GROUP).kick("picker")
    assert "would be deleted" in command("groups", "delete", GROUP)
    assert "deleted" in command("groups", "delete", GROUP, "--execute")
    assert rows(command, "groups", "list") == []


def test_lag(kafka: Kafka, command: Command) -> None:
    worked(kafka)
    [row] = rows(command, "lag", GROUP)
    assert (row["group_id"], row["topic"], row["partition"]) == (GROUP, TOPIC, 0)
    assert (row["committed_offset"], row["end_offset"], row["lag"]) == (2, RECORDS, RECORDS - 3)
    assert (row["status"], row["why"]) == ("behind", f"{RECORDS - 3} unread")
    assert f"{RECORDS - 3} unread" in command("lag")
    kafka.share_group(GROUP).kick("picker")
    assert f"{RECORDS - 3} unread: it has no members" in command("lag", GROUP)


def test_lag_shows_share_partitions_from_the_broker(kafka: Kafka, command: Command) -> None:
    """Below what is unread."""
    worked(kafka, leave=True)

    def table() -> list[str]:
        told = [" ".join(line.split()) for line in command("lag", GROUP).splitlines()[-3:]]
        return [re.sub(r"\d+ (s|min)( ago)?\b", "AGE", line) for line in told]

    wanted = [
        "GROUP TOPIC PARTITION START DONE AFTER IT ARCHIVED MOST DELIVERIES OLDEST RECORD LAST CHANGE WHY",
        f"{GROUP} {TOPIC} 0 2 1 1 1 at 2 AGE AGE offset 4 archived at delivery count 1",
        f"{GROUP} {TOPIC} 1 - 0 0 - - AGE",
    ]
    wait_until(lambda: table() == wanted, "the released records to be stored", seen=table)


OPEN = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
"""Settings with which everybody may do what no ACL is about."""


@pytest.mark.parametrize("acl", [(Operation.DESCRIBE, Permission.ALLOW), (Operation.ALL, Permission.DENY)])
def test_a_user_may_not_read_the_states(acl: tuple[Operation, Permission]) -> None:
    """The topic is seen, but not read, or not seen at all. What the coordinator of the group says is there."""
    with Kafka(topics={TOPIC: 2}, settings=OPEN) as kafka:
        kafka.put(TOPIC, [str(number) for number in range(RECORDS)], partition=0)
        kafka.share_group(GROUP).configure({"share.auto.offset.reset": "earliest"})
        worked(kafka, leave=True)
        creation = AclCreation(ResourceType.TOPIC, SHARE_STATE_TOPIC, 3, "User:ANONYMOUS", "*", *acl)
        wire = Wire(lambda: ("127.0.0.1", int(kafka.bootstrap_servers.rpartition(":")[2])))
        [result] = wire.ask(CreateAclsRequest([creation]), 3).results
        wire.close()
        assert result.error_code == 0
        bootstrap = str(kafka.bootstrap_servers)
        told = CliRunner().invoke(cli, ["lag", GROUP, "--bootstrap", bootstrap])
    assert told.exit_code == 0, told.output
    assert told.stderr.splitlines() == [
        f"deliveries of share groups are missing here: {bootstrap} does not let this user read {SHARE_STATE_TOPIC}: "
        f"allow it, with kafka-acls --add --allow-principal PRINCIPAL --operation Read --topic {SHARE_STATE_TOPIC}."
    ]
    assert f"{RECORDS - 3} unread: it has no members" in told.stdout
    assert "MOST DELIVERIES" not in told.stdout


def test_a_cluster_without_share_groups(command: Command) -> None:
    assert command("groups", "list", "--type", "share") == "The cluster has no share groups.\n"
    assert command("groups", "list", "--state", "stable") == "The cluster has no such group.\n"
    assert "has no topic __consumer_offsets: no group has committed there yet." in command("lag", GROUP, status=2)
    command("groups", "describe", GROUP, status=1)  # looks for its coordinator
    assert command("lag", GROUP, status=1) == f"coordinatord: the log has no group {GROUP}.\n"
