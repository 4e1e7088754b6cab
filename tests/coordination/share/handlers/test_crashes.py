"""Random members, and a daemon that is killed or loses its power: what was acknowledged stays so, the rest comes again.

The state is in `__share_group_state` on a simulated disk; a crash keeps of it what a real one would.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from coordinatord.coordination.share.apis.acknowledge import ShareAcknowledges
from coordinatord.coordination.share.apis.fetch import ShareFetches
from coordinatord.coordination.share.apis.leaders import Leaders
from coordinatord.coordination.share.leader import SharePartitions
from coordinatord.coordination.share.members import ShareMembers
from coordinatord.coordination.share.partition.state import Limits
from coordinatord.coordination.share.sessions import ShareSessions
from tests.broker.topics.world import Context, batch
from tests.coordination.share.coordinator.world import GROUP, World
from tests.coordination.share.handlers.world import Member, ShareSettings, Timers, ack_errors, acquired, errors

LIMIT = 10
LOCK_MS = 30_000
PARTITIONS = (0, 1)
ACCEPT, RELEASE, REJECT = 1, 2, 3
Record = tuple[int, int]


class CrashWorld(World):
    """Share groups with their share coordinator, on one disk."""

    def open(self) -> None:
        super().open()
        groups: Any = ShareSettings()
        groups.of_group = Limits(record_lock_duration_ms=LOCK_MS, delivery_count_limit=LIMIT)
        self.leading = SharePartitions(groups, self.persister, Timers(self), lambda: self.time_ms)
        members = ShareMembers(ShareSessions(100), self.leading)
        catalogue, leaders = self.topics.catalogue, Leaders(self.topics.catalogue, self.nodes())
        fetches = ShareFetches(self.settings, catalogue, leaders, members, lambda: self.time_ms, self.schedule_at)
        self.handlers |= fetches.handlers() | ShareAcknowledges(catalogue, leaders, members).handlers()


class Program:
    """A random program. `done` are records whose acknowledgement was confirmed, `perhaps` those whose request had no
    response when the daemon crashed.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = CrashWorld()
        self.world.initialize(*PARTITIONS)
        self.produced: set[Record] = set()
        self.done: set[Record] = set()
        self.perhaps: set[Record] = set()
        self.spent: set[Record] = set()
        self.waiting: list[tuple[Context, dict[Record, int]]] = []
        self.ran: Counter[str] = Counter()
        self._begin()

    def _begin(self) -> None:
        self.members = [self._member(name) for name in ("one", "two", "three")]

    def _member(self, name: str) -> tuple[Member, dict[Record, int]]:
        member = Member(self.world, self.world.topic_id, name, GROUP)  # type: ignore[arg-type]  # it sends requests
        held: dict[Record, int] = {}
        self.take(member.ask(*PARTITIONS, max_records=1), held)
        return member, held

    def run(self, steps: int) -> None:
        actions = (self.produce, self.fetch, self.acknowledge, self.turn, self.pass_time, self.crash)
        for _ in range(steps):
            action = self.random.choices(actions, (4, 8, 8, 6, 1, 0.7))[0]
            self.ran[action.__name__] += 1
            action()
            self.read_responses()

    def produce(self) -> None:
        partition, count = self.random.choice(PARTITIONS), self.random.choice((1, 3, 8))
        response = self.world.produce("orders", batch(*[b"x"] * count), partition=partition)
        self.produced |= {(partition, response.base_offset + each) for each in range(count)}

    def fetch(self) -> None:
        member, held = self.random.choice(self.members)
        mode, most = self.random.choice((0, 1)), self.random.choice((1, 5, 500))
        self.take(member.ask(max_records=most, share_acquire_mode=mode), held)

    def take(self, context: Context, held: dict[Record, int]) -> None:
        self.world.settle()
        assert context.answers == 1
        for partition, first, last, count in acquired(context.response):
            for offset in range(first, last + 1):
                record = partition, offset
                assert record in self.produced
                assert record not in self.done, f"{record} was acknowledged"
                assert count <= LIMIT
                for _, others in getattr(self, "members", ()):
                    assert record not in others, f"{record} is acquired twice"
                held[record] = self.world.time_ms + LOCK_MS
                self.ran["delivered"] += 1
                if count == LIMIT:
                    self.spent.add(record)

    def acknowledge(self) -> None:
        member, held = self.random.choice(self.members)
        if not held:
            return
        chosen = sorted(record for record in held if self.random.random() < 0.7)
        types = {record: self.random.choice((ACCEPT, ACCEPT, ACCEPT, REJECT, RELEASE)) for record in chosen}
        acks = [(partition, offset, offset, [types[partition, offset]]) for partition, offset in chosen]
        for record in chosen:
            del held[record]
        if not acks:
            return
        self.waiting.append((member.send_acks(*acks), types))
        if self.random.random() < 0.5:
            self.world.settle()

    def turn(self) -> None:
        """Let the loop or the disk do something, but not all."""
        self.world.loop.turn()
        if self.world.worker.jobs and self.random.random() < 0.5:
            self.world.worker.run_one()

    def pass_time(self) -> None:
        self.world.settle()
        self.world.pass_time(self.random.choice((1_000, LOCK_MS)))
        self.world.settle()
        for _, held in self.members:
            for record in [record for record, deadline_ms in held.items() if deadline_ms <= self.world.time_ms]:
                del held[record]

    def read_responses(self) -> None:
        for each in [each for each in self.waiting if each[0].answers]:
            self.waiting.remove(each)
            context, types = each
            assert errors(context.response) == {}
            self.done |= {record for record, type_ in types.items() if type_ != RELEASE}

    def crash(self) -> None:
        self.perhaps |= {record for _, types in self.waiting for record, type_ in types.items() if type_ != RELEASE}
        self.waiting.clear()
        self.world.crash_and_restart(self.random.choice(("kill", "power")))
        self.members = []
        self._begin()

    def drain(self) -> None:
        """Accept everything that is left."""
        self.world.settle()
        self.read_responses()
        self.world.pass_time(LOCK_MS)
        self.world.settle()
        self.members = []
        last = Member(self.world, self.world.topic_id, "last", GROUP)  # type: ignore[arg-type]  # it sends requests
        acks: list[tuple[int, int, int, list[int]]] = []
        for number in range(200):
            context = last.ask(*(() if number else PARTITIONS), acks=acks)
            self.world.settle()
            assert not any(ack_errors(context.response).values())
            self.done |= {(partition, offset) for partition, offset, _, _ in acks}
            held: dict[Record, int] = {}
            self.take(context, held)
            acks = [(partition, offset, offset, [ACCEPT]) for partition, offset in sorted(held)]
            if number > 2 and not acks:
                return
        pytest.fail("records come again and again")


@pytest.mark.parametrize("seed", range(25))
def test_a_random_program_with_crashes(seed: int) -> None:
    program = Program(seed)
    program.run(120)
    program.drain()
    lost = program.produced - program.done - program.perhaps - program.spent
    assert not lost
    assert program.done


def test_programs_reach_every_case() -> None:
    total: Counter[str] = Counter()
    for seed in range(8):
        program = Program(seed)
        program.run(120)
        total += program.ran
    for kind in ("produce", "delivered", "acknowledge", "crash", "pass_time"):
        assert total[kind] > 3, (kind, total)
