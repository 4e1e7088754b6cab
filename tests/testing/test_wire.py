"""The fixtures' own requests to a broker elsewhere that is behind its controller, as Kafka's may be."""

from __future__ import annotations

from typing import Any

import pytest

from coordinatord.testing import wire
from coordinatord.testing.problems import KafkaError
from coordinatord.testing.wire import Wire
from kafka_wire.api.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from kafka_wire.api.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from kafka_wire.errors import ErrorCode

OLD, NEW = b"o" * 16, b"n" * 16


class Lagging(Wire):
    """Tells of the old topic in `looks` answers after its deletion, and then of what is `left`."""

    def __init__(self, looks: int, left: bytes | None = None, error: int = ErrorCode.NONE) -> None:
        super().__init__(lambda: ("nowhere", 1))
        self.looks = looks
        self.left = left
        self.error = error
        self.is_deleted = False
        self.asked = 0

    def ask(self, request: Any, version: int | None = None, to: tuple[str, int] | None = None) -> Any:
        if isinstance(request, DeleteTopicsRequest):
            self.is_deleted = True
            return DeleteTopicsResponse(
                responses=[DeletableTopicResult(name, error_code=self.error) for name in request.topic_names]
            )
        assert isinstance(request, MetadataRequest)
        assert not request.allow_auto_topic_creation
        topic_id: bytes | None = OLD
        if self.is_deleted:
            self.asked += 1
            topic_id = OLD if self.asked <= self.looks else self.left
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic_id is None else ErrorCode.NONE
        return MetadataResponse(topics=[MetadataResponseTopic(error, "orders", topic_id or bytes(16))])


@pytest.mark.parametrize("left", [None, NEW], ids=["gone", "made anew"])
def test_a_deletion_is_waited_for(left: bytes | None) -> None:
    broker = Lagging(3, left)
    broker.delete_topics(["orders"])
    assert broker.asked == 4


def test_a_topic_that_is_not_deleted_is_not_waited_for() -> None:
    broker = Lagging(3, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    broker.delete_topics(["orders"])
    assert broker.asked == 0


def test_a_broker_that_keeps_a_deleted_topic_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "TIMEOUT_S", 0.05)
    with pytest.raises(KafkaError, match=r"topic orders is still there after 0.05 s\."):
        Lagging(10**6).delete_topics(["orders"])
