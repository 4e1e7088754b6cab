"""What a request's context keeps in memory while its response waits."""

from __future__ import annotations

from coordinatord.coordination.runtime.versions import unavailable
from coordinatord.transport.net.request import RequestContext
from kafka_wire import registry
from kafka_wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafka_wire.codecs import encode_message
from kafka_wire.errors import ErrorCode
from kafka_wire.schema import schema_of
from tests.handlers.world import World
from tests.support.shell import Turns, Wire, make_door

TOPICS = [
    OffsetCommitRequestTopic("orders", partitions=[OffsetCommitRequestPartition(0, 5, 3, "here")]),
    OffsetCommitRequestTopic("none", partitions=[OffsetCommitRequestPartition(0, 5, 3, "")]),
]
COMMIT = OffsetCommitRequest("g", topics=TOPICS)


def context_of(before: bytes, after: bytes) -> RequestContext:
    """The context of a commit that was read together with other bytes."""
    body = encode_message(COMMIT, 8)
    wire = Wire(make_door({}, Turns()), Turns())
    codec = registry.codec(schema_of(OffsetCommitRequest).api_key or 0, 8)
    return RequestContext(wire.connection, codec, 1, (before + body + after, len(before), len(before + body)))


def test_the_request_is_decoded_again_as_it_came() -> None:
    context = context_of(b"other", b"s")
    assert context.request == COMMIT
    assert context.request is not context.request
    assert context.body == encode_message(COMMIT, 8)


def test_what_waits_for_long_keeps_its_own_bytes_only() -> None:
    context = context_of(b"x" * 60_000, b"y" * 5_000)
    assert context.keep() == (context.body, 0, len(context.body))
    assert context.request == COMMIT


def test_what_makes_up_most_of_a_read_is_not_copied() -> None:
    for before in (b"x" * 50, b""):
        context = context_of(before, b"")
        assert context.keep()[0] is context.keep()[0]
    large = OffsetCommitRequest("g" * 30_000, topics=TOPICS)
    body = encode_message(large, 8)
    buf = b"x" * 20_000 + body
    context = RequestContext(context.connection, context.codec, 1, (buf, 20_000, len(buf)))
    assert context.keep()[0] is buf


def test_the_request_goes_when_its_answer_is_there() -> None:
    context = context_of(b"", b"")
    body = context.keep()
    context.answer_at(1, OffsetCommitResponse(), lambda: None)
    assert context.body == b""
    assert unavailable(context.codec, body).topics[0].name == "orders"


def test_a_client_whose_commit_is_lost_with_the_log_is_told_so_for_all_that_it_has_sent() -> None:
    world = World(durable=False)
    wire = world.wire()
    wire.send(COMMIT, 8)
    assert wire.answers == []
    world.gate.fail()
    world.turns.run()
    ((_, response),) = wire.answers
    lost = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert [(t.name, [p.error_code for p in t.partitions]) for t in response.topics] == [
        ("orders", [lost]),
        ("none", [lost]),
    ]
