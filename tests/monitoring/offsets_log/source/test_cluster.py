"""What a cluster answers while some of its nodes do not: the rest is known, and what is not known is left out."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError, NodeNotReadyError, SaslAuthenticationFailedError
from kafka.protocol.consumer import FetchRequest

from coordinatord.monitoring.offsets_log.source.cluster import EARLIEST, Cluster
from coordinatord.monitoring.offsets_log.source.connecting import Connections
from coordinatord.monitoring.offsets_log.source.segments import OFFSETS_TOPIC, SourceError
from kafka_wire.errors import ErrorCode

NONE, NOT_LEADER = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER


class Manager:
    """Stands for kafka-python's: nodes by id, each a function from a request to a response, which may raise."""

    is_lasting = staticmethod(Connections.is_lasting)
    why, has_connected = None, True

    def __init__(self, leaders: dict[tuple[str, int], int]) -> None:
        self.leaders = leaders
        self.nodes: dict[int, Callable[[Any], Any]] = {0: self.serve, 1: self.serve}
        self.asked: list[list[str] | None] = []
        self.cluster = SimpleNamespace(update_metadata=lambda _: None)
        self.errors: dict[tuple[str, int], list[int]] = {}
        """Of ListOffsets, by partition: one for each request."""

    def ask(self, request: Any, node_id: int | None = None) -> Any:
        return self.nodes[node_id or 0](request)

    def serve(self, request: Any) -> Any:
        return (
            self.metadata(request) if type(request).__name__.startswith("Metadata")
            else self.fetched(request) if isinstance(request, FetchRequest)
            else self.offsets(request)
        )  # fmt: skip

    def metadata(self, request: Any) -> Any:
        names = None if not isinstance(request.topics, list) else [each.name for each in request.topics]
        self.asked.append(names)
        known = sorted({topic for topic, _ in self.leaders})
        topics = [
            SimpleNamespace(
                name=topic, error_code=NONE if topic in known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                is_internal=topic.startswith("__"), topic_id=None,
                partitions=[
                    SimpleNamespace(partition_index=number, leader_id=leader)
                    for (of, number), leader in self.leaders.items() if of == topic
                ],
            )
            for topic in (known if names is None else names)
        ]  # fmt: skip
        return SimpleNamespace(topics=topics)

    def offsets(self, request: Any) -> Any:
        def part(topic: str, each: Any) -> Any:
            codes = self.errors.get((topic, each.partition_index), [])
            offset = 1 if each.timestamp == EARLIEST else 10 + each.partition_index
            return SimpleNamespace(
                partition_index=each.partition_index, error_code=codes.pop(0) if codes else NONE, offset=offset
            )

        topics = [
            SimpleNamespace(name=topic.name, partitions=[part(topic.name, each) for each in topic.partitions])
            for topic in request.topics
        ]
        return SimpleNamespace(topics=topics)

    def fetched(self, request: Any) -> Any:
        [topic] = request.topics
        parts = [
            SimpleNamespace(
                partition_index=each.partition, error_code=NONE, records=b"", log_start_offset=0, high_watermark=5
            )
            for each in topic.partitions
        ]
        return SimpleNamespace(responses=[SimpleNamespace(partitions=parts)])


LEADERS = {("orders", 0): 0, ("orders", 1): -1, ("orders", 2): 1, (OFFSETS_TOPIC, 0): 0, (OFFSETS_TOPIC, 1): 1}


def cluster(manager: Manager) -> Cluster:
    made = Cluster("here:1", {}, 1.0)
    made.connections = manager
    return made


def gone(_request: Any) -> Any:
    raise KafkaConnectionError("111 ECONNREFUSED")


def test_a_partition_without_a_leader_is_left_out() -> None:
    made = cluster(Manager(LEADERS))
    assert made.bounds(made.places()) == {("orders", 0): (1, 10), ("orders", 2): (1, 12)}
    assert made.existing([("orders", 1), ("orders", 9), ("gone", 0), ("no topic/", 0)]) == {("orders", 1)}


def test_only_what_is_asked_for_is_asked() -> None:
    manager = Manager(LEADERS)
    assert cluster(manager).bounds([("orders", 0), ("gone", 0), ("..", 0)]) == {("orders", 0): (1, 10)}
    assert manager.asked == [["gone", "orders"]]


@pytest.mark.parametrize("error", [KafkaConnectionError("111 ECONNREFUSED"), NodeNotReadyError("1")])
def test_a_node_that_has_just_died(error: Exception) -> None:
    """It leads its partitions until the controller has noticed."""

    def dead(_request: Any) -> Any:
        raise error

    manager = Manager(LEADERS)
    manager.nodes[1] = dead
    made = cluster(manager)
    assert made.bounds([("orders", 0), ("orders", 2)]) == {("orders", 0): (1, 10)}
    assert made.log_bounds(made.log_partitions()) == {0: (1, 10)}
    assert made.fetch({0: 0, 1: 0}).keys() == {0}


def test_no_node_at_all() -> None:
    manager = Manager(LEADERS)
    made = cluster(manager)
    made.log_partitions()
    manager.nodes = {0: gone, 1: gone}
    for ask in (lambda: made.bounds([("orders", 0)]), made.places, made.log_partitions, lambda: made.fetch({0: 0})):
        with pytest.raises(SourceError, match=r"^no broker answers at here:1: connection refused$"):
            ask()


def test_what_no_other_attempt_changes_is_an_error() -> None:
    def strict(_request: Any) -> Any:
        raise SaslAuthenticationFailedError("no")

    manager = Manager(LEADERS)
    manager.nodes[1] = strict
    with pytest.raises(SourceError, match="does not let the user"):
        cluster(manager).bounds([("orders", 2)])


def test_a_leader_that_has_moved_is_looked_for() -> None:
    manager = Manager(LEADERS)
    manager.errors = {("orders", 0): [NOT_LEADER], ("orders", 2): [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 9}
    assert cluster(manager).bounds([("orders", 0), ("orders", 2)]) == {("orders", 0): (1, 10)}
    assert len(manager.asked) == 2
