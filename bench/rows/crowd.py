"""100,000 members in 10,000 groups: what they weigh, whether they slow anybody down, and what it is when all are lost.

They join as consumers do: first for an id, then with it. With an initial rebalance delay a group's ten members are one
generation. A wave of groups at a time, so that what is parked meanwhile is not what is weighed; each member of a wave
on a connection of its own, since a parked join keeps back what follows it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench import frames, groups
from bench.generator import Line, WrongAnswer, exchange
from bench.groups import Member, check_heartbeat, heartbeats, require
from bench.registry import Arena, Column, Sample, at_most, row
from bench.servers import Ours
from kafka_wire.api.describe_groups import DescribeGroupsRequest
from kafka_wire.errors import ErrorCode

GROUPS = 10_000
MEMBERS_EACH = 10
WAVE = 1_000
CONNECTIONS = WAVE * MEMBERS_EACH
DELAY_MS = 1_500  # in which a wave's joins are surely taken
SESSION_TIMEOUT_MS = 45_000  # consumers' default
IDLE_S = 1.0


@dataclass(slots=True)
class Crowd:
    server: Ours
    members: list[Member]
    resident_before: int
    resident_after: int


def crowd(arena: Arena, column: Column) -> Crowd:
    """Made once for all rows of this module."""
    settings = (("group.initial.rebalance.delay.ms", str(DELAY_MS)),)
    server = arena.server(Column(column.key, column.kind, column.label, column.settings + settings))
    assert isinstance(server, Ours)
    if "crowd" not in server.fixtures:
        lines = groups.lines(server, CONNECTIONS)
        groups.make_topic(server)
        first_ones = join_wave(lines, [f"warm-{number:05}" for number in range(WAVE)])
        time.sleep(IDLE_S)
        before = server.resident_bytes()
        members: list[Member] = []
        for first in range(0, GROUPS, WAVE):
            members += join_wave(lines, [f"crowd-{number:05}" for number in range(first, first + WAVE)])
            # Those who came first are not to be lost meanwhile.
            beat(lines[: groups.CONNECTIONS], first_ones + members)
        time.sleep(IDLE_S)
        made = Crowd(server, members, before, server.resident_bytes())
        server.fixtures["crowd"] = made
        for line in lines:
            line.close()
    found: Crowd = server.fixtures["crowd"]  # type: ignore[assignment]
    return found


def _joining(name: str, member_id: str = "") -> Any:
    request = frames.join(name, member_id)
    request.session_timeout_ms = request.rebalance_timeout_ms = SESSION_TIMEOUT_MS
    return request


def _all(lines: Sequence[Line], work: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Each line sends its requests, one after the other; the decoded answers."""
    answers = exchange(lines, [[frames.frame(each) for each in mine] for mine in work], 1)
    return [
        [frames.response(request, answer) for request, answer in zip(mine, got, strict=True)]
        for mine, got in zip(work, answers, strict=True)
    ]


def join_wave(lines: Sequence[Line], names: Sequence[str]) -> list[Member]:
    """Groups that become stable together."""
    mine = [name for name in names for _ in range(MEMBERS_EACH)]
    hands = groups.dealt(mine, len(lines))
    given = _all(lines, [[_joining(name) for name in hand] for hand in hands])
    if {each.error_code for answers in given for each in answers} != {ErrorCode.MEMBER_ID_REQUIRED}:
        raise WrongAnswer("a join without a member id was not answered with one")
    joined = _all(
        lines,
        [
            [_joining(name, each.member_id) for name, each in zip(hand, answers, strict=True)]
            for hand, answers in zip(hands, given, strict=True)
        ],
    )
    members, syncs = [], []
    for hand, answers in zip(hands, joined, strict=True):
        syncs.append([])
        for name, each in zip(hand, answers, strict=True):
            require(each.error_code, "JoinGroup")
            if each.generation_id != 1:
                raise WrongAnswer(f"a group of {MEMBERS_EACH} is in generation {each.generation_id}")
            everybody = [member.member_id for member in each.members]
            if everybody and len(everybody) != MEMBERS_EACH:
                raise WrongAnswer(f"a group of {MEMBERS_EACH} has {len(everybody)} members")
            members.append(Member(name, each.member_id, 1))
            syncs[-1].append(frames.sync(name, 1, each.member_id, everybody))
    for answers in _all(lines, syncs):
        for each in answers:
            require(each.error_code, "SyncGroup")
    return members


def beat(lines: Sequence[Line], members: Sequence[Member]) -> float:
    """A heartbeat of each; the seconds it took."""
    hands = groups.dealt(heartbeats(members), len(lines))
    work = [[frames.frame(each) for each in hand] for hand in hands]
    began_s = time.perf_counter()
    answers = exchange(lines, work, 64)
    took_s = time.perf_counter() - began_s
    (answer,) = {answer for hand in answers for answer in hand}  # without an error they are all the same
    check_heartbeat(hands[0][0], frames.response(hands[0][0], answer))
    return took_s


@row(
    "member-memory",
    "resident per idle member, in 10,000 groups of 10",
    "bytes",
    targets=[at_most(1229)],
    rounds=1,
    quick=False,
)
def member_memory(arena: Arena, column: Column, seconds: float) -> Sample:
    """Groups included; members, group and subscription as a client sends them."""
    made = crowd(arena, column)
    grown = made.resident_after - made.resident_before
    return Sample(grown / len(made.members), also={"MiB grown": grown / 2**20})


PROBE_S = 0.001
LOOK_AT_S = 0.5  # when a group is looked at now and then
PATIENCE_S = 30.0
DESCRIBE_GROUPS_VERSION = 5


@row(
    "timers",
    "100,000 sessions end in the same second: longest time without an answer",
    "ms",
    targets=[at_most(20)],
    rounds=1,
    quick=False,
)
def timers(arena: Arena, column: Column, seconds: float) -> Sample:
    """All members send a last heartbeat within a second; when their sessions end, somebody else's heartbeats are
    answered throughout: the longest that one waits is the longest turn of the event loop, and what the machine adds.
    """
    made = crowd(arena, column)
    probe = frames.frame(heartbeats([Member("nobody", "nobody", 1)])[0])
    began_s = time.perf_counter()
    took_s = beat(groups.lines(made.server), made.members)
    until_s = began_s + SESSION_TIMEOUT_MS / 1000
    time.sleep(until_s - LOOK_AT_S - time.perf_counter())
    line = made.server.line()
    waits: list[tuple[float, int]] = []
    looked_s = until_s + took_s
    emptied = 0
    while True:
        asked_s = time.perf_counter()
        line.ask_bytes(probe)
        now_s = time.perf_counter()
        waits.append((now_s - asked_s, 1))
        if now_s > looked_s + LOOK_AT_S:
            looked_s = now_s
            sample = [member.group for member in made.members[:: len(made.members) // 20]]
            if _all_empty(line, sample) and (emptied := _emptied(made.server)) == GROUPS:
                break
            if now_s > until_s + took_s + PATIENCE_S:
                raise WrongAnswer(f"{emptied} of {GROUPS} groups are empty {PATIENCE_S:g} s after their sessions' end")
        time.sleep(PROBE_S)
    arena.forget(made.server)
    return Sample(
        max(waits)[0] * 1000, waits, also={"s for all heartbeats": took_s, "s until all were gone": now_s - until_s}
    )


def _emptied(server: Ours) -> int:
    """How many groups have lost all their members, by the server's log."""
    events = server.daemon.events("group transition", new="Empty")
    return sum(str(event["group"]).startswith("crowd-") for event in events)


def _all_empty(line: Line, names: list[str]) -> bool:
    described = line.ask(DescribeGroupsRequest(names), DESCRIBE_GROUPS_VERSION)
    return all(group.group_state == "Empty" for group in described.groups)
