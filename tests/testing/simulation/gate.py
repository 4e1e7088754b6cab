"""The durability gate as it can be seen at a node's door: which answer leaves when.

Answers that wait for the log say for which epoch of it. None may leave before that is durable, unless the log has
failed and it says so; and answers leave in the order of their requests, whatever each of them waits for.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from coordinatord.transport.net.connection import Connection
from coordinatord.transport.net.received import Received
from coordinatord.transport.net.response_queue import ResponseQueue

if TYPE_CHECKING:
    from tests.testing.simulation.nodes import Node

_head = struct.Struct(">ii").unpack_from


class WatchedLine(ResponseQueue):
    """Remembers what each answer waits for."""

    waits_for: dict[int, int]  # correlation id -> epoch

    def answer_at(
        self,
        context: Received,
        epoch: int,
        response: Any,
        failure: Callable[[], Any] | None,
        is_patient: bool = False,
    ) -> None:
        self.waits_for[context.correlation_id] = epoch
        super().answer_at(context, epoch, response, failure, is_patient)


class WatchedConnection(Connection):
    """Looks at what leaves."""

    def __init__(self, node: Node, listener: str) -> None:
        assert node.daemon is not None
        door = node.daemon.door
        super().__init__(door, listener)
        self.node = node
        self.writer = node.daemon.writer
        self.line = line = WatchedLine(self, door.hold, door.turn_end, door.metrics, door.unread)
        self.waits_for = line.waits_for = {}
        self.last_id = -1
        #: bytes of a large answer that leave later
        self.to_come = 0

    def leaves(self, data: bytes) -> None:
        """Frames on their way out; those that are sent in pieces are looked at when they begin."""
        at = self.to_come
        while at < len(data):
            size, correlation_id = _head(data, at)
            at += 4 + size
            epoch = self.waits_for.pop(correlation_id, 0)
            fail = self.node.machine.world.watch.fail
            if epoch > self.writer.flushed_epoch and not self.writer.failed:
                fail(f"{self.node.name} answers {self.client_id} before what it says is durable")
            if correlation_id <= self.last_id:
                fail(f"{self.node.name} answers {self.client_id} out of order")
            self.last_id = correlation_id
        self.to_come = at - len(data)

    def look(self) -> None:
        """Nothing that could be looked at is left lying."""
        if self._frames and not self.line.stops and not self._resume_due:
            self.node.machine.world.watch.fail(f"{self.node.name} leaves requests of {self.client_id} lying")
