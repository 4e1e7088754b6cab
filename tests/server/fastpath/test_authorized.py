"""With an authorizer shortcuts answer as the full path does, whoever asks, and whatever becomes of ACLs meanwhile."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from coordinatord.server.access.authorized_fastpath import repeating
from coordinatord.server.access.guard import MAX_IDENTITY_BYTES, Identities
from coordinatord.transport.security.authorizer import (
    ANYBODY,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from tests.handlers.test_handlers import stable
from tests.handlers.world import World
from tests.server.fastpath import test_commits as commits
from tests.server.fastpath import test_heartbeats as heartbeats
from tests.support.rows import first_quick
from tests.support.shell import Wire

HEARTBEAT, COMMIT = ApiKey.HEARTBEAT, ApiKey.OFFSET_COMMIT
USERS = ("alice", "bob")

ALLOW, DENY = Permission.ALLOW, Permission.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC


def acl(
    kind: ResourceType, name: str, principal: str = ANYBODY, host: str = WILDCARD, *, permission: int = ALLOW,
    pattern: int = LITERAL, operation: int = Operation.READ,
) -> Acl:  # fmt: skip
    return Acl(kind, name, pattern, principal, host, operation, permission)


ALL = [
    acl(kind, WILDCARD, operation=operation)
    for kind, operation in ((GROUP, Operation.READ), (GROUP, Operation.DELETE), (TOPIC, Operation.READ))
]
"""With these, everybody may do what is asked here."""
OTHERS = [
    acl(kind, name, principal, host, permission=permission)
    for kind, name in ((GROUP, "g"), (TOPIC, "orders"), (TOPIC, "clicks"))
    for principal, host, permission in product(
        (ANYBODY, "User:alice", "User:bob"), (WILDCARD, "10.0.0.1", "10.0.0.2"), (ALLOW, DENY)
    )
]
OTHERS += [acl(TOPIC, "o", pattern=PREFIXED, permission=permission) for permission in (ALLOW, DENY)]


def change(worlds: list[World], rng: random.Random) -> None:
    """An ACL is added or removed; or all is allowed again."""
    kind = rng.random()
    if kind < 0.5:
        allow_all(worlds)
        return
    changed = rng.choice(ALL if kind < 0.6 else OTHERS)
    for world in worlds:
        world.permit(changed, remove=changed in world.authorizer)


def allow_all(worlds: list[World]) -> None:
    for world in worlds:
        for each in OTHERS:
            world.permit(each, remove=True)
        for each in ALL:
            world.permit(each)


@pytest.mark.interpreted
@pytest.mark.parametrize("seed", first_quick(range(10), 3))
def test_heartbeats_are_answered_as_if_they_were_decoded(seed: int) -> None:
    pair = heartbeats.Pair(random.Random(seed), users=USERS)
    worlds = list(pair.worlds)
    for world in worlds:
        world.door.connections.max_connections = 10_000

    def balance(pair: heartbeats.Pair) -> None:
        allow_all(worlds)
        heartbeats.balance(pair)

    def permissions(pair: heartbeats.Pair) -> None:
        change(worlds, pair.rng)

    happens = [each for each in heartbeats.HAPPENS if each is not heartbeats.balance]
    happens += [balance] * 6 + [permissions] * 2
    for _ in range(1_000):
        pair.rng.choice(happens if pair.rng.random() < 0.9 else heartbeats.CHANGES)(pair)
        pair.settle()
    assert worlds[0].hits[HEARTBEAT] > 20
    refused = worlds[1].metrics.errors
    assert any(error == ErrorCode.GROUP_AUTHORIZATION_FAILED for _, error in refused), "ACLs decided something"


class Story(commits.Story):
    """Of commits, with several connections of two users, and ACLs that change."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, users=USERS)
        self.worlds = [side.world for side in self.sides]
        self.open = [[side.wire, *(side.world.wire() for _ in range(3))] for side in self.sides]
        allow_all(self.worlds)

    def ask_otherwise(self) -> None:
        """On another connection."""
        number = self.rng.randrange(4)
        for side, wires in zip(self.sides, self.open, strict=True):
            if wires[number].connection.closed:
                wires[number] = side.world.wire()
            side.wire = wires[number]

    def change_permissions(self) -> None:
        change(self.worlds, self.rng)

    def begin_anew(self) -> None:
        allow_all(self.worlds)
        super().begin_anew()


@pytest.mark.interpreted
@pytest.mark.parametrize("seed", first_quick(range(16), 4))
def test_commits_are_answered_as_if_they_were_decoded(seed: int) -> None:
    story = Story(seed)
    for world in story.worlds:
        world.door.connections.max_connections = 10_000
    happens: list[Callable[[Any], object]] = [*commits.HAPPENS]
    happens += [Story.begin_anew if each is commits.Story.begin_anew else each for each in happens]
    happens += [Story.ask_otherwise] * 3 + [Story.change_permissions] * 3
    hits = story.worlds[0].hits
    for number in range(1_000):
        story.rng.choice(happens)(story)
        story.check()
        if number > 250 and hits[COMMIT] > 2:
            break
    assert hits[COMMIT] > 2


# One by one


def beat(wire: Wire, member: str) -> int:
    wire.send(HeartbeatRequest("g", 1, member), 4)
    error: int = wire.answers[-1][1].error_code
    return error


def commit(wire: Wire, member: str, *topics: str) -> dict[str, int]:
    asked = [OffsetCommitRequestTopic(name, partitions=[OffsetCommitRequestPartition(0, 5, 3, "")]) for name in topics]
    wire.send(OffsetCommitRequest("g", 1, member, topics=asked), 8)
    return {topic.name: topic.partitions[0].error_code for topic in wire.answers[-1][1].topics}


def settled() -> tuple[World, list[Wire], str]:
    """A world in which alice's member is stable; connections of alice and bob."""
    world = World(users=USERS)
    allow_all([world])
    wires = [world.wire() for _ in range(4)]
    return world, wires, stable(world, wires[0])


REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_a_revoked_permission_ends_repetition_at_once() -> None:
    world, (alice, *_), member = settled()
    assert [beat(alice, member) for _ in range(3)] == [0, 0, 0]
    assert world.hits[HEARTBEAT] == 2
    world.permit(ALL[0], remove=True)
    assert beat(alice, member) == REFUSED
    assert beat(alice, member) == REFUSED
    assert world.hits[HEARTBEAT] == 2
    world.permit(ALL[0])
    assert [beat(alice, member) for _ in range(3)] == [0, 0, 0]
    assert world.hits[HEARTBEAT] == 4, "the first one after a change is looked at"


@pytest.mark.parametrize(
    "denied", [acl(GROUP, "g", "User:bob", permission=DENY), acl(GROUP, "g", ANYBODY, "10.0.0.2", permission=DENY)]
)
def test_the_same_bytes_of_somebody_else_are_looked_at(denied: Acl) -> None:
    world, wires, member = settled()
    alice, bob, *_ = wires
    elsewhere = wires[3] if denied.host != WILDCARD else bob  # wires 2 and 3 come from another address
    world.permit(denied)
    for _ in range(3):
        assert beat(alice, member) == 0
    hits = world.hits[HEARTBEAT]
    assert hits == 2
    for _ in range(3):
        assert beat(elsewhere, member) == REFUSED
    assert world.hits[HEARTBEAT] == hits
    assert beat(alice, member) == 0
    assert world.hits[HEARTBEAT] == hits + 1, "what was refused has replaced nothing"


def test_another_connection_of_the_same_client_is_answered_by_what_the_first_one_asked() -> None:
    world, (alice, *_), member = settled()
    beat(alice, member)
    (again, _, same, _) = (world.wire() for _ in range(4))
    assert same.connection.client_host != alice.connection.client_host
    for wire, hits in ((again, 1), (same, 1)):
        assert wire.connection.identity is None, "nobody has looked at it yet"
        beat(wire, member)
        beat(wire, member)
        assert world.hits[HEARTBEAT] == hits
        world.hits.clear()


def test_a_commit_that_is_refused_in_part_is_not_repeated() -> None:
    world, (alice, *_), member = settled()
    world.permit(acl(TOPIC, "clicks", "User:alice", permission=DENY))
    wanted = {"orders": 0, "clicks": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert [commit(alice, member, "orders", "clicks") for _ in range(6)] == [wanted] * 6
    assert world.hits[COMMIT] == len(world.shortcut(COMMIT, 8)) == 0
    assert [commit(alice, member, "orders") for _ in range(8)][-1] == {"orders": 0}
    assert world.hits[COMMIT] > 0


def test_a_commit_is_repeated_by_who_may_commit_its_topics() -> None:
    world, (alice, bob, *_), member = settled()
    world.permit(acl(TOPIC, "orders", "User:bob", permission=DENY))
    for _ in range(4):
        assert commit(alice, member, "orders") == {"orders": 0}
    hits = world.hits[COMMIT]
    assert hits == 2
    for _ in range(4):
        assert commit(bob, member, "orders") == {"orders": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert world.hits[COMMIT] == hits
    for _ in range(4):
        assert commit(bob, member, "clicks") == {"clicks": 0}
        assert commit(bob, member, "orders") == {"orders": ErrorCode.TOPIC_AUTHORIZATION_FAILED}


def test_acls_that_another_worker_changes_are_read_first() -> None:
    world, (alice, *_), member = settled()
    made = repeating(
        {HEARTBEAT: lambda codec: world.shortcut(HEARTBEAT, codec.api_version).inner},
        world.authorizer,
        lambda: world.permit(ALL[0], remove=True),
    )
    for _ in range(2):
        assert beat(alice, member) == 0
    route = world.router.routes[(HEARTBEAT << 16 | 4).to_bytes(4, "big")]
    shortcut = made[HEARTBEAT](route.codec)
    assert shortcut is not None
    route.shortcut = shortcut
    assert beat(alice, member) == REFUSED


def test_identities_are_bounded() -> None:
    identities, connection = Identities(), World().wire().connection
    first = identities.of(connection)
    assert identities.of(connection) is first
    for number in range(25_000):
        connection.client_host = f"/2001:db8::{number:x}"
        identities.of(connection)
    assert 10_000 < len(identities._known) < 25_000
    assert identities._known.bytes <= MAX_IDENTITY_BYTES
