"""A neighbour's commits beside requests that keep the disk busy.

How long a flush takes is the machine's business, so the longest wait is compared with the time that the request takes
on the same disk at the same time. One flush may take as long as all others together: then the commits count.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_wire import registry
from kafka_wire.api.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.api_key import ApiKey
from kafka_wire.records.batch import build_batch
from kafka_wire.schema import ZERO_UUID
from tests.daemon import Daemon, running
from tests.hostile.turns import Peer
from tests.support.shell import request_frame, response_of

PARTITIONS = 400
FIRST_MS = 1_700_000_000_000


class Committing:
    """A member that commits all the time, on a thread, and knows its longest wait (s)."""

    def __init__(self, port: int) -> None:
        self.longest_s = 0.0
        self.commits = 0
        self._peer = Peer(port)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._commit()

    def __enter__(self) -> Committing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._peer.close()

    def _commit(self) -> None:
        partition = OffsetCommitRequestPartition(0, 1, -1, "")
        topics = [OffsetCommitRequestTopic("mine", partitions=[partition])]
        answer = self._peer.ask(OffsetCommitRequest("innocent", topics=topics), 8)
        assert not answer.topics[0].partitions[0].error_code

    def _run(self) -> None:
        while not self._over.is_set():
            began_s = time.monotonic()
            self._commit()
            self.longest_s = max(self.longest_s, time.monotonic() - began_s)
            self.commits += 1


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with running(tmp_path, {"log.flush": "always"}) as daemon:
        yield daemon


@pytest.mark.hostile
@pytest.mark.timeout(1200)
def test_beside_new_partitions_and_new_segments(daemon: Daemon) -> None:
    """One request gives each of many partitions its first record, the next one begins a segment in each of them. Both
    take hundreds of flushes; the neighbour waits for a few of them, and commits about once for each four partitions. In
    one epoch it would commit twice or so.
    """
    peer = Peer(daemon.port)
    configs = [CreatableTopicConfig("segment.ms", "1000")]
    topics = [CreatableTopic("wide", PARTITIONS, 1, configs=configs), CreatableTopic("mine", 1, 1)]
    peer.ask(CreateTopicsRequest(topics, timeout_ms=10_000), 5)
    for number in range(3):
        batch = build_batch([(None, b"x")], FIRST_MS + 10_000 * number)
        data = [PartitionProduceData(index, batch) for index in range(PARTITIONS)]
        frame = request_frame(ProduceRequest(None, -1, 60_000, [TopicProduceData("wide", ZERO_UUID, data)]), 9, 1)
        with Committing(daemon.port) as innocent:
            began_s = time.monotonic()
            peer.socket.sendall(frame)
            innocent.longest_s = innocent.commits = 0
            answered = peer.receive()
            took_s = time.monotonic() - began_s
        answer = response_of(registry.codec(ApiKey.PRODUCE, 9), answered)[1]
        assert {each.error_code for each in answer.responses[0].partition_responses} == {0}
        print(f"{took_s:.2f} s, longest commit {innocent.longest_s * 1000:.1f} ms of {innocent.commits}")
        assert innocent.longest_s < took_s / 2 or innocent.commits > 20
    peer.close()
