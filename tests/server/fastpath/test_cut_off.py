"""Requests that are not decoded because they are like one before are still refused where they are cut off: any other
bytes behind them, of which there may be some in the same read, are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coordinatord.base.observe.logger import captured
from kafka_wire.api.heartbeat import HeartbeatRequest
from tests.handlers.test_handlers import commit_request, stable
from tests.handlers.world import World
from tests.support.shell import Wire, request_frame

SIZE = 4

Remembered = tuple[World, Wire, Any, int]


def a_heartbeat() -> Remembered:
    world = World()
    wire = world.wire()
    request = HeartbeatRequest("g", 1, stable(world, wire))
    for _ in range(3):
        wire.send(request, 4)
    return world, wire, request, 4


def a_commit() -> Remembered:
    world = World()
    wire = world.wire()
    request = commit_request(("orders", [0, 1]), generation=1, member=stable(world, wire))
    for partition in request.topics[0].partitions:
        partition.committed_metadata = ""
    for _ in range(5):
        wire.send(request, 8)
    assert [known.shape is not None for known in world.shortcut(8, 8)._known.values()] == [True]
    return world, wire, request, 8


ALL = pytest.mark.parametrize("remembered", [a_heartbeat, a_commit])


@ALL
@pytest.mark.parametrize("behind", [0, 64])
def test_it_is_refused_in_a_sentence(remembered: Callable[[], Remembered], behind: int) -> None:
    _, _, request, version = remembered()
    whole = request_frame(request, version, 1)[SIZE:]
    for size in range(len(whole)):
        world, wire, _, _ = remembered()
        wire.transport.written.clear()
        with captured() as lines:
            wire.connection.data_received(size.to_bytes(SIZE, "big") + whole[:size] + bytes(behind))
            world.turns.run()
        assert wire.connection.closed
        assert [line["event"] for line in lines] == ["connection closed"]
        assert not wire.transport.written


@ALL
def test_the_whole_one_is_taken(remembered: Callable[[], Remembered]) -> None:
    world, wire, request, version = remembered()
    wire.transport.written.clear()
    with captured() as lines:
        wire.send(request, version)
        world.turns.run()
    assert not wire.connection.closed
    assert bool(wire.transport.written) is not bool(wire.connection.line.parked)
    assert lines == []
