"""What a request's context keeps while its answer waits."""

from __future__ import annotations

from coordinatord.request import RequestContext
from protocol import registry
from protocol.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.compiler import encode_message
from protocol.errors import ErrorCode
from protocol.schema import schema_of
from tests.handlers.world import World
from tests.shell import Turns, Wire, make_router

TOPICS = [
    OffsetCommitRequestTopic("orders", partitions=[OffsetCommitRequestPartition(0, 5, 3, "here")]),
    OffsetCommitRequestTopic("none", partitions=[OffsetCommitRequestPartition(0, 5, 3, "")]),
]
COMMIT = OffsetCommitRequest("g", topics=TOPICS)


def context_of(before: bytes, after: bytes) -> RequestContext:
    """A commit's context where one read has brought other things, too."""
    body = encode_message(COMMIT, 8)
    wire = Wire(make_router({}, Turns()), Turns())
    codec = registry.codec(schema_of(OffsetCommitRequest).api_key or 0, 8)
    return RequestContext(wire.connection, codec, 1, "test", (before + body + after, len(before), len(before + body)))


def test_the_request_is_decoded_again_as_it_came() -> None:
    context = context_of(b"other", b"s")
    assert context.request == COMMIT
    assert context.request is not context.request
    assert context.body == encode_message(COMMIT, 8)


def test_what_waits_for_long_keeps_its_own_bytes_only() -> None:
    context = context_of(b"x" * 60_000, b"y" * 5_000)
    context.keep()
    assert len(context._body[0]) == len(encode_message(COMMIT, 8))
    assert context.request == COMMIT


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
