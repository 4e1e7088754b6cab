"""What an idle member of a classic group takes, as tracemalloc counts it: requested bytes, the same on every machine.

Counted with its share of its group of ten: the group, its members' table, timers, and what the shortcut knows of its
heartbeats. The resident memory is some 15 % more (rounding, and tables that are being replaced by larger ones): the
benchmark's row `member-memory` has it.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
import tracemalloc

import pytest

from coordinatord.base.observe.logger import silent
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.guard.count import staged
from tests.guard.script import Client, Stage
from tests.support.shell import request_frame

pytestmark = pytest.mark.interpreted

MEMBERS = 10
WARM_UP, GROUPS = 20, 60
MOST_BYTES = 950
SESSION_TIMEOUT_MS = 45_000  # shorter than a new member's patience: its timer is that of its pending id
SUBSCRIPTION = b"\0\1\0\0\0\1\0\5topic\0\0\0\0\xff\xff\xff\xff"


def _join(group: str, member_id: str = "") -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", SUBSCRIPTION)]
    return JoinGroupRequest(group, SESSION_TIMEOUT_MS, SESSION_TIMEOUT_MS, member_id, None, "consumer", protocols)


async def _together(stage: Stage, clients: list[Client], requests: list[object], version: int) -> list[object]:
    """Each client sends one request; the answers, when all are there."""
    for client, request in zip(clients, requests, strict=True):
        client.connection.data_received(request_frame(request, version, 1))
    await stage.settle()
    return [client.take(request, version) for client, request in zip(clients, requests, strict=True)]


async def _stable(stage: Stage, clients: list[Client], group: str) -> None:
    """A group whose members joined with the ids that they were given, synced, and have sent a heartbeat."""
    ids = [(await stage.ask(client, _join(group), 9)).member_id for client in clients]
    await stage.ask(clients[0], _join(group, ids[0]), 9)
    # The first is a generation by itself. The others wait for it to come again.
    order = [*clients[1:], clients[0]]
    joined = await _together(stage, order, [_join(group, each) for each in [*ids[1:], ids[0]]], 9)
    assert {(each.error_code, each.generation_id) for each in joined} == {(0, 2)}
    assigned = [SyncGroupRequestAssignment(each, each.encode()) for each in ids]
    syncs: list[object] = [
        SyncGroupRequest(group, 2, each, None, "consumer", "range", assigned if each == ids[0] else []) for each in ids
    ]
    synced = await _together(stage, clients, syncs, 5)
    assert [each.assignment for each in synced] == [each.encode() for each in ids]
    beats = await _together(stage, clients, [HeartbeatRequest(group, 2, each) for each in ids], 4)
    assert {each.error_code for each in beats} == {0}


async def _bytes_per_member(data_dir: str) -> float:
    async with staged(data_dir, rebalance_ledger_enable=False) as stage:
        clients = [Client(stage) for _ in range(MEMBERS)]
        for number in range(WARM_UP):
            await _stable(stage, clients, f"warm-{number:03}")
        gc.collect()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for number in range(GROUPS):
                await _stable(stage, clients, f"group-{number:03}")
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert sum(len(each.group.members) for each in stage.daemon.coordinator.actors.values()) == MEMBERS * (
            WARM_UP + GROUPS
        )
        return (after - before) / (GROUPS * MEMBERS)


def test_an_idle_member_takes_no_more_than_it_did() -> None:
    with tempfile.TemporaryDirectory() as directory, silent():
        counted = asyncio.run(_bytes_per_member(f"{directory}/data"))
    assert counted < MOST_BYTES, f"{counted:.0f} bytes"
