"""Responses to parked requests: the responses of one step wait for the log together and are sent together.

A rebalance responds to all of its members in one step, each on its own connection. No other response can precede that
response on its connection: the request is parked, so later requests of the connection have not been served. Therefore
the responses of a step need no place in a connection's response queue. Their requests stay parked until the records are
durable, and one callback sends all responses.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

from coordinatord.base.observe.metrics import Metrics
from coordinatord.coordination.runtime.log import Gate
from coordinatord.coordination.runtime.versions import for_version, unavailable

Replies = list[tuple[Any, Any]]
"""Parked requests (net.request.RequestContext) and their responses. Typed as Any: with that class as the type, compiled
code (mypyc) would check the type of each connection, and tests use connections of another class.
"""


class _HeldReplies:
    """Responses that wait for the same flush epoch of the log."""

    __slots__ = ("began_s", "replies")

    def __init__(self, replies: Replies) -> None:
        self.replies = replies
        self.began_s = perf_counter()


class ParkedReplies:
    """Responses of a node's groups to parked requests."""

    def __init__(self, gate: Gate, metrics: Metrics) -> None:
        self._gate = gate
        self._metrics = metrics
        self._held: dict[int, _HeldReplies] = {}  # by flush epoch

    @property
    def held_count(self) -> int:
        """Number of responses that wait for the log. Other threads may read it."""
        return sum(len(held.replies) for held in list(self._held.values()))

    def answer_at(self, epoch: int, replies: Replies) -> None:
        """Send these responses when the log's flush epoch `epoch` is durable, or error responses if the log fails
        first. The caller must not use the list afterwards.
        """
        if epoch <= self._gate.flushed_epoch:
            _answer(replies)
            return
        held = self._held.get(epoch)
        if held is not None:
            held.replies += replies
            return
        self._held[epoch] = _HeldReplies(replies)
        self._gate.hold(epoch, lambda: self._durable(epoch), lambda: self._failed(epoch))

    def _durable(self, epoch: int) -> None:
        held = self._held.pop(epoch)
        self._metrics.event_purgatory_seconds.observe(perf_counter() - held.began_s, len(held.replies))
        _answer(held.replies)

    def _failed(self, epoch: int) -> None:
        for context, _ in self._held.pop(epoch).replies:
            context.connection.line.answer(context, unavailable(context.codec, context.where))


def _answer(replies: Replies) -> None:
    now_s = perf_counter()
    for context, response in replies:
        try:
            told = for_version(response, context.api_version)
        except Exception:  # the other responses must still be sent
            context.connection.failed(context.codec)
        else:
            context.connection.line.answer_parked(context, told, now_s)
