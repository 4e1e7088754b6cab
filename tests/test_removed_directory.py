"""A data directory that somebody removes under a daemon: nothing is acknowledged that would be gone."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from coordinatord.broker.log.disk import CHECK_S
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.errors import ErrorCode
from tests.clients.raw import Line
from tests.daemon import HOST, Daemon

COMMIT = OffsetCommitRequest(
    "g", topics=[OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 5)])]
)


async def committed_after_removal(daemon: Daemon, wait_s: float) -> int:
    """How many commits are acknowledged from `wait_s` after the directory's removal on."""
    line = await Line.connect(HOST, daemon.port, "c")
    await line.ask(CreateTopicsRequest([CreatableTopic("t", 1, -1, [], [])]), 7)
    for _ in range(100):  # until the groups are loaded
        answer = await line.ask(COMMIT, 8)
        if answer.topics[0].partitions[0].error_code == ErrorCode.NONE:
            break
        await asyncio.sleep(0.05)
    shutil.rmtree(daemon.data_dir)
    await asyncio.sleep(wait_s)
    acknowledged = 0
    for _ in range(20):
        try:
            answer = await line.ask(COMMIT, 8)
        except ConnectionError:
            break
        acknowledged += answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    return acknowledged


@pytest.mark.parametrize("flush", ["always", "interval", "never"])
def test_nothing_is_acknowledged_that_would_be_gone(tmp_path: Path, flush: str) -> None:
    daemon = Daemon(tmp_path, {"log.flush": flush})
    daemon.start()
    try:
        # What is not flushed is checked from time to time.
        assert asyncio.run(committed_after_removal(daemon, 0.0 if flush == "always" else 2 * CHECK_S)) == 0
        assert daemon.process is not None
        assert daemon.process.wait(60) == 1
    finally:
        daemon.kill()
    assert daemon.events("the log failed; stopping")
