"""A start with a large log: what is small is served at once, what is large says that it is being loaded, then is.

How long each took is printed.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import build_batch
from tests.clients.raw import Line
from tests.crash.large_log import KEYS_OF_A_GROUP, LARGE, SMALL, group_of, write
from tests.daemon import HOST, Daemon
from tests.support.waiting import PATIENCE_S, wait_until

COMMITS = 1_500_000
ATTEMPTS = 5
"""Whoever looks may have been kept from it until everything was loaded. Not each time."""


async def fetched(line: Line, group: str) -> tuple[int, int]:
    """(error, number of offsets) of a group."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)])
    [answer] = (await line.ask(request, 8)).groups
    return answer.error_code, sum(len(topic.partitions) for topic in answer.topics)


async def watch(daemon: Daemon, topic: str) -> dict[str, float]:
    """Seconds since the first answer: until the small partition's group is served, a record is produced, and all is."""
    began_s = time.monotonic()
    line = await Line.connect(HOST, daemon.port, client_id="watcher")
    took: dict[str, float] = {}
    while (found := await fetched(line, group_of(SMALL, 0))) != (0, 1):
        assert found == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0)
        assert time.monotonic() - began_s < PATIENCE_S
    took["small"] = time.monotonic() - began_s
    made = await line.ask(CreateTopicsRequest([CreatableTopic(topic, 1, 1)]), 7)
    assert made.topics[0].error_code == 0
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, bytes(build_batch([(None, b"v")], 1)))])
    answer = await line.ask(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data]), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0
    took["produced"] = time.monotonic() - began_s
    error, _ = await fetched(line, group_of(LARGE, 0))
    took["others first"] = error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    while (found := await fetched(line, group_of(LARGE, 0))) != (0, KEYS_OF_A_GROUP):
        assert found == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0)
        assert time.monotonic() - began_s < PATIENCE_S
        await asyncio.sleep(0.01)
    took["all"] = time.monotonic() - began_s
    line.close()
    return took


def start_and_watch(daemon: Daemon, topic: str) -> tuple[dict[str, float], dict[str, object]]:
    """What one start shows, and what it says at its end."""
    daemon.start(loaded=False)
    try:
        took = asyncio.run(watch(daemon, topic))
        # It is said when everything is loaded, which is a moment after the large partition's groups are served.
        wait_until(lambda: len(daemon.events("groups loaded")) == daemon.starts, "the end of loading")
        return took, daemon.events("groups loaded")[-1]
    finally:
        daemon.stop()


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_large_partition_keeps_nobody_else_waiting(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    write(daemon.data_dir, COMMITS)
    for attempt in range(ATTEMPTS):
        took, loaded = start_and_watch(daemon, f"orders-{attempt}")
        assert loaded["records"] == COMMITS + 1
        if took["others first"]:
            break
    assert took["others first"], "everything was loaded before anything else was served"
    print(
        f"\nafter the first answer: the small partition's group {took['small']:.3f} s, a record produced "
        f"{took['produced']:.3f} s, all loaded {took['all']:.2f} s ({loaded['records_per_second']:,} records/s)"
    )
