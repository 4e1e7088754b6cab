"""Share groups of several leading nodes: real share consumers, and a take-over while they hold records."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from coordinatord.coordination.share.coordinator.coordinator import coordinator_key
from coordinatord.transport.cluster.partitioner import partition_for
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.errors import ErrorCode
from tests.clients.test_share_consumers import GROUP, TOPIC, acknowledge_through_a_failure, prepare, share_consumers
from tests.daemon import Daemon
from tests.server.postgresql.test_nodes import Node, nodes, reached
from tests.server.postgresql.test_several_leaders import Make, ids, known_to, leading
from tests.support.waiting import PATIENCE_S

__all__ = ["nodes"]

pytestmark = [pytest.mark.full, pytest.mark.postgresql, pytest.mark.timeout(600)]

pytest.importorskip("confluent_kafka", "2.16", reason="pip install '.[clients]'")

STATE_PARTITIONS = 50
"""The default."""


def serving(make: Make) -> Make:
    """Nodes that serve share groups."""

    def made(*arguments: Any, **settings: Any) -> Node:
        return make(*arguments, **settings, group_coordinator_rebalance_protocols="classic,consumer,share")

    return made


def kill(node: Daemon) -> None:
    node.kill()


def pause(node: Daemon) -> None:
    os.kill(node.pid, signal.SIGSTOP)


@pytest.mark.parametrize("fail", [kill, pause])
@pytest.mark.parametrize("seat", [0, 1])
def test_a_take_over_repeats_no_acknowledged_record_and_loses_no_other(
    nodes: Make, database: str, seat: int, fail: Callable[[Daemon], None]
) -> None:
    """Each of two nodes leads a partition of the topic. A third node takes the seat of the one that fails."""
    made = asyncio.run(leading(serving(nodes), database, 2, spares=1))
    prepare(made[0].bootstrap)
    victim = made[seat]
    process = victim.process
    assert process is not None
    with share_consumers(",".join(node.bootstrap for node in made)) as member:
        acknowledge_through_a_failure(member, lambda: fail(victim))
    if fail is pause:
        os.kill(process.pid, signal.SIGCONT)
        assert process.wait(PATIENCE_S) == 1, "another node leads there"
    assert made[2].events("this node leads")[-1]["seat"] == seat
    for node in made:
        if node is not victim:
            assert node.stop() == 0


def test_all_nodes_name_the_coordinator_of_a_share_partition(nodes: Make, database: str) -> None:
    """A waiting node, too. An invalid key is an error at each of them."""

    async def play() -> None:
        made = await leading(serving(nodes), database, 2, spares=1)
        await asyncio.to_thread(prepare, made[0].bootstrap)
        await known_to(made, TOPIC)
        lines = [await reached(node) for node in made]
        topic = (await lines[0].ask(MetadataRequest([MetadataRequestTopic(name=TOPIC)], False), 12)).topics[0]
        keys = [coordinator_key(GROUP, topic.topic_id, index) for index in range(8)]
        # The first of these requests creates the topic of the state.
        await lines[0].ask(FindCoordinatorRequest(key_type=2, coordinator_keys=keys), 6)
        await known_to(made, "__share_group_state")
        by_seat = ids(made)
        for line in lines:
            answer = await line.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[*keys, "a:b"]), 6)
            *valid, invalid = answer.coordinators
            assert [each.node_id for each in valid] == [
                by_seat[partition_for(key, STATE_PARTITIONS) % 2] for key in keys
            ]
            assert invalid.error_code == ErrorCode.INVALID_REQUEST
            line.close()

    asyncio.run(play())
