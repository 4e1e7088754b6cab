"""Session timeouts of groups of the consumer protocol: their records do not have them, so the cluster is asked."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from coordinatord.monitoring.analysis.consumer_group import MEMBER, METADATA
from coordinatord.monitoring.offsets_log.lag.histories import Histories
from coordinatord.monitoring.offsets_log.source.tails import sessions_from_broker
from tests.daemon import running


def records(group: str, offset: int, **columns: Any) -> pa.RecordBatch:
    row = {"group_id": group, "log_offset": offset, "tombstone": False, "timestamp_ms": 1_000 * offset}
    return pa.RecordBatch.from_pylist([row | columns])


def test_sessions_of_new_groups_are_requested_once() -> None:
    asked: list[list[str]] = []

    def sessions(groups: Collection[str]) -> dict[str, int]:
        asked.append(sorted(groups))
        return {"short": 10_000}

    histories = Histories(session_ms=50_000, sessions=sessions)
    member = {
        "member_id": "m", "instance_id": None, "client_id": "c", "client_host": "/h", "rebalance_timeout_ms": 1,
        "subscribed_topic_names": ["t"],
    }  # fmt: skip
    groups = ("short", "not described")
    subscriptions = [(MEMBER, records(group, offset, **member)) for offset, group in enumerate(groups)]
    histories.take([*subscriptions, *((METADATA, records(group, 9, epoch=1)) for group in groups)], [])
    histories.take([(METADATA, records(group, 10, epoch=2)) for group in groups], [])
    assert asked == [sorted(groups)]
    found = {group: [life.session_timeout_ms for life in histories.of[group].lives()] for group in groups}
    assert found == {"short": [10_000], "not described": [50_000]}


def test_sessions_from_a_broker(tmp_path: Path) -> None:
    """A group's own setting, or else the cluster's."""
    with running(tmp_path, {"group.consumer.session.timeout.ms": "48000"}) as daemon:
        admin = KafkaAdminClient(bootstrap_servers=daemon.bootstrap)
        admin.alter_configs([ConfigResource(ConfigResourceType.GROUP, "own", {"consumer.session.timeout.ms": "55000"})])
        admin.close()
        found = sessions_from_broker(daemon.bootstrap, {}, {"own", "other"})
    assert found == {"own": 55_000, "other": 48_000}
