"""The life of a group, with every client: members join, leave, die and come back, and so does the daemon."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from tests.clients.brokers import QUICK_CONSUMER_SETTINGS, QUICK_SETTINGS, Broker
from tests.clients.families.clients import CLASSIC, CONSUMER, Client
from tests.clients.families.consumer_groups import described
from tests.clients.families.program import Program, wait_for, wait_for_assignment, wait_for_values
from tests.clients.kinds import MakeTopic, Name, Produce
from tests.daemon import running
from tests.support.waiting import wait_until

pytestmark = pytest.mark.clients

PARTITIONS = 6
RECORDS = 120
KILLED_SESSION_TIMEOUT_MS = 15_000  # the end of it is waited for
# Long enough that nobody is expelled on a busy machine while a static member is away.
STATIC_SESSION_TIMEOUT_MS = 60_000

Join = Callable[..., Program]


def seen_once(programs: list[Program], values: list[bytes]) -> None:
    assert Counter(value for each in programs for value in each.values) == Counter(value.decode() for value in values)


def wait_for_commits(admin: KafkaAdminClient, group: str, records: int) -> None:
    """Until the group's committed offsets, as an admin client sees them, add up to all that was produced."""
    wait_until(
        lambda: sum(each.offset for each in admin.list_group_offsets([group])[group].values()) == records,
        f"commits of {records} records",
        seen=lambda: admin.list_group_offsets([group]),
    )


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    return make_topic(PARTITIONS)


@pytest.fixture
def group(name: Name) -> str:
    return name("group")


@pytest.mark.scenario("join")
def test_three_members_join(
    client: Client, bootstrap: str, topic: str, group: str, join: Join, produce: Produce, admin: KafkaAdminClient
) -> None:
    """Two partitions each; every record is seen once and committed."""
    members = [join(bootstrap, group, topic) for _ in range(3)]
    wait_for_assignment(members, PARTITIONS, evenly=True)
    values = produce(topic, RECORDS, PARTITIONS)
    wait_for_values(members, values)
    wait_for_commits(admin, group, RECORDS)
    seen_once(members, values)
    if client.protocol == CONSUMER:
        # A member that keeps what it has may be an epoch behind until its next heartbeat.
        wait_until(lambda: described(bootstrap, group).group_state == "Stable", "a stable group")
        group_now = described(bootstrap, group)
        assert len(group_now.members) == 3
        assert {each.member_epoch for each in group_now.members} == {group_now.group_epoch}
        return
    classic = admin.describe_groups([group])[group]
    assert (classic["group_state"], classic["protocol_type"]) == ("Stable", "consumer")
    assert len(classic["members"]) == 3


@pytest.mark.scenario("leave")
def test_one_leaves(
    client: Client, bootstrap: str, topic: str, group: str, join: Join, produce: Produce, admin: KafkaAdminClient
) -> None:
    """The others have its partitions long before its session would have ended, and nothing is seen twice."""
    members = [join(bootstrap, group, topic, session_timeout_ms=STATIC_SESSION_TIMEOUT_MS) for _ in range(3)]
    wait_for_assignment(members, PARTITIONS)
    values = produce(topic, RECORDS, PARTITIONS)
    wait_for_values(members, values)
    wait_for_commits(admin, group, RECORDS)
    members[0].close()
    wait_for_assignment(members[1:], PARTITIONS, timeout_s=STATIC_SESSION_TIMEOUT_MS / 1000)
    values += produce(topic, RECORDS, PARTITIONS)
    wait_for_values(members[1:], values[RECORDS:])
    seen_once(members, values)


@pytest.mark.scenario("kill")
def test_one_is_killed(
    client: Client, broker: Broker, topic: str, group: str, join: Join, produce: Produce, admin: KafkaAdminClient
) -> None:
    """It is expelled when its session ends, and the others go on where it had committed."""
    members = [join(broker.bootstrap, group, topic, session_timeout_ms=KILLED_SESSION_TIMEOUT_MS) for _ in range(3)]
    wait_for_assignment(members, PARTITIONS)
    values = produce(topic, RECORDS, PARTITIONS)
    wait_for_values(members, values)
    wait_for_commits(admin, group, RECORDS)
    members[0].kill()
    values += produce(topic, RECORDS, PARTITIONS)
    takeover_s = wait_for_assignment(members[1:], PARTITIONS)
    wait_for_values(members[1:], [value for value in values if value.decode() not in members[0].values])
    wait_for_commits(admin, group, len(values))
    assert {Counter(each.values).most_common(1)[0][1] for each in members} == {1}
    first_half = [value.decode() for value in values[:RECORDS]]
    seen = Counter(value for each in members for value in each.values)
    assert {seen[value] for value in first_half} == {1}, "what was committed is not read again"
    print(f"\n{client.name}: takeover {takeover_s:.2f} s after SIGKILL, session timeout {KILLED_SESSION_TIMEOUT_MS} ms")


@pytest.mark.scenario("resume")
def test_commits_survive_the_daemon(client: Client, group: str, join: Join, tmp_path: Path) -> None:
    """The daemon gets SIGKILL and comes back: members go on, and one that starts later begins where they ended."""
    with running(tmp_path, {**QUICK_SETTINGS, **QUICK_CONSUMER_SETTINGS}) as daemon:
        admin = KafkaAdminClient(bootstrap_servers=daemon.bootstrap)
        admin.create_topics({group: {"num_partitions": 4, "replication_factor": 1}})
        admin.wait_for_topics([group])
        admin.close()

        def produce(first: int) -> list[bytes]:
            producer = KafkaProducer(bootstrap_servers=daemon.bootstrap)
            values = [b"value-%06d" % number for number in range(first, first + 40)]
            for value in values:
                producer.send(group, value, partition=int(value[-6:]) % 4)
            producer.flush(timeout=30)
            producer.close(timeout=10)
            return values

        def committed(records: int) -> None:
            admin = KafkaAdminClient(bootstrap_servers=daemon.bootstrap)
            wait_for_commits(admin, group, records)
            admin.close()

        members = [join(daemon.bootstrap, group, group, session_timeout_ms=10_000) for _ in range(2)]
        wait_for_assignment(members, 4)
        before = produce(0)
        wait_for_values(members, before)
        committed(40)
        daemon.kill()
        daemon.start()
        after = produce(40)
        wait_for_values(members, after)
        committed(80)
        seen = Counter(value for each in members for value in each.values)
        assert {seen[value.decode()] for value in before} == {1}, "what was committed is not read again"
        for each in members:
            each.close()
        later = join(daemon.bootstrap, group, group)
        wait_for_assignment([later], 4)
        last = produce(80)
        wait_for_values([later], last)
        seen_once([later], last)
        committed(120)
        later.close()


@pytest.mark.scenario("static")
def test_a_static_member_restarts(
    client: Client, broker: Broker, topic: str, group: str, join: Join, produce: Produce, admin: KafkaAdminClient
) -> None:
    """Leader and follower alike: the same partitions, and the other one notices nothing."""

    def static(number: int) -> Program:
        settings = {"instance": f"instance-{number}", "session_timeout_ms": STATIC_SESSION_TIMEOUT_MS}
        return join(broker.bootstrap, group, topic, **settings)

    def member_ids() -> dict[str | None, str]:
        if client.protocol == CONSUMER:
            wait_until(lambda: described(broker.bootstrap, group).group_state == "Stable", "a stable group")
            group_now = described(broker.bootstrap, group)
            return {each.instance_id: each.member_id for each in group_now.members}
        classic = admin.describe_groups([group])[group]
        assert classic["group_state"] == "Stable"
        return {each["group_instance_id"]: each["member_id"] for each in classic["members"]}

    def rebalances() -> int:
        """Lines that tell of them, once the last one has its end: that is written a moment after clients know."""
        if client.protocol == CONSUMER:
            return described(broker.bootstrap, group).group_epoch
        daemon = broker.daemon
        if daemon is None:
            return 0
        told = functools.partial(daemon.events, "group transition", group=group)
        wait_until(lambda: told()[-1:] and told()[-1]["new"] == "Stable", "the end of the rebalance to be told")
        return len(told())

    members = [static(0), static(1)]
    wait_for_assignment(members, PARTITIONS, evenly=True)
    rebalances_before, ids = rebalances(), member_ids()
    for number in (0, 1):
        before, other = members[number], members[1 - number]
        said_by_other = [*other.of_kind("ASSIGNED"), *other.of_kind("REVOKED")]
        owned = before.owned
        before.close()
        after = members[number] = static(number)
        wait_for([after], lambda after=after: after.owned, "its partitions")
        assert after.owned == owned
        assert [*other.of_kind("ASSIGNED"), *other.of_kind("REVOKED")] == said_by_other
        assert rebalances() == rebalances_before
        values = produce(topic, 60, PARTITIONS)
        wait_for_values(members, values)
    changed = member_ids()
    assert changed.keys() == ids.keys() == {"instance-0", "instance-1"}
    assert not set(changed.values()) & set(ids.values())


@pytest.mark.scenario("eager")
def test_eager_assignors(
    client: Client, bootstrap: str, make_topic: MakeTopic, name: Name, join: Join,
    produce: Produce, admin: KafkaAdminClient,
) -> None:  # fmt: skip
    """Each of the client's: chosen by the vote, everything is assigned, before and after a second member comes."""
    for assignor in client.assignors:
        topic, group = make_topic(4), name(f"group-{assignor}")
        members = [join(bootstrap, group, topic, assignor=assignor)]
        wait_for_assignment(members, 4)
        members.append(join(bootstrap, group, topic, assignor=assignor))
        wait_for_assignment(members, 4)
        assert [len(each.owned) for each in members] == [2, 2]
        values = produce(topic, 40, 4)
        wait_for_values(members, values)
        protocol = admin.describe_groups([group])[group]["protocol_data"]
        assert protocol.lower().replace("assigner", "") == assignor
        for each in members:
            each.kill()


@pytest.mark.scenario("cooperative")
def test_the_cooperative_assignor(
    client: Client, bootstrap: str, topic: str, group: str, join: Join, produce: Produce, admin: KafkaAdminClient
) -> None:
    """The third member's two partitions are taken from the others; what does not move is never let go."""
    assignor = "cooperative-sticky" if client.protocol == CLASSIC else "uniform"
    members = [join(bootstrap, group, topic, assignor=assignor) for _ in range(2)]
    wait_for_assignment(members, PARTITIONS, evenly=True)
    revoked_before = [len(each.of_kind("REVOKED")) for each in members]
    members.append(join(bootstrap, group, topic, assignor=assignor))
    # They may let go one after the other, each in a rebalance of its own.
    wait_for(members, lambda: [len(each.owned) for each in members] == [2, 2, 2], "two partitions with each of three")
    revoked = [
        partition
        for each, before in zip(members, revoked_before, strict=False)
        for line in each.of_kind("REVOKED")[before:]
        if line.rest != "-"
        for partition in map(int, line.rest.split(","))
    ]
    assert sorted(revoked) == sorted(members[2].owned)
    values = produce(topic, RECORDS, PARTITIONS)
    wait_for_values(members, values)
    seen_once(members, values)
    if client.protocol == CONSUMER:
        assert described(bootstrap, group).assignor_name == assignor
    else:
        assert admin.describe_groups([group])[group]["protocol_data"] == assignor


@pytest.mark.scenario("assignors")
def test_the_coordinators_assignors(
    client: Client, bootstrap: str, make_topic: MakeTopic, name: Name, join: Join, produce: Produce
) -> None:  # fmt: skip
    """Each that a member can ask for: everything is assigned, before and after a second member comes."""
    for assignor in client.assignors:
        topic, group = make_topic(4), name(f"group-{assignor}")
        members = [join(bootstrap, group, topic, assignor=assignor)]
        wait_for_assignment(members, 4)
        members.append(join(bootstrap, group, topic, assignor=assignor))
        wait_for_assignment(members, 4)
        owned = sorted(sorted(each.owned) for each in members)
        assert [len(each) for each in owned] == [2, 2]
        if assignor == "range":
            assert owned == [[0, 1], [2, 3]]
        wait_for_values(members, produce(topic, 40, 4))
        assert described(bootstrap, group).assignor_name == assignor
        for each in members:
            each.kill()


@pytest.mark.scenario("expression")
def test_an_expression_is_the_coordinators_business(
    client: Client, bootstrap: str, topic: str, group: str, join: Join, produce: Produce, make_topic: MakeTopic
) -> None:  # fmt: skip
    """Two members of one expression share the topic that it matches, and another one is none of theirs."""
    other = make_topic(PARTITIONS)
    pattern = f"^{topic[:-1]}[{topic[-1]}x]$"
    members = [join(bootstrap, group, topic, pattern=pattern) for _ in range(2)]
    wait_for_assignment(members, PARTITIONS)
    group_now = described(bootstrap, group)
    assert all(each.subscribed_topic_regex for each in group_now.members)
    assigned = {each.topic_name for member in group_now.members for each in member.assignment.topic_partitions}
    assert assigned == {topic} != {other}
    values = produce(topic, RECORDS, PARTITIONS)
    wait_for_values(members, values)
    seen_once(members, values)
