"""Answers to requests that were parked: those of one step leave together, and wait for the log together.

A rebalance answers all of its members in one step, each on a connection of its own on which nothing comes before that
answer: the request is parked, so what is behind it has not been looked at. So the answers of a step need no place in
any connection's line. Their requests stay parked until the log has what they tell of, and one callback lets them go.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from coordinatord.observe.metrics import Metrics
from coordinatord.runtime.log import Gate
from coordinatord.runtime.refusals import unavailable
from coordinatord.runtime.versions import for_version

if TYPE_CHECKING:
    from coordinatord.net.request import RequestContext

Replies = list[tuple["RequestContext", Any]]
"""Parked requests and their responses."""


class _Held:
    """Answers that wait for the same epoch of the log."""

    __slots__ = ("began_s", "replies")

    def __init__(self, replies: Replies) -> None:
        self.replies = replies
        self.began_s = perf_counter()


class ParkedReplies:
    """The answers of a node's groups to requests that were parked."""

    def __init__(self, gate: Gate, metrics: Metrics) -> None:
        self._gate = gate
        self._metrics = metrics
        self._held: dict[int, _Held] = {}  # by epoch

    @property
    def held_count(self) -> int:
        """Answers that wait for the log. May be asked by other threads."""
        return sum(len(held.replies) for held in list(self._held.values()))

    def answer_at(self, epoch: int, replies: Replies) -> None:
        """Give all these answers when the log's `epoch` is durable, or say to all that it has failed. The list is ours
        from now on.
        """
        if epoch <= self._gate.flushed_epoch:
            _answer(replies)
            return
        held = self._held.get(epoch)
        if held is not None:
            held.replies += replies
            return
        self._held[epoch] = _Held(replies)
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
        connection = context.connection
        try:
            connection.line.answer_parked(context, for_version(response, context.api_version), now_s)
        except Exception:  # the others have done nothing
            connection.door.router.failed(connection, context.codec)
