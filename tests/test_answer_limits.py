"""A response that would be too large is replaced by an error, as from Kafka for one of more than 2 GiB; the connection
goes on. All responses that are under way have a limit, too.
"""

from __future__ import annotations

from typing import Any

import pytest

from coordinatord.transport.net import batching, responses
from coordinatord.transport.net.request import RequestContext
from kafka_wire.api.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from kafka_wire.api.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)
from kafka_wire.api.sync_group import SyncGroupRequest
from kafka_wire.codecs import encode_message, encoder
from kafka_wire.errors import ErrorCode
from kafka_wire.message_parts import Noted
from kafka_wire.registry import messages, versions_of
from kafka_wire.schema import schema_of
from tests.support.scene import HEARTBEAT, Scene
from tests.support.shell import Wire

LIMIT = 4_000


class Large(Scene):
    """Groups named by the size of their description, and partitions with as many producers as their number."""

    def __init__(self) -> None:
        super().__init__(max_frame_bytes=100_000)
        handlers = {12: self.heartbeat, 14: self.sync, 15: self.describe, 61: self.producers}
        self.door.router.replace(handlers, {})  # type: ignore[attr-defined]  # the router itself
        self.described = 0
        self.most_unread = 0

    def describe(self, context: RequestContext, request: DescribeGroupsRequest) -> Any:
        self.described += len(request.groups)
        self.most_unread = max(self.most_unread, self.door.unread.bytes)
        return DescribeGroupsResponse(groups=[DescribedGroup(0, each, "x" * int(each)) for each in request.groups])

    def producers(self, context: RequestContext, request: DescribeProducersRequest) -> Any:
        self.described += sum(len(each.partition_indexes) for each in request.topics)
        return DescribeProducersResponse(
            topics=[
                TopicResponse(
                    topic.name,
                    [
                        PartitionResponse(
                            index, active_producers=[ProducerState(n, 0, 0, 0, 0, 0) for n in range(index)]
                        )
                        for index in topic.partition_indexes
                    ],
                )
                for topic in request.topics
            ]
        )


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part has twice the elements of the one before, however busy the machine is."""
    monkeypatch.setattr(batching, "perf_counter", float)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Large:
    for module in (responses, batching):
        monkeypatch.setattr(module, "MAX_ANSWER_BYTES", LIMIT)
    return Large()


def ask(scene: Large, wire: Wire, request: Any, version: int) -> Any:
    wire.send(request, version)
    scene.turns.run()
    return wire.answers[-1][1]


@pytest.mark.interpreted
@pytest.mark.parametrize("sizes", [["5000"], ["100", "5000"], ["900"] * 5, ["300"] * 100], ids=str)
def test_an_error_instead_of_a_response_that_is_too_large(scene: Large, sizes: list[str]) -> None:
    """Whether it is made in one piece or in parts; of parts no more are made than are within the limit."""
    wire = scene.wire()
    response = ask(scene, wire, DescribeGroupsRequest(sizes), 5)
    assert [(each.group_id, each.error_code) for each in response.groups] == [
        (size, ErrorCode.UNKNOWN_SERVER_ERROR) for size in sizes
    ]
    assert scene.described <= 20
    assert not wire.transport.closed
    assert dict(scene.door.metrics.rejected) == {"oversized": 1}
    assert ask(scene, wire, HEARTBEAT, 4).error_code == 0
    assert [each.error_code for each in ask(scene, wire, DescribeGroupsRequest(["900"] * 4), 5).groups] == [0] * 4
    assert scene.door.unread.bytes == 0


@pytest.mark.interpreted
def test_a_response_behind_one_that_waits_for_the_log(scene: Large) -> None:
    wire = scene.wire()
    wire.send(SyncGroupRequest("g", 1, "m"), 5)
    wire.send(DescribeGroupsRequest(["5000"]), 5)
    assert wire.answers == []
    scene.gate.flush(1)
    scene.turns.run()
    assert wire.answers[-1][1].groups[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.interpreted
def test_where_there_is_no_such_error_the_connection_is_closed(scene: Large) -> None:
    scene.door.refusal = None
    wire = scene.wire()
    wire.send(DescribeGroupsRequest(["5000"]), 5)
    assert wire.transport.closed
    assert dict(scene.door.metrics.rejected) == {"oversized": 1}


@pytest.mark.interpreted
def test_one_partition_many_times(scene: Large) -> None:
    """DescribeProducers: one topic, whose partitions are asked for one by one."""
    wire = scene.wire()
    request = DescribeProducersRequest([TopicRequest("t", [40] * 20)])
    (topic,) = ask(scene, wire, request, 0).topics
    assert [each.error_code for each in topic.partitions] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 20
    assert scene.described <= 10
    assert not wire.transport.closed


@pytest.mark.interpreted
def test_where_the_error_is_too_large_too_the_connection_is_closed(scene: Large) -> None:
    wire = scene.wire()
    wire.send(DescribeProducersRequest([TopicRequest("t", [40] * 2_000)]), 0)
    scene.turns.run()
    assert wire.transport.closed
    assert wire.answers == []
    assert scene.described <= 10


@pytest.mark.parametrize(
    "topics",
    [
        [TopicRequest("t", [3, 0, 3, 1])],
        [TopicRequest("t", [])],
        [TopicRequest("a", [1]), TopicRequest("b", [5, 2, 2]), TopicRequest("c", []), TopicRequest("a", [7])],
        [TopicRequest("x", list(range(30))), TopicRequest("x" * 200, [2] * 200)],
    ],
    ids=str,
)
def test_parts_of_parts_make_the_same_response(monkeypatch: pytest.MonkeyPatch, topics: list[TopicRequest]) -> None:
    request = DescribeProducersRequest(topics)
    found = []
    for few in (batching.FEW, 1 << 30):
        monkeypatch.setattr(batching, "FEW", few)
        scene = Large()
        wire = scene.wire()
        ask(scene, wire, request, 0)
        found.append(bytes(wire.transport.written))
    assert found[0] == found[1]


def test_of_all_responses_that_are_made_the_largest_is_given_up() -> None:
    """A client that does not read, and one whose response becomes larger meanwhile."""
    scene = Large()
    scene.door.unread.most_bytes = 100_000
    idle, greedy = scene.wire(), scene.wire()
    idle.transport.unread_bytes = 50_000
    idle.connection.pause_writing()
    response = ask(scene, greedy, DescribeGroupsRequest(["9000"] * 20), 5)
    assert {each.error_code for each in response.groups} == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert 50_000 < scene.most_unread <= 100_000
    assert scene.described <= 15
    assert not idle.transport.closed
    assert scene.door.unread.bytes == 50_000


def test_of_a_response_that_nobody_waits_for_nothing_is_counted() -> None:
    scene = Large()
    wire = scene.wire()
    wire.connection.data_received(wire.frame(DescribeGroupsRequest(["9000"] * 20), 5))
    wire.connection.connection_lost(None)
    scene.turns.run()
    assert (scene.door.unread.bytes, len(scene.door.unread)) == (0, 0)


@pytest.mark.parametrize("api_key", batching.SPLITS)
def test_the_encoder_notes_where_the_elements_of_a_split_response_are(api_key: int) -> None:
    split, answered = batching.SPLITS[api_key], messages(api_key)[1]
    for version in versions_of(api_key):
        if version < split.first_version:
            continue
        [whole] = [field for field in schema_of(answered).fields_of(version) if field.type.batched]
        element = whole.type.element
        assert element is not None
        assert element.struct is not None
        inner = [field for field in schema_of(element.struct).fields_of(version) if field.type.batched]
        assert len(inner) == (split.inner_asked != "")
        out = Noted()
        response = answered(**{whole.name: [element.struct()] * 2})
        encoder(answered, version)(response, out)
        assert out == encode_message(response, version)
        number, count_at, begin, end = out.arrays[-1]
        assert (number, len(out.arrays)) == (2, 1 + 2 * len(inner))
        half = (begin + end) // 2
        assert out[begin:half] == out[half:end]
        empty = encode_message(answered(), version)
        assert (out[:count_at], out[end:]) == (empty[:count_at], empty[begin:])
