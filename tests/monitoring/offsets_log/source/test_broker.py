"""The log from a broker, here our own: the same rows as from the files that it writes."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.structs import OffsetAndMetadata

from coordinatord.monitoring.offsets_log.decode.projection import Names, Wanted
from coordinatord.monitoring.offsets_log.decode.row_types import OFFSET_COMMITS
from coordinatord.monitoring.offsets_log.source.broker import BrokerRange, BrokerTail, read_fetched
from coordinatord.monitoring.offsets_log.source.options import Options, read_options
from coordinatord.monitoring.offsets_log.source.segments import OFFSETS_TOPIC, SourceError
from coordinatord.monitoring.offsets_log.source.tail import DataLoss
from tests.daemon import Daemon
from tests.monitoring.offsets_log.source.test_kafka_segments import rows_in

pytestmark = pytest.mark.slow  # a connection per range

GROUPS, COMMITS = 6, 15


@pytest.fixture
def committed(daemon: Daemon) -> Daemon:
    """A daemon in whose log six groups have committed."""
    admin = KafkaAdminClient(bootstrap_servers=daemon.bootstrap)
    admin.create_topics([NewTopic("orders", 3, 1)])
    admin.close()
    for number in range(GROUPS):
        consumer = KafkaConsumer(group_id=f"group-{number}", bootstrap_servers=daemon.bootstrap)
        for offset in range(COMMITS):
            consumer.commit({TopicPartition("orders", offset % 3): OffsetAndMetadata(offset, "näh" * (offset % 2), -1)})
        consumer.close()
    return daemon


def options_of(daemon: Daemon, **options: str) -> Options:
    return read_options({"bootstrap": daemon.bootstrap, **options})


def rows_of(parts: list[BrokerRange], wanted: Wanted | None = None) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = {}
    for part in parts:
        for kind, batch in read_fetched(part, wanted or Wanted()):
            rows.setdefault(kind, []).extend(batch.to_pylist())
    return rows


def ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["log_partition"], row["log_offset"]))


def test_the_same_rows_as_from_the_files(committed: Daemon) -> None:
    tail = BrokerTail(options_of(committed, splitBytes="1000"))
    begins, ends = tail.begins(), tail.ends()
    assert len(ends) == 50
    parts = tail.plan(begins, ends)
    assert len(parts) > GROUPS  # ten offsets each
    fetched = rows_of(parts)
    written = rows_in(committed.data_dir)
    assert fetched.keys() == written.keys() >= {OFFSET_COMMITS}
    assert len(fetched[OFFSET_COMMITS]) == GROUPS * COMMITS
    for kind in written:
        assert ordered(fetched[kind]) == ordered(written[kind])
    some = rows_of(parts, Wanted(frozenset({OFFSET_COMMITS}), groups=(Names(["group-3"]),)))
    assert {row["group_id"] for row in some[OFFSET_COMMITS]} == {"group-3"}


def test_limited_steps_go_over_everything_once(committed: Daemon) -> None:
    tail = BrokerTail(options_of(committed))
    position: dict[str, int] = {}
    seen: list[tuple[int, int]] = []
    for _ in range(200):
        reached = {**position, **tail.limited(position, tail.ends(), None, 7)}
        rows = [row for found in rows_of(tail.plan(position, reached)).values() for row in found]
        assert len(rows) <= 7
        if reached == position:
            break
        seen += [(row["log_partition"], row["log_offset"]) for row in rows]
        position = reached
    assert len(seen) == len(set(seen)) == sum(tail.ends().values())


def test_what_is_not_there_is_one_sentence(committed: Daemon) -> None:
    with pytest.raises(SourceError, match="has no topic elsewhere"):
        BrokerTail(options_of(committed, topic="elsewhere")).ends()
    tail = BrokerTail(options_of(committed))
    name, end = max(tail.ends().items(), key=lambda each: each[1])
    part = tail.plan({}, {name: end})[0]
    with pytest.raises(DataLoss, match=re.escape(f"{name} ends at offset {end}, {end + 5} was expected")):
        rows_of([dataclasses.replace(part, next_offset=end + 5)])
    with pytest.raises(DataLoss, match="the log was cut"):
        rows_of([dataclasses.replace(part, first_offset=end + 3, next_offset=end + 5)])
    with pytest.raises(SourceError, match="kafka-python has no such setting: Unrecognized configs"):
        BrokerTail(read_options({"bootstrap": committed.bootstrap, "kafka.no_such_setting": "1"})).ends()


def test_topics_that_are_not_groups(committed: Daemon) -> None:
    assert set(BrokerTail(options_of(committed, partitions="3,4")).ends()) == {
        f"{OFFSETS_TOPIC}-3",
        f"{OFFSETS_TOPIC}-4",
    }
