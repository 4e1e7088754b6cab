"""What one consumer can fetch, and one producer produce."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass

from bench import frames, groups
from bench.generator import Line, WrongAnswer, exchange
from bench.groups import require
from bench.registry import (
    KAFKA,
    KFAKE,
    OURS,
    OURS_NEVER,
    Arena,
    Column,
    Sample,
    at_least,
    row,
)
from bench.servers import Server
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.records import batch

# Fetch: 64 MiB of 1 KiB records, in the batches of 16 KB that producers make by default

FETCH_TOPIC = "bench-records"
RECORD_BYTES, RECORDS_EACH, BATCHES = 1024, 15, 4_200
PARTITION_MAX_BYTES, MAX_BYTES = 1 << 20, 50 << 20  # consumers' defaults
FETCH_VERSION, PRODUCE_VERSION = 12, 9
WARM_S = {"kafka": 5.0}
WARM_ELSE_S = 0.3
ENDS_BYTES = 4096  # compared at both ends of an answer


@dataclass(slots=True)
class Reading:
    """A consumer's way through the topic: each request, and its answer's size, beginning and end."""

    line: Line
    steps: list[tuple[bytes, int, bytes, bytes]]
    records: int
    buffer: bytearray


def _fetch(offset: int) -> FetchRequest:
    partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=PARTITION_MAX_BYTES)
    return FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=MAX_BYTES, topics=[FetchTopic(FETCH_TOPIC, partitions=[partition])]
    )


def _produce(server: Server, line: Line) -> None:
    topic = CreatableTopic(FETCH_TOPIC, 1, 1)
    made = line.ask(CreateTopicsRequest([topic], 30_000), groups.CREATE_TOPICS_VERSION)
    require(made.topics[0].error_code, "CreateTopics")
    values = [bytes([number + 65]) * RECORD_BYTES for number in range(RECORDS_EACH)]
    built = batch.build_batch([(None, value) for value in values], int(time.time() * 1000))
    data = TopicProduceData(FETCH_TOPIC, partition_data=[PartitionProduceData(0, bytes(built))])
    request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[data])
    wire = frames.frame(request, PRODUCE_VERSION)
    (answers,) = exchange([line], [[wire] * BATCHES], 8)
    for answer in answers:
        produced = frames.response(request, answer, PRODUCE_VERSION)
        require(produced.responses[0].partition_responses[0].error_code, "Produce")


def _first_reading(server: Server) -> Reading:
    """Read it all once, decode and check every record, and keep what an answer looks like."""
    line = server.line()
    line.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    _produce(server, line)
    reading = Reading(line, [], 0, bytearray(PARTITION_MAX_BYTES * 2))
    offset, total = 0, BATCHES * RECORDS_EACH
    while offset < total:
        request = _fetch(offset)
        wire = frames.frame(request, FETCH_VERSION)
        answer = line.ask_bytes(wire)
        partition = frames.response(request, answer, FETCH_VERSION).responses[0].partitions[0]
        require(partition.error_code, "Fetch")
        before = offset
        for start, header in batch.iterate_batches(partition.records, partial=True):
            batch.check_crc(partition.records, start, header)
            for record in batch.records(partition.records, start, header):
                if record.offset != offset or record.value is None or len(record.value) != RECORD_BYTES:
                    raise WrongAnswer(f"record {record.offset} is not the one that was produced as {offset}")
                offset += 1
        if offset == before:
            raise WrongAnswer(f"a fetch at {offset} of {total} brought no record")
        reading.steps.append((wire, len(answer), answer[:ENDS_BYTES], answer[-ENDS_BYTES:]))
    reading.records = total
    return reading


def _read(reading: Reading, seconds: float) -> tuple[int, float]:
    """Go through the topic for so long, one fetch after the other; (bytes of records, seconds)."""
    began_s = time.perf_counter()
    until_s = began_s + seconds
    sock, buffer, rounds = reading.line.sock, reading.buffer, 0
    view = memoryview(buffer)
    sock.setblocking(False)
    while rounds == 0 or time.perf_counter() < until_s:
        for wire, size, first, last in reading.steps:
            sock.sendall(wire)
            got = 0
            while got < size:
                try:
                    more = sock.recv_into(view[got:size])
                except BlockingIOError:
                    continue  # asked again at once, so that nobody has to wake us
                if not more:
                    raise WrongAnswer("the server has closed the connection")
                got += more
            if view[: len(first)] != first or view[size - len(last) : size] != last:
                raise WrongAnswer("a fetch was not answered as the same one before")
        rounds += 1
    return rounds * reading.records * RECORD_BYTES, time.perf_counter() - began_s


@row(
    "fetch",
    "fetch of 1 KiB records by one consumer",
    "MB per CPU second",
    columns=[OURS, KAFKA, KFAKE],
    targets=[at_least(1, of="kafka")],
    more_is_better=True,
)
def fetch(arena: Arena, column: Column, seconds: float) -> Sample:
    server = arena.server(column)
    if "reading" not in server.fixtures:
        server.fixtures["reading"] = made = _first_reading(server)
        _read(made, WARM_S.get(server.kind, WARM_ELSE_S))
    reading: Reading = server.fixtures["reading"]  # type: ignore[assignment]
    before_s = server.cpu_s()
    size, took_s = _read(reading, seconds)
    used_s = server.cpu_s() - before_s
    return Sample(
        size / used_s / 1e6,
        server_busy=used_s / took_s,
        also={"MB/s": size / took_s / 1e6},
    )


# Produce: the same batches again and again, 8 in flight, as a producer with the default acks=all sends them

PRODUCE_TOPIC = "bench-produced"
PRODUCE_IN_FLIGHT, PRODUCE_AT_ONCE = 8, 400


@dataclass(slots=True)
class Writing:
    """A producer's request, and the next offset of its partition."""

    line: Line
    request: ProduceRequest
    wire: bytes
    next_offset: int = 0


def _writing(server: Server) -> Writing:
    line = server.line()
    topic = CreatableTopic(PRODUCE_TOPIC, 1, 1)
    made = line.ask(CreateTopicsRequest([topic], 30_000), groups.CREATE_TOPICS_VERSION)
    require(made.topics[0].error_code, "CreateTopics")
    values = [bytes([number + 65]) * RECORD_BYTES for number in range(RECORDS_EACH)]
    built = batch.build_batch([(None, value) for value in values], int(time.time() * 1000))
    data = TopicProduceData(PRODUCE_TOPIC, partition_data=[PartitionProduceData(0, bytes(built))])
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])
    return Writing(line, request, frames.frame(request, PRODUCE_VERSION))


def _write(writing: Writing, seconds: float) -> tuple[int, float]:
    """Produce for so long; (bytes of records, seconds). Each answer has the offset that follows the one before."""
    began_s = time.perf_counter()
    until_s, size = began_s + seconds, 0
    while size == 0 or time.perf_counter() < until_s:
        (answers,) = exchange([writing.line], [[writing.wire] * PRODUCE_AT_ONCE], PRODUCE_IN_FLIGHT)
        for answer in answers:
            produced = frames.response(writing.request, answer, PRODUCE_VERSION)
            partition = produced.responses[0].partition_responses[0]
            require(partition.error_code, "Produce")
            if partition.base_offset != writing.next_offset:
                raise WrongAnswer(f"records {writing.next_offset} and on were produced as {partition.base_offset}")
            writing.next_offset += RECORDS_EACH
        size += PRODUCE_AT_ONCE * RECORDS_EACH * RECORD_BYTES
    return size, time.perf_counter() - began_s


@row(
    "produce",
    "produce of 1 KiB records by one producer, acks=all, not flushed",
    "MB per CPU second",
    columns=[OURS_NEVER, KAFKA],
    targets=[at_least(1, of="kafka")],
    more_is_better=True,
)
def produce(arena: Arena, column: Column, seconds: float) -> Sample:
    """Of 15 records in a batch. kfake keeps no records on disk."""
    server = arena.server(column)
    if "writing" not in server.fixtures:
        server.fixtures["writing"] = made = _writing(server)
        _write(made, WARM_S.get(server.kind, WARM_ELSE_S))
    writing: Writing = server.fixtures["writing"]  # type: ignore[assignment]
    before_s = server.cpu_s()
    size, took_s = _write(writing, seconds)
    used_s = server.cpu_s() - before_s
    return Sample(size / used_s / 1e6, server_busy=used_s / took_s, also={"MB/s": size / took_s / 1e6})
