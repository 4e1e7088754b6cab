"""Frames that foreign clients and Apache Kafka exchanged: both codecs read them alike and write them back.

The frames and how to record them again: tests/golden/README.md.
"""

from __future__ import annotations

import functools
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kafka_wire import reference
from kafka_wire.codecs import decode_message, decoder, encode_message
from kafka_wire.headers import read_request_header, write_request_header
from kafka_wire.records import batch
from kafka_wire.records.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka_wire.registry import API_NAMES, codec

FRAMES = Path(__file__).parents[1] / "golden" / "frames"
API_KEYS = {name: key for key, name in API_NAMES.items()}


@dataclass(frozen=True, slots=True)
class Golden:
    client: str
    api: str
    version: int
    direction: str
    frame: bytes

    @property
    def body(self) -> bytes:
        """What follows the header."""
        flexible = codec(API_KEYS[self.api], self.version).flexible
        if self.direction == "request":
            return self.frame[read_request_header(self.frame, 0, len(self.frame), flexible)[1] :]
        # Every broker's answers to these clients have no tagged fields in their header.
        return self.frame[4 + codec(API_KEYS[self.api], self.version).response_header_flexible :]

    @property
    def message_class(self) -> type[Any]:
        found = codec(API_KEYS[self.api], self.version)
        return found.request if self.direction == "request" else found.response


@functools.cache
def golden_frames() -> list[Golden]:
    found = []
    for path in sorted(FRAMES.glob("*.jsonl")):
        first, *lines = path.read_text().splitlines()
        client = json.loads(first)["origin"]["client"]
        for line in lines:
            entry = json.loads(line)
            frame = bytes.fromhex(entry["frame"])
            found.append(Golden(client, entry["api"], entry["version"], entry["direction"], frame))
    return found


def kinds() -> list[tuple[str, str, int, str]]:
    return sorted({(g.client, g.api, g.version, g.direction) for g in golden_frames()})


def frames_of(kind: tuple[str, str, int, str]) -> list[Golden]:
    return [g for g in golden_frames() if (g.client, g.api, g.version, g.direction) == kind]


def test_the_frames_are_there() -> None:
    """Every group API in a version of each client, both directions: a lost file must not pass as a success."""
    by_client: dict[str, set[tuple[str, str]]] = {}
    for golden in golden_frames():
        by_client.setdefault(golden.client, set()).add((golden.api, golden.direction))
    assert set(by_client) == {"kafka-python", "confluent-kafka", "aiokafka"}
    everyday = ("ApiVersions", "Metadata", "FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup",
                "OffsetCommit", "OffsetFetch", "Produce", "Fetch", "ListOffsets", "ListGroups", "DescribeGroups",
                "CreateTopics", "DeleteTopics")  # fmt: skip
    for client, seen in by_client.items():
        for api in everyday:
            assert {(api, "request"), (api, "response")} <= seen, f"{client} {api}"


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: f"{kind[0]}-{kind[1]}-v{kind[2]}-{kind[3]}")
def test_a_golden_frame_is_read_and_written_back(kind: tuple[str, str, int, str]) -> None:
    for golden in frames_of(kind):
        cls, version, body = golden.message_class, golden.version, golden.body
        message = decode_message(cls, version, body)
        start = len(golden.frame) - len(body)
        assert decoder(cls, version)(golden.frame, start, len(golden.frame)) == message
        assert reference.decode(cls, version, body) == (message, 0)
        written = encode_message(message, version)
        assert reference.encode(message, version) == written
        assert written.hex() == body.hex()


@pytest.mark.parametrize("client", sorted({g.client for g in golden_frames()}))
def test_request_headers_are_read_and_written_back(client: str) -> None:
    for golden in golden_frames():
        if golden.client != client or golden.direction != "request":
            continue
        flexible = codec(API_KEYS[golden.api], golden.version).flexible
        header, end = read_request_header(golden.frame, 0, len(golden.frame), flexible)
        assert (header.api_key, header.api_version) == (API_KEYS[golden.api], golden.version)
        assert header.client_id
        out = bytearray()
        write_request_header(header, flexible, out)
        assert out.hex() == golden.frame[:end].hex()


def test_what_members_put_into_joins_and_assignments() -> None:
    """The consumer protocol within JoinGroup and SyncGroup: an int16 version, then what that version has."""
    versions: dict[str, set[tuple[str, int]]] = {}
    for golden, data, cls in consumer_protocol():
        (version,) = struct.unpack_from(">h", data)
        decoded = decode_message(cls, version, data[2:])
        assert reference.decode(cls, version, data[2:]) == (decoded, 0)
        assert encode_message(decoded, version).hex() == data[2:].hex()
        named = (
            decoded.topics if cls is ConsumerProtocolSubscription else [t.topic for t in decoded.assigned_partitions]
        )
        assert all(topic.endswith("-topic") for topic in named)
        versions.setdefault(golden.client, set()).add((cls.__name__, version))
    assert {len(found) for found in versions.values()} != {0}
    assert all(len(found) >= 2 for found in versions.values()), versions


def consumer_protocol() -> Iterator[tuple[Golden, bytes, type[Any]]]:
    """Every subscription and assignment within the golden frames, where it is not empty."""
    for golden in golden_frames():
        if (golden.api, golden.direction) == ("JoinGroup", "request"):
            for protocol in decode_message(golden.message_class, golden.version, golden.body).protocols:
                yield golden, protocol.metadata, ConsumerProtocolSubscription
        elif (golden.api, golden.direction) == ("JoinGroup", "response"):
            for member in decode_message(golden.message_class, golden.version, golden.body).members:
                yield golden, member.metadata, ConsumerProtocolSubscription
        elif (golden.api, golden.direction) == ("SyncGroup", "request"):
            for given in decode_message(golden.message_class, golden.version, golden.body).assignments:
                yield golden, given.assignment, ConsumerProtocolAssignment
        elif (golden.api, golden.direction) == ("SyncGroup", "response"):
            response = decode_message(golden.message_class, golden.version, golden.body)
            if response.assignment:
                yield golden, response.assignment, ConsumerProtocolAssignment


@pytest.mark.parametrize("client", sorted({g.client for g in golden_frames()}))
def test_what_producers_send_is_a_batch(client: str) -> None:
    """Record batches of foreign producers: their CRC is right and their records come out, whatever compressed them."""
    codecs = set()
    for golden in golden_frames():
        if (golden.client, golden.api, golden.direction) != (client, "Produce", "request"):
            continue
        for topic in decode_message(golden.message_class, golden.version, golden.body).topic_data:
            for partition in topic.partition_data:
                for position, header in batch.iterate_batches(partition.records):
                    batch.check_crc(partition.records, position, header)
                    records = list(batch.records(partition.records, position, header))
                    assert [r.value for r in records] == [b"value-%d" % int(r.key) for r in records]
                    codecs.add(header.attributes & batch.CODEC_MASK)
    assert codecs == {"kafka-python": {0, 1}, "confluent-kafka": {0, 1, 2, 3, 4}, "aiokafka": {0}}[client]
