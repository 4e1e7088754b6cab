"""Attacks with records, stored or on their way: imported by attacks.py, which runs them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from kafka_wire.api.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafka_wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.records.batch import BatchBuilder, build_batch
from kafka_wire.records.compression import Compression
from kafka_wire.schema import ZERO_UUID
from tests.hostile.turns import Peer, create_topics
from tests.support.shell import request_frame


def records_never_read(port: int) -> Iterator[None]:
    """A hundred connections fetch fifty megabytes each, and read nothing."""
    peer = Peer(port)
    create_topics(peer, "unread")
    batch = build_batch([(None, bytes(900_000))], 1_700_000_000_000)
    data = [TopicProduceData("unread", ZERO_UUID, [PartitionProduceData(0, batch)])]
    for _ in range(60):
        peer.ask(ProduceRequest(None, -1, 10_000, data), 9)
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=50 << 20)
    fetch = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=50 << 20, topics=[FetchTopic("unread", partitions=[partition])]
    )
    peers = [Peer(port) for _ in range(100)]
    for each in peers:
        each.send(fetch, 11)
        yield
    while True:
        time.sleep(0.1)
        yield


def half_sent_records(port: int) -> Iterator[None]:
    """Forty connections send 20 MB each of a Produce request of 90 MB, and wait."""
    head = (90 << 20).to_bytes(4, "big") + b"\x00\x00\x00\x09\x00\x00\x00\x01\x00\x01c\x00"
    peers = []
    for _ in range(40):
        peer = Peer(port)
        peers.append(peer)
        peer.socket.settimeout(0.5)
        with contextlib.suppress(TimeoutError, ConnectionError):
            peer.socket.sendall(head + bytes(20 << 20))
        yield
    while True:
        time.sleep(0.1)
        yield


def _produce(peer: Peer, topic: str, *batches: bytes | bytearray) -> None:
    for batch in batches:
        data = [TopicProduceData(topic, ZERO_UUID, [PartitionProduceData(0, batch)])]
        [answer] = peer.ask(ProduceRequest(None, -1, 60_000, data), 9).responses[0].partition_responses
        assert answer.error_code == 0, answer


def _look_up(peer: Peer, topic: str, *timestamps: int) -> None:
    """All at once: they are answered one after the other."""
    frames = [
        request_frame(ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, [ListOffsetsPartition(0, -1, each)])]), 7, 1)
        for each in timestamps
    ]
    peer.socket.sendall(b"".join(frames))
    for _ in frames:
        peer.receive()


def bombs_looked_up_by_time(port: int) -> Iterator[None]:
    """A stored batch of 4 KB that has 120 MB when it is decompressed, with each codec: twenty requests in one write."""
    peers = []
    for codec in (Compression.ZSTD, Compression.GZIP, Compression.LZ4):
        peers.append((Peer(port), f"bombed-{codec.name.lower()}"))
        create_topics(peers[-1][0], peers[-1][1])
        _produce(*peers[-1], build_batch([(None, bytes(120 << 20))], 1_700_000_000_000, compression=codec))
    while True:
        for peer, topic in peers:
            _look_up(peer, topic, *range(20), -3)
            yield


def many_records_looked_up_by_time(port: int) -> Iterator[None]:
    """A batch of 900,000 records, whose times rise, and batches of one record whose times fall: 20,000 of them."""
    peer = Peer(port)
    create_topics(peer, "risen")
    create_topics(peer, "fallen")
    began_ms = 1_700_000_000_000
    builder = BatchBuilder()
    for number in range(900):
        builder.extend([(None, None)] * 1_000, began_ms + number)
    _produce(peer, "risen", builder.finish(compression=Compression.ZSTD))
    one = [build_batch([(None, b"")], began_ms - number) for number in range(20_000)]
    frames = [
        request_frame(
            ProduceRequest(None, -1, 60_000, [TopicProduceData("fallen", ZERO_UUID, [PartitionProduceData(0, each)])]),
            9, 1,
        )
        for each in (*one, build_batch([(None, b"")], began_ms + 1))
    ]  # fmt: skip
    for first in range(0, len(frames), 500):
        peer.socket.sendall(b"".join(frames[first : first + 500]))
        for _ in frames[first : first + 500]:
            peer.receive()
    while True:
        _look_up(peer, "risen", *[began_ms + 899 - number for number in range(5)], -3)
        _look_up(peer, "fallen", *[began_ms + 1] * 5, -3)
        yield


def greatest_time_of_deleted_records(port: int) -> Iterator[None]:
    """The record with the greatest time is deleted, and 50,000 records follow."""
    peer = Peer(port)
    create_topics(peer, "deleted")
    _produce(peer, "deleted", build_batch([(None, b"")], 1_700_000_000_001))
    peer.ask(DeleteRecordsRequest([DeleteRecordsTopic("deleted", [DeleteRecordsPartition(0, 1)])], 10_000), 2)
    for _ in range(500):
        _produce(peer, "deleted", build_batch([(None, bytes(100))] * 100, 1_700_000_000_000))
    while True:
        _look_up(peer, "deleted", *[-3] * 20)
        yield


def large_batches(port: int) -> Iterator[None]:
    """Batches of 60 MB: one that a few kilobytes decompress to, and one that is as large as it is."""
    peer = Peer(port)
    own = [CreatableTopicConfig("max.message.bytes", str(100 << 20)), CreatableTopicConfig("retention.bytes", "1")]
    peer.ask(CreateTopicsRequest([CreatableTopic("large", 1, 1, [], own)], timeout_ms=10_000), 5)
    value = bytes(60 << 20)
    batches = [build_batch([(None, value)], 1_700_000_000_000, compression=codec) for codec in list(Compression)]
    while True:
        for batch in batches:
            _produce(peer, "large", batch)
            yield


RECORD_ATTACKS = (
    records_never_read,
    half_sent_records,
    bombs_looked_up_by_time,
    many_records_looked_up_by_time,
    greatest_time_of_deleted_records,
    large_batches,
)
