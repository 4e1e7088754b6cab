"""Members by chance: they join, leave, vanish and change topics, and the share coordinator fails now and then.

`World` asserts after each step that the log gives the state again. When all is quiet, each partition of a subscribed
topic belongs to as many members as it should, and to subscribers alone.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from coordinatord.coordination.group import events
from kafka_wire.errors import ErrorCode
from tests.coordination.group.share.test_membership import world
from tests.coordination.group.share.world import World

STEPS = 60
NAMES = ("t", "u", "v")


def one_step(made: World, chance: random.Random) -> None:
    share = made.group.share
    members = [] if share is None else sorted(share.members)
    kind = chance.choice(["join", "join", "beat", "beat", "beat", "leave", "wait", "topics", "grow", "restart", "gone"])
    if kind == "join":
        names = chance.sample(NAMES, chance.randint(1, 3))
        reply = made.heard(chance.choice("abcd"), 0, *names)
        made.create(reply.create, succeeded=chance.random() < 0.8)
    elif kind == "wait":
        made.advance(chance.choice([100, 1_000, 20_000, 31_000]))
    elif kind == "grow":
        name = chance.choice(NAMES)
        known = made.topics.find(name)
        made.topics.put(name, 1 if known is None else min(known.partitions + 1, 6))
    elif kind == "gone":
        topic = made.topics.find(chance.choice(NAMES))
        if topic is not None and chance.random() < 0.3:
            made.topics.delete(topic.name)
            made.tell(events.TopicDeleted(topic.name, topic.topic_id))
    elif kind == "restart":
        made.restart()
    elif members and share is not None:
        member_id = chance.choice(members)
        if kind == "leave":
            made.heartbeat(member_id, -1)
            return
        names = chance.sample(NAMES, chance.randint(0, 2)) if kind == "topics" else []
        epoch = share.members[member_id].epoch - (chance.random() < 0.1)
        reply = made.heard(member_id, max(epoch, 1), *names)
        made.create(reply.create, succeeded=chance.random() < 0.8)


def check_quiet(made: World) -> None:
    """Let members send heartbeats until nothing changes."""
    share = made.group.share
    if share is None or not share.members:
        return
    for _ in range(6):
        made.advance(1_000)
        for member_id in list(share.members):
            assert made.heartbeat(member_id, share.members[member_id].epoch).error_code == ErrorCode.NONE
    assert made.records == []
    assert {member.epoch for member in share.members.values()} == {share.epoch} == {share.assignment_epoch}
    held: Counter[tuple[str, int]] = Counter()
    for member_id in share.members:
        for name, partitions in made.assigned(member_id).items():
            held.update((name, each) for each in partitions)
    for name in NAMES:
        topic, readers = made.topics.find(name), [each for each in share.members.values() if name in each.topics]
        wanted = range(0 if topic is None or not readers else topic.partitions)
        assert {each for known, each in held if known == name} == set(wanted)
        assert all(held[name, each] <= -(-len(share.members) // max(len(wanted), 1)) for each in wanted)
    for member_id, member in share.members.items():
        assert made.assigned(member_id).keys() <= member.topics


@pytest.mark.parametrize("seed", range(25))
def test_random_members(seed: int) -> None:
    chance = random.Random(seed)
    made = world(t=2, u=1)
    for _ in range(STEPS):
        one_step(made, chance)
    check_quiet(made)
