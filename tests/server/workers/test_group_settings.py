"""A group's settings are in force at its coordinator, whichever worker they were given to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from coordinatord.testing import Kafka
from coordinatord.testing.wire import Wire
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.daemon import running
from tests.server.workers.processes import group_of, kill_worker
from tests.support.waiting import wait_until

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


def test_what_a_dead_worker_has_written_but_told_nobody_is_told_by_its_successor(tmp_path: Path) -> None:
    """The test writes the file in the name of the worker that dies."""
    with running(tmp_path, workers=WORKERS) as daemon:
        wire, (host, port) = Wire(lambda: at), daemon.bootstrap.split(":")
        at = (host, int(port) + 1)
        group = group_of(1, WORKERS)
        joining = ConsumerGroupHeartbeatRequest(
            group, "m", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], topic_partitions=[]
        )
        epoch = wire.ask(joining, 1, at).member_epoch

        def interval_ms() -> int:
            answered: int = wire.ask(ConsumerGroupHeartbeatRequest(group, "m", epoch), 1, at).heartbeat_interval_ms
            return answered

        settings = {"version": 1, "groups": {group: {HEARTBEAT_INTERVAL: "7000"}}}
        (daemon.data_dir / "groups.json").write_text(json.dumps(settings))
        assert interval_ms() == 5_000
        kill_worker(daemon, 0)
        wait_until(lambda: interval_ms() == 7_000)
