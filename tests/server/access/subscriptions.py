"""Subscriptions of the consumer protocol and permissions of topics, as a story that was recorded from Apache Kafka:
`python -m tests.server.access.subscriptions`. The quick tests play it on our daemon, on a virtual clock.

Which topics a group's expressions match depends on who sent the heartbeat that had them resolved, and when. So the
story makes a topic ten seconds after the expressions were last resolved, and lets one member go on first.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from coordinatord.testing.conform.raw_client import RawClient
from coordinatord.testing.conform.values import subscription
from coordinatord.transport.security.authorizer import Operation, Permission, ResourceType
from kafka_wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kafka_wire.api.create_acls import AclCreation, CreateAclsRequest
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafka_wire.api.describe_acls import DescribeAclsRequest
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.errors import ErrorCode
from tests.server.access.cases import SUPER
from tests.server.access.kafka import logged_in, secured_kafka

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-subscriptions.json"

USERS = ("alice", "bob", "carol", "dave")
GROUP, OTHER_GROUP = "g", "h"
EXPRESSION = "a-.*"

REFRESH_S = 11.0
"""Longer than Kafka's REGEX_BATCH_REFRESH_MIN_INTERVAL_MS."""
BEAT_S = 0.5
QUIET = 7
"""Heartbeats in a row that tell nothing new: then a member is taken to have its partitions."""

R, Op, DENY = ResourceType, Operation, Permission.DENY
Connect = Callable[[str], Awaitable[RawClient]]


class Member:
    """A member of the consumer protocol, and the topics that it has."""

    def __init__(self, scene: Scene, client: RawClient, group: str, member_id: str) -> None:
        self.scene = scene
        self.client = client
        self.group = group
        self.member_id = member_id
        self.epoch = 0
        self.owned: list[TopicPartitions] = []

    async def say(self, **fields: Any) -> str:
        """A heartbeat. The name of its error; what it assigns is owned at once."""
        answer = await self.client.ask(
            ConsumerGroupHeartbeatRequest(self.group, self.member_id, self.epoch, **fields), 1
        )
        if not answer.error_code:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.owned = answer.assignment.topic_partitions
        return ErrorCode(answer.error_code).name

    async def join(self, **subscribed: Any) -> None:
        """Join with this subscription."""
        said = await self.say(rebalance_timeout_ms=60_000, topic_partitions=[], **subscribed)
        assert said == "NONE", said

    @property
    def topics(self) -> list[str]:
        """The topics of which it has partitions."""
        return sorted(self.scene.names[each.topic_id] for each in self.owned)


class Scene:
    """A broker, its topics, and what was seen."""

    def __init__(self, connect: Connect, client: RawClient) -> None:
        self._connect = connect
        self._client = client
        self.names: dict[bytes, str] = {}
        self.seen: list[tuple[str, Any]] = []

    def see(self, what: str, outcome: Any) -> None:
        """Something that Kafka and we must have in common."""
        self.seen.append((what, outcome))

    async def create(self, *names: str) -> None:
        """Topics of one partition."""
        made = await self._client.ask(CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names], 10_000), 7)
        for topic in made.topics:
            assert not topic.error_code, topic
            self.names[topic.topic_id] = topic.name
        for name in names:
            await self._known(name)

    async def _known(self, name: str) -> None:
        """Wait until Kafka's broker has a topic from its controller, and its coordinator, too."""
        asked = MetadataRequest([MetadataRequestTopic(bytes(16), name)], False)
        for _ in range(200):
            (found,) = (await self._client.ask(asked, 12)).topics
            if not found.error_code:
                break
            await asyncio.sleep(0.2)
        probe = f"probe-{name}"
        await self.available(probe)
        for _ in range(600):  # its coordinator has heard of it when it assigns the topic
            asked_by = ConsumerGroupHeartbeatRequest(probe, "probe", 0)
            asked_by.rebalance_timeout_ms, asked_by.topic_partitions = 60_000, []
            asked_by.subscribed_topic_names = [name]
            answer = await self._client.ask(asked_by, 1)
            if answer.assignment is not None and answer.assignment.topic_partitions:
                await self._client.ask(ConsumerGroupHeartbeatRequest(probe, "probe", -1), 1)
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"{name} is not assigned to anybody")

    async def grant(
        self, user: str, kind: R, name: str, operation: Op, permission: Permission = Permission.ALLOW
    ) -> None:
        """One more ACL."""
        acl = AclCreation(kind, name, 3, f"User:{user}", "*", operation, permission)
        made = await self._client.ask(CreateAclsRequest([acl]), 3)
        assert not made.results[0].error_code, made
        asked = DescribeAclsRequest(kind, name, 3, acl.principal, None, operation, permission)
        await self._acls_known(asked, are_there=True)

    async def revoke(self, user: str, kind: R, name: str) -> None:
        """All ACLs of a user for a resource."""
        gone = await self._client.ask(
            DeleteAclsRequest([DeleteAclsFilter(kind, name, 3, f"User:{user}", None, Op.ANY, Permission.ANY)]), 3
        )
        assert gone.filter_results[0].matching_acls, gone
        asked = DescribeAclsRequest(kind, name, 3, f"User:{user}", None, Op.ANY, Permission.ANY)
        await self._acls_known(asked, are_there=False)

    async def _acls_known(self, asked: DescribeAclsRequest, *, are_there: bool) -> None:
        """Wait until Kafka's broker has a change of ACLs from its controller."""
        for _ in range(200):
            if bool((await self._client.ask(asked, 3)).resources) == are_there:
                return
            await asyncio.sleep(0.2)
        raise AssertionError(f"the broker does not know of a change: {asked}")

    async def member(self, user: str, group: str = GROUP) -> Member:
        """A member that has not joined yet, with a connection of its own."""
        return Member(self, await self._connect(user), group, f"member-of-{user}")

    async def settle(self, *members: Member) -> list[str]:
        """Heartbeats of all, until nobody hears anything new. The topics that they have."""
        quiet = 0
        for _ in range(200):
            before = [(each.epoch, each.topics) for each in members]
            for each in members:
                said = await each.say(topic_partitions=each.owned)
                assert said == "NONE", (said, self.seen)
            quiet = quiet + 1 if before == [(each.epoch, each.topics) for each in members] else 0
            if quiet == QUIET:
                return sorted({name for each in members for name in each.topics})
            await asyncio.sleep(BEAT_S)
        raise AssertionError("the group does not settle")

    async def described(self, user: str) -> Any:
        """ConsumerGroupDescribe: the error, or the topics of all members."""
        client = await self._connect(user)
        (group,) = (await client.ask(ConsumerGroupDescribeRequest([GROUP]), 1)).groups
        client.close()
        if group.error_code:
            return ErrorCode(group.error_code).name
        return sorted({each.topic_name for member in group.members for each in member.assignment.topic_partitions})

    async def available(self, group: str) -> None:
        """Wait for the group's coordinator: Kafka makes its topic first."""
        for _ in range(200):
            (found,) = (await self._client.ask(FindCoordinatorRequest("", 0, [group]), 4)).coordinators
            asked = await self._client.ask(ConsumerGroupDescribeRequest([group]), 1)
            if not found.error_code and asked.groups[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                return
            await asyncio.sleep(0.2)
        raise AssertionError("no coordinator")


async def story(connect: Connect) -> list[tuple[str, Any]]:
    """What is seen, step by step."""
    scene = Scene(connect, await connect(SUPER))
    await scene.create("a-one", "a-two", "a-three", "a-four", "b-one")
    for user in USERS:
        for group in (GROUP, OTHER_GROUP):
            await scene.grant(user, R.GROUP, group, Op.READ)
    await scene.grant("alice", R.TOPIC, "a-one", Op.DESCRIBE)
    await scene.grant("alice", R.TOPIC, "a-two", Op.READ)
    await scene.grant("alice", R.TOPIC, "a-four", Op.ALL)
    await scene.grant("alice", R.TOPIC, "a-four", Op.DESCRIBE, DENY)
    for name in ("a-three", "a-four"):
        await scene.grant("bob", R.TOPIC, name, Op.DESCRIBE)
    await scene.grant("carol", R.TOPIC, "a-one", Op.DESCRIBE)
    for group in (GROUP, OTHER_GROUP):
        await scene.available(group)
    alice = await _of_one(scene)
    await _of_two(scene, alice)
    await _of_others(scene)
    return scene.seen


async def _of_one(scene: Scene) -> Member:
    alice = await scene.member("alice")
    await alice.join(subscribed_topic_regex=EXPRESSION)
    scene.see("alice joins: what she may describe, or read", await scene.settle(alice))
    for user in (SUPER, "alice", "bob"):
        scene.see(f"the group described to {user}", await scene.described(user))
    await scene.grant("alice", R.TOPIC, "a-three", Op.DESCRIBE)
    await asyncio.sleep(REFRESH_S)
    scene.see("an ACL more, and no topic", await scene.settle(alice))
    await scene.create("c-one")
    scene.see("any topic more", await scene.settle(alice))
    await scene.revoke("alice", R.TOPIC, "a-one")
    scene.see("an ACL less, at once", await scene.settle(alice))
    scene.see("the group described to alice then", await scene.described("alice"))
    await asyncio.sleep(REFRESH_S)
    await scene.create("c-two")
    scene.see("and when expressions are next resolved", await scene.settle(alice))
    return alice


async def _of_two(scene: Scene, alice: Member) -> None:
    bob = await scene.member("bob")
    await bob.join(subscribed_topic_regex=EXPRESSION)
    scene.see("bob joins with the same expression", await scene.settle(bob, alice))
    await asyncio.sleep(REFRESH_S)
    await scene.create("c-three")
    await bob.say()
    scene.see("bob's heartbeat comes first", await scene.settle(bob, alice))
    scene.see("the group described to alice after bob's", await scene.described("alice"))
    scene.see("the group described to bob", await scene.described("bob"))
    await asyncio.sleep(REFRESH_S)
    await scene.create("c-four")
    client = await scene._connect("carol")
    protocols = [JoinGroupRequestProtocol("range", subscription("b-one"))]
    joined = await client.ask(JoinGroupRequest(GROUP, 30_000, 30_000, "", None, "consumer", protocols), 3)
    scene.see("carol joins by the classic protocol", ErrorCode(joined.error_code).name)
    scene.see("what her JoinGroup made of the expression", await scene.settle(bob, alice))
    await scene.revoke("alice", R.GROUP, GROUP)
    scene.see("alice's heartbeat without READ of the group", await alice.say())
    scene.see("the group described to alice without it", await scene.described("alice"))


async def _of_others(scene: Scene) -> None:
    dave = await scene.member("dave", OTHER_GROUP)
    full = {"rebalance_timeout_ms": 60_000, "topic_partitions": []}
    for names in (["a-one"], ["b-one", "nowhere"]):
        said = await dave.say(subscribed_topic_names=names, subscribed_topic_regex=EXPRESSION, **full)
        scene.see(f"dave names {names}", said)
    await dave.join(subscribed_topic_regex=EXPRESSION)
    scene.see("dave joins, who may describe no topic", await scene.settle(dave))
    await scene.grant("dave", R.TOPIC, "b-one", Op.DESCRIBE)
    scene.see("dave names a topic that he may describe", await dave.say(subscribed_topic_names=["b-one"]))
    scene.see("and has it", await scene.settle(dave))
    await scene.revoke("dave", R.TOPIC, "b-one")
    scene.see("and keeps it when he may not any more", await scene.settle(dave))
    scene.see("but cannot name it again", await dave.say(subscribed_topic_names=["b-one"]))


def recorded() -> list[Any]:
    """What was seen on Kafka."""
    known: list[Any] = json.loads(GOLDEN.read_text())
    return known


def on_kafka() -> list[Any]:
    """Play it on Kafka."""
    with tempfile.TemporaryDirectory() as directory, secured_kafka(Path(directory), (SUPER, *USERS)) as broker:
        found = asyncio.run(story(logged_in(broker.port)))
    plain: list[Any] = json.loads(json.dumps(found))
    return plain


def main() -> None:
    """Write the golden file."""
    GOLDEN.write_text("[\n" + ",\n".join(json.dumps(each) for each in on_kafka()) + "\n]\n")


if __name__ == "__main__":
    main()
