"""A group's settings are in force at its coordinator, whichever worker they were given to."""

from __future__ import annotations

from typing import Any

from coordinatord.testing import Kafka
from coordinatord.testing.wire import Wire
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.workers.processes import group_of, wait_until

WORKERS = 2
GROUP_RESOURCE = 32
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
SET, DELETE = 0, 1


def test_another_workers_change_is_in_the_next_heartbeats_answer() -> None:
    name = f"group.{HEARTBEAT_INTERVAL}"
    settings = {"workers": WORKERS, name: 5_000, "group.consumer.session.timeout.ms": 45_000}
    with Kafka("process", topics={"t": 1}, settings=settings) as kafka:
        host, _colon, port = kafka.bootstrap_servers.rpartition(":")
        at = [(host, int(port) + worker) for worker in range(WORKERS)]
        wire, group = Wire(lambda: at[0]), group_of(0, WORKERS)

        def heartbeat(epoch: int, **fields: Any) -> Any:
            return wire.ask(ConsumerGroupHeartbeatRequest(group, "m", epoch, **fields), 1, at[0])

        def configure(*changes: AlterableConfig) -> None:
            resource = AlterConfigsResource(GROUP_RESOURCE, group, list(changes))
            answer = wire.ask(IncrementalAlterConfigsRequest([resource]), 1, at[1])
            assert answer.responses[0].error_code == 0, answer

        joined = heartbeat(0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], topic_partitions=[])
        epoch = joined.member_epoch
        assert [heartbeat(epoch).heartbeat_interval_ms for _ in range(3)] == [5_000] * 3
        configure(AlterableConfig(HEARTBEAT_INTERVAL, SET, "6000"))
        wait_until(lambda: heartbeat(epoch).heartbeat_interval_ms == 6_000)
        configure(AlterableConfig(HEARTBEAT_INTERVAL, DELETE))
        wait_until(lambda: heartbeat(epoch).heartbeat_interval_ms == 5_000)
