"""Large answers over a real socket whose peer takes little at a time: nothing is lost, copied twice or out of order."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from kafka_wire.api.api_versions import ApiVersionsRequest
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.client import codec_of
from kafka_wire.records.batch import build_batch, iterate_batches, records
from tests.daemon import HOST, running
from tests.support.shell import request_frame, response_of

TOPIC, PARTITIONS, VALUES, VALUE_BYTES = "large", 3, 40, 50_000
VERSIONS: dict[type[Any], int] = {
    ApiVersionsRequest: 0,
    CreateTopicsRequest: 5,
    ProduceRequest: 9,
    FetchRequest: 12,
}


def frame(request: Any, correlation_id: int) -> bytes:
    return request_frame(request, VERSIONS[type(request)], correlation_id)


def answer(sock: socket.socket, request: Any, at_a_time: int) -> tuple[int, Any]:
    """The next answer, read by so many bytes."""
    size = int.from_bytes(sock.recv(4, socket.MSG_WAITALL), "big")
    body = bytearray()
    while len(body) < size:
        more = sock.recv(min(at_a_time, size - len(body)))
        assert more, "the daemon has closed the connection"
        body += more
    return response_of(codec_of(request, VERSIONS[type(request)]), bytes(body))


def value(partition: int, number: int) -> bytes:
    return bytes([partition * VALUES + number]) * VALUE_BYTES


def test_fetches_beyond_what_the_socket_takes_come_whole_and_in_order(tmp_path: Path) -> None:
    with running(tmp_path, {"log.flush": "never"}) as daemon, socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32_768)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(30)
        sock.connect((HOST, daemon.port))
        create = CreateTopicsRequest([CreatableTopic(TOPIC, PARTITIONS, 1)], 10_000)
        sock.sendall(frame(create, 0))
        assert answer(sock, create, 4096)[1].topics[0].error_code == 0
        for partition in range(PARTITIONS):
            for number in range(VALUES):
                batch = bytes(build_batch([(None, value(partition, number))], 1_700_000_000_000))
                data = TopicProduceData(TOPIC, partition_data=[PartitionProduceData(partition, batch)])
                produce = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[data])
                sock.sendall(frame(produce, 0))
                assert answer(sock, produce, 4096)[1].responses[0].partition_responses[0].error_code == 0
        asked = [FetchPartition(index, fetch_offset=0, partition_max_bytes=1 << 20) for index in range(PARTITIONS)]
        fetch = FetchRequest(
            max_wait_ms=0, min_bytes=1, max_bytes=50 << 20, topics=[FetchTopic(TOPIC, partitions=asked)]
        )
        requests = [fetch, ApiVersionsRequest(), fetch, fetch, ApiVersionsRequest()]
        sock.sendall(b"".join(frame(request, number) for number, request in enumerate(requests)))
        for number, request in enumerate(requests):
            correlation_id, response = answer(sock, request, 10_000)
            assert correlation_id == number
            if request is fetch:
                check(response)


def check(response: Any) -> None:
    """Each partition's records from the first on, as many as fit into a mebibyte."""
    partitions = response.responses[0].partitions
    assert [data.partition_index for data in partitions] == list(range(PARTITIONS))
    for data in partitions:
        found = [
            record.value
            for start, header in iterate_batches(data.records)
            for record in records(data.records, start, header)
        ]
        assert len(found) == (1 << 20) // (VALUE_BYTES + 100)
        assert found == [value(data.partition_index, number) for number in range(len(found))]
