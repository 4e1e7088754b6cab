"""A power failure takes what was not flushed from the end of a consumer group's log (KIP-848): the group is afterwards
what it was after some step, never a mixture, and with `log.flush=always` no acknowledged step is lost.
"""

from __future__ import annotations

import contextlib
import copy
import random
from functools import partial
from typing import Any

import pytest

from coordinatord.broker.log.errors import LogDamaged, LogFailed
from coordinatord.broker.log.simulated_disk import SimulatedCrash, SimulatedDisk
from coordinatord.broker.log.writer import FlushPolicy
from kafka_wire.api.consumer_group_heartbeat import TopicPartitions
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import build_batch
from kafka_wire.records.keys import decode_key, decode_value, encode_key, encode_value
from tests.broker.log.world import World as Files
from tests.broker.log.world import contents
from tests.coordination.group.consumer_world import Topics, World, durable, replayed

LIVES, STEPS, SEEDS = 3, 40, range(20)
OFFSETS = "__consumer_offsets"


class Members:
    """Clients of one group that join, go on, leave and see topics grow."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world = world
        self.chance = chance
        self.known: dict[str, tuple[int, list[TopicPartitions]]] = {}
        self.made = 0

    def act(self) -> None:
        world, chance = self.world, self.chance
        which = chance.randrange(8)
        if which == 0 or not self.known:
            self.made += 1
            self._heard(world.join(f"m-{self.made}-{chance.random()}", "t", "u"))
        elif which == 1:
            member_id, (epoch, _) = self._any()
            world.heartbeat(member_id, -1 if epoch else 0)
            del self.known[member_id]
        elif which == 2:
            world.topics.put("t", world.topics.by_name["t"].partitions + 1)
        elif which == 3:
            world.advance(chance.randrange(1, 5_000))
        else:
            member_id, (epoch, owned) = self._any()
            self._heard(world.heartbeat(member_id, epoch, topic_partitions=owned), member_id)

    def _any(self) -> tuple[str, tuple[int, list[TopicPartitions]]]:
        return self.chance.choice(list(self.known.items()))

    def _heard(self, answer: Any, member_id: str = "") -> None:
        if answer.error_code != ErrorCode.NONE:
            self.known.pop(member_id, None)
            return
        owned = answer.assignment.topic_partitions if answer.assignment is not None else None
        before = self.known.get(answer.member_id, (0, []))[1]
        self.known[answer.member_id] = answer.member_epoch, before if owned is None else owned


def opened(disk: SimulatedDisk, flush: FlushPolicy, topics: Topics) -> tuple[Files, World]:
    """The files, and the group that they give. Topics are kept: partitions never become fewer."""
    files, world = Files(disk, flush=flush), World()
    world.topics = topics
    for _, key, value in contents(files.log(OFFSETS)):
        assert key is not None
        decoded = decode_key(key)
        world.log.append((decoded, None if value is None else decode_value(decoded, value)))
    world.group = replayed(world.new_group(), world.log)
    world.restart()
    return files, world


def lose_power(seed: int, flush: FlushPolicy) -> int:
    """Some lives of one disk. Returns how many acknowledged steps were lost."""
    chance, disk, lost = random.Random(seed), SimulatedDisk(seed), 0
    topics = Topics()
    topics.put("t", 4)
    topics.put("u", 2)
    for _ in range(LIVES):
        files, world = opened(disk, flush, topics)
        members = Members(world, chance)
        states, acknowledged = [state(world)], [0]
        disk.crash_after = disk.operations + chance.randrange(1, 150)
        with contextlib.suppress(SimulatedCrash, LogFailed):
            for number in range(STEPS):
                before = len(world.log)
                members.act()
                if len(world.log) > before:
                    files.writer.append(files.log(OFFSETS), batch_of(world, before))
                states.append(state(world))
                files.writer.hold(files.writer.epoch, partial(acknowledged.append, number + 1))
                for _ in range(chance.randrange(3)):
                    files.loop.turn()
                    files.worker.run_one()
                    files.background.run_one()
        disk.crash_after = None
        disk.crash("power")
        found = state(opened(disk, flush, topics)[1])
        matching = [at for at, each in enumerate(states) if each == found]
        assert matching, "a group that never was"
        lost += max(0, max(acknowledged) - matching[-1])
        disk.crash("kill")
    return lost


def batch_of(world: World, first: int) -> Any:
    """The records of the last steps: what one turn of the event loop appends is one batch."""
    records = [(encode_key(key), None if value is None else encode_value(value)) for key, value in world.log[first:]]
    return build_batch(records, world.now_ms)


def state(world: World) -> tuple[Any, ...]:
    """What a test compares."""
    return copy.deepcopy(durable(world.group))


def test_nothing_acknowledged_is_lost_if_it_is_flushed_first() -> None:
    assert sum(lose_power(seed, "always") for seed in SEEDS) == 0


@pytest.mark.parametrize("flush", ["interval", "never"])
def test_without_a_flush_the_last_steps_are_lost(flush: FlushPolicy) -> None:
    lost = refused = 0
    for seed in SEEDS:
        try:
            lost += lose_power(seed, flush)
        except LogDamaged:
            refused += 1
    assert lost or refused, "the disk forgot nothing: the test shows nothing"
    assert refused == 0 or flush == "never"
