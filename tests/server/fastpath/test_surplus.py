"""Requests that are not decoded because they are like one before, with bytes behind their end that nobody reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coordinatord.server.fastpath.heartbeats import MAX_BYTES
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from tests.handlers.test_handlers import join_request
from tests.handlers.world import World
from tests.server.fastpath.test_cut_off import ALL, Remembered, a_commit, a_heartbeat
from tests.support.shell import Wire, with_behind

TAILS = [b"\0\0\0", b"\1", b"\xff" * 64, b"\0" * 8_000]


def send(world: World, wire: Wire, request: Any, version: int, behind: bytes = b"") -> bytes:
    """What is written for one request."""
    wire.transport.written.clear()
    wire.sent.clear()
    wire.next_id = 1
    wire.connection.data_received(with_behind(wire.frame(request, version), behind))
    world.turns.run()
    assert not wire.connection.closed
    return bytes(wire.transport.written)


def ask(world: World, wire: Wire, request: Any, version: int, behind: bytes) -> list[Any]:
    """The answers to one request."""
    send(world, wire, request, version, behind)
    return [answer for _, answer in wire.answers]


def looks(world: World) -> Any:
    groups = {
        name: (
            (actor.group.state, actor.group.generation_id, actor.group.awaiting_join_count, actor.epoch),
            [(each.member_id, each.protocols, each.session_deadline_ms) for each in actor.group.members.values()],
            actor.group.offsets,
        )
        for name, actor in world.coordinator.actors.items()
    }
    return groups, world.log, world.timers.armed, world.metrics.requests


@ALL
@pytest.mark.parametrize("behind", TAILS, ids=len)
def test_it_is_answered_as_if_nothing_were_behind_it(remembered: Callable[[], Remembered], behind: bytes) -> None:
    found = []
    for tail in (b"", behind):
        world, wire, request, version = remembered()
        found.append((send(world, wire, request, version, tail), bool(wire.connection.line.parked), looks(world)))
    assert found[0] == found[1]


@pytest.mark.parametrize("remembered", [a_heartbeat, a_commit])
def test_it_is_answered_so_each_time(remembered: Callable[[], Remembered]) -> None:
    """With the same bytes behind it twice, with others, and with none."""
    tails = [b"", TAILS[0], TAILS[0], TAILS[1], b"", TAILS[3], TAILS[3], b"", TAILS[0]]
    found = []
    for all_tails in ([b""] * len(tails), tails):
        world, wire, request, version = remembered()
        found.append(([send(world, wire, request, version, tail) for tail in all_tails], looks(world)))
    assert found[0] == found[1]


def test_a_remembered_heartbeat_is_right_as_long_as_any() -> None:
    world, wire, request, version = a_heartbeat()
    behind = b"\0\0\0"
    assert send(world, wire, request, version, behind) == send(world, wire, request, version, behind)
    world.wire().send(join_request(), 3)
    (answered,) = ask(world, wire, request, version, behind)
    assert answered.error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_what_is_behind_a_request_is_not_kept_when_it_is_much() -> None:
    world, wire, request, version = a_heartbeat()
    known = world.shortcut(ApiKey.HEARTBEAT, version)
    before = len(known)
    send(world, wire, request, version, bytes(MAX_BYTES))
    assert len(known) == before
