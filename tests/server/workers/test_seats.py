"""Nodes of several machines: who has which seat, and requests to whoever has it now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from coordinatord.coordination.transactions.markers import MarkersDone
from coordinatord.coordination.transactions.remote_transactions import SpreadMarkers
from coordinatord.coordination.transactions.result import Markers
from coordinatord.transport.cluster.nodes import Node, Nodes, share_of
from coordinatord.transport.cluster.partition_slots import NO_NODE, Holder, SeatedNodes
from coordinatord.transport.cluster.peers import SeatPeers
from kafka_wire import registry
from kafka_wire.api.end_txn import EndTxnRequest, EndTxnResponse
from kafka_wire.api.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafka_wire.errors import ErrorCode
from kafka_wire.framing import FrameSplitter
from kafka_wire.headers import read_request_header
from tests.daemon import HOST

END_TXN, VERSION = 26, 3


def seated(seat: int, seats: int = 3) -> SeatedNodes:
    nodes = SeatedNodes(10 + seat, "rack", seats)
    nodes.take(seat)
    nodes.advertise("L", ("own", 1))
    return nodes


def test_a_partitions_seat_is_its_worker() -> None:
    nodes = seated(1)
    for topic in ("orders", "__consumer_offsets", "x"):
        for partition in range(7):
            workers = Nodes(0, workers=3)
            assert nodes.worker_of(topic, partition) == workers.worker_of(topic, partition)
            assert share_of(topic, partition, 3) == workers.worker_of(topic, partition)
            assert nodes.owns(topic, partition) == (workers.worker_of(topic, partition) == 1)


def test_whoever_has_a_seat_leads_its_partitions() -> None:
    nodes = seated(1)
    assert nodes.controller_id == -1
    assert [nodes.leader_of("__x", number) for number in range(3)] == [-1, 11, -1]
    assert nodes.coordinator("__x", 0, "L") == NO_NODE
    holders = {0: Holder(7, {"L": ("seven", 2)}), 1: Holder(99, {"L": ("old", 3)}), 2: Holder(8, {})}
    assert nodes.seat(holders)
    assert not nodes.seat(holders), "as before"
    assert [nodes.leader_of("__x", number) for number in range(4)] == [7, 11, 8, 7]
    assert nodes.controller_id == 7
    assert nodes.coordinator("__x", 0, "L") == (7, "seven", 2)
    assert nodes.coordinator("__x", 1, "L") == (11, "own", 1), "this node knows that it has its own seat"
    assert nodes.coordinator("__x", 2, "L") == NO_NODE, "it does not listen there"
    assert [nodes.leads(node_id) for node_id in (7, 8, 11, 99, -1)] == [True, True, True, False, False]
    assert nodes.seat({0: Holder(9, {"L": ("nine", 4)})})
    assert [nodes.leader_of("__x", number) for number in range(3)] == [9, 11, -1]
    nodes.others = lambda listener: [Node(9, "nine", 4)]
    assert nodes.alive("L") == [Node(11, "own", 1, "rack"), Node(9, "nine", 4)]
    assert nodes.own_addresses == {"L": ("own", 1)}


class Answering(asyncio.Protocol):
    """A node that answers EndTxn with its own error code, or says nothing."""

    def __init__(self, error: int | None, asked: list[int]) -> None:
        self._error = error
        self._asked = asked
        self._splitter = FrameSplitter(1 << 20)
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        codec = registry.codec(END_TXN, VERSION)
        for buf, start, end in self._splitter.feed(data):
            header, body = read_request_header(buf, start, end, codec.flexible)
            self._asked.append(codec.decode_request(buf, body, end).producer_id)
            if self._error is None:
                self._transport.abort()
                return
            frame = bytearray(4) + header.correlation_id.to_bytes(4, "big") + b"\0" * codec.response_header_flexible
            codec.encode_response(EndTxnResponse(error_code=self._error), frame)
            frame[:4] = (len(frame) - 4).to_bytes(4, "big")
            self._transport.write(bytes(frame))


@pytest.mark.timeout(60)
def test_requests_go_to_whoever_has_the_seat() -> None:
    async def play() -> None:
        loop = asyncio.get_running_loop()
        asked: list[int] = []
        servers = [
            await loop.create_server(lambda error=error: Answering(error, asked), HOST, 0)  # type: ignore[misc]
            for error in (40, 41, None)
        ]
        ports = [server.sockets[0].getsockname()[1] for server in servers]
        nodes = seated(0, 2)
        peers = SeatPeers(nodes, "L", loop)

        async def ask(number: int) -> int | None:
            answered: asyncio.Future[Any] = loop.create_future()
            peers.ask(1, VERSION, EndTxnRequest("t", number, 0, True), answered.set_result)
            answer = await answered
            return None if answer is None else int(answer.error_code)

        assert await ask(1) is None, "nobody has it"
        nodes.seat({1: Holder(1, {"L": (HOST, ports[0])})})
        assert [await ask(2), await ask(3)] == [40, 40]
        nodes.seat({1: Holder(2, {"L": (HOST, ports[1])})})
        assert [await ask(4), await ask(5)] == [41, 41]
        # Several at once, while the holder changes: each is answered once, by somebody or by nobody.
        first = [asyncio.ensure_future(ask(number)) for number in (6, 7)]
        await asyncio.sleep(0)
        nodes.seat({1: Holder(1, {"L": (HOST, ports[0])})})
        second = [asyncio.ensure_future(ask(number)) for number in (8, 9)]
        assert {await each for each in first} <= {None, 41}
        assert {await each for each in second} == {40}
        nodes.seat({1: Holder(3, {"L": (HOST, ports[2])})})
        assert await ask(10) is None, "it hangs up"
        nodes.seat({1: Holder(1, {"L": (HOST, ports[0])})})
        peers.may_ask = lambda: False
        assert await ask(11) is None
        assert 11 not in asked, "a node that does not lead any more tells nobody anything"
        peers.may_ask = lambda: True
        assert await ask(12) == 40
        peers.close()
        assert await ask(13) is None
        for server in servers:
            server.close()

    asyncio.run(play())


@pytest.mark.parametrize(
    ("said", "is_retried"),
    [
        (ErrorCode.NONE, False),
        (ErrorCode.NOT_COORDINATOR, True),  # of a node that waits, or has no lease
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, True),  # its database is away
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True),  # another node has the seat
        (ErrorCode.KAFKA_STORAGE_ERROR, True),
        (None, True),  # nobody has it
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
        (ErrorCode.INVALID_PRODUCER_EPOCH, False),
        (ErrorCode.TRANSACTION_COORDINATOR_FENCED, False),  # another coordinator has taken over, and writes it
    ],
)
def test_markers_for_other_seats_have_our_term_and_are_sent_until_written(
    said: ErrorCode | None, is_retried: bool
) -> None:
    asked: list[WriteTxnMarkersRequest] = []

    class Peers:
        def ask(self, worker: int, version: int, request: Any, answered: Callable[[Any], object]) -> None:
            asked.append(request)
            results = [WritableTxnMarkerPartitionResult(1, said or ErrorCode.NONE)]
            result = WritableTxnMarkerResult(5, [WritableTxnMarkerTopicResult("__x", results)])
            answered(None if said is None else WriteTxnMarkersResponse([result]))

    class Here:
        def write(self, markers: Markers, done: MarkersDone) -> None:
            assert markers.partitions == (("__x", 0),)
            done(7, ())

    here: Any = Here()
    written: list[tuple[int, tuple[tuple[str, int], ...]]] = []
    markers = Markers(5, 0, True, (("__x", 0), ("__x", 1)), 0)
    SpreadMarkers(here, seated(0, 2), Peers(), 31).write(markers, lambda epoch, left: written.append((epoch, left)))
    assert written == [(7, (("__x", 1),) if is_retried else ())]
    assert [each.markers[0].coordinator_epoch for each in asked] == [31]
