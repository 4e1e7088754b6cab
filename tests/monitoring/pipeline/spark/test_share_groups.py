"""Share groups after a story on Apache Kafka: each column of share_partitions beside what Kafka's tools and its share
coordinator say, from the broker and from its directory.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from coordinatord.monitoring.analysis.share_log import MEMBERS
from coordinatord.monitoring.offsets_log.source.share_state_topic import SHARE_STATE_TOPIC
from coordinatord.monitoring.pipeline.run.ingest import Job
from coordinatord.monitoring.pipeline.run.update import Summary, _shared, read_table, run
from coordinatord.monitoring.pipeline.source.frames import Source
from coordinatord.monitoring.pipeline.tables.inputs import Shared
from coordinatord.testing import Kafka
from coordinatord.testing.wire import Wire
from coordinatord.transport.security.authorizer import Operation, Permission, ResourceType
from kafka_wire.api.create_acls import AclCreation, CreateAclsRequest
from tests.cli.test_share_group_commands import OPEN
from tests.monitoring.pipeline.truth.compare import Row, differences
from tests.monitoring.pipeline.truth.model import some_text
from tests.reference import share_story
from tests.reference.broker import KafkaBroker, running_broker
from tests.reference.commands import Tool
from tests.reference.share_story import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    HOUR_MS,
    LIMITS,
    RECORDS,
    SUSPECTED_FROM,
)
from tests.reference.test_share_tools import NONE, tables

pytestmark = [pytest.mark.timeout(1800)]

PLACE = ("group_id", "topic", "partition")


def test_share_partitions_are_what_kafka_says(spark: Any, kafka_libs: Path, tmp_path: Path) -> None:
    began_ms = int(time.time() * 1000) - max(RECORDS.values()) * HOUR_MS
    with (
        running_broker(kafka_libs, tmp_path / "kafka", share_story.SETTINGS) as broker,
        share_story.told(broker.port, began_ms),
    ):
        now_ms = int(time.time() * 1000)
        expected = rows(kafka_libs, broker, began_ms, now_ms)
        columns = tuple(next(iter(expected.values())))
        for name, source, ends in (
            ("broker", Source(bootstrap=broker.bootstrap), broker.bootstrap),
            ("directory", Source(str(broker.data_dir)), str(broker.data_dir)),
        ):
            job = Job(source, tmp_path / name, ends, tables=("share_partitions",), is_small=True)
            run(spark, job, now_ms=now_ms)
            table = [row.asDict() for row in read_table(spark, job.out, "share_partitions").collect()]
            found = [{each: row[each] for each in columns} for row in table if row["topic"] == "orders"]
            wrong = differences(name, columns, found, expected, PLACE)
            assert not wrong, "\n".join(wrong)
            # A directory has the records; a broker has ends at some times, so that an age is one at most.
            assert {row["time_lag_method"] for row in table} <= {"record", "at most", "caught up", "unknown"}
            if name == "directory":
                ages_ms = {row["oldest_offset"]: row["time_lag_ms"] for row in found if row["lag"]}
                assert ages_ms == {each: now_ms - began_ms - each * HOUR_MS for each in ages_ms}


@pytest.mark.parametrize("has_members", [True, False])
def test_a_user_who_may_not_read_the_states(tmp_path: Path, has_members: bool) -> None:
    """A broker refuses a topic that it does not have as well: without a member of a share group nothing is missing."""
    with Kafka(settings=OPEN) as kafka:
        wire = Wire(lambda: ("127.0.0.1", int(kafka.bootstrap_servers.rpartition(":")[2])))
        denied = AclCreation(
            ResourceType.TOPIC, SHARE_STATE_TOPIC, 3, "User:ANONYMOUS", "*", Operation.ALL, Permission.DENY
        )
        [result] = wire.ask(CreateAclsRequest([denied]), 3).results
        assert result.error_code == 0
        wire.close()
        if has_members:
            (tmp_path / "facts" / MEMBERS / "batch=000000000").mkdir(parents=True)
        summary = Summary()
        assert _shared(Job(Source(bootstrap=kafka.bootstrap_servers), tmp_path), summary) == Shared()
        told = f"share groups are missing in the tables: {kafka.bootstrap_servers} does not let this user read"
        assert [each.startswith(told) for each in summary.missing] == [True] * has_members


def rows(libs: Path, broker: KafkaBroker, began_ms: int, now_ms: int) -> dict[tuple[str, str, int], Row]:
    tool = Tool(libs, broker.bootstrap, "ShareGroupCommand")
    offsets, states = tool.ask(["--describe", "--all-groups", "--offsets"], ["--describe", "--all-groups", "--state"])
    members = {row["GROUP"]: int(row["#MEMBERS"]) for row in tables(states)}
    found: dict[tuple[str, str, int], Row] = {}
    for row in tables(offsets):
        group, topic, number = row["GROUP"], row["TOPIC"], int(row["PARTITION"])
        if topic != "orders":
            continue
        batches = share_story.stored(broker.port, group, topic, number)
        has_begun = row["START-OFFSET"] != NONE
        start, end = (int(row["START-OFFSET"]) if has_begun else None), RECORDS[topic, number]
        lag = int(row["LAG"]) if has_begun else None
        near = [each for each in batches if each[2] == AVAILABLE and each[3] >= SUSPECTED_FROM[group]]
        most = max((each[3] for each in batches), default=0)
        oldest = None if start is None else next(
            (each for each in range(start, end + 1) if not any(b[0] <= each <= b[1] and b[2] in DONE for b in batches)),
        )  # fmt: skip
        is_poisoned = (group, number) == ("poison", 0)
        status = "poison record" if is_poisoned else "unknown" if lag is None else "behind" if lag else "ok"
        found[group, topic, number] = {
            "group_id": group, "topic": topic, "partition": number, "members": members[group], "start_offset": start,
            "end_offset": end, "end_offset_ms": now_ms, "lag": lag,
            "delivery_complete": 0 if start is None or lag is None else end - start - lag,
            "archived": _count(each for each in batches if each[2] == ARCHIVED),
            "acknowledged": _count(each for each in batches if each[2] == ACKNOWLEDGED), "archiving": 0,
            "available": _count(each for each in batches if each[2] == AVAILABLE),
            "redelivered": _count(each for each in batches if each[3] > 1), "most_deliveries": most,
            "most_deliveries_offset": min((each[0] for each in batches if each[3] == most), default=None),
            "delivery_limit": LIMITS[group], "suspected": _count(near),
            "suspected_offset": min((each[0] for each in near), default=None), "oldest_offset": oldest,
            "time_lag_ms": age(began_ms, now_ms, oldest, end), "status": status, "why": some_text,
            "alarming": is_poisoned,
        }  # fmt: skip
    return found


DONE = (ACKNOWLEDGED, ARCHIVED)


def _count(batches: Iterable[tuple[int, int, int, int]]) -> int:
    return sum(last - first + 1 for first, last, _, _ in batches)


def age(began_ms: int, now_ms: int, oldest: int | None, end: int) -> Any:
    """A value, or what decides about one: not less than the age of the record at an offset."""
    if oldest is None or oldest == end:
        return None if oldest is None else 0
    return lambda value: value is not None and value >= now_ms - began_ms - oldest * HOUR_MS
