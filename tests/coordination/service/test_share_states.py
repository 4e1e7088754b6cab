"""The ends of calls of the persister, for share groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from coordinatord.broker.log.errors import LogFailed
from coordinatord.coordination.group.share.events import ShareStateCreated
from coordinatord.coordination.group.share.state import NewState
from coordinatord.coordination.service.share_states import ShareStates
from coordinatord.coordination.share.persister import InitializePartition, PartitionError
from kafka_wire.errors import ErrorCode

TOPIC = bytes(15) + b"\7"


class Persister:
    """Each initialisation fails at once, as after the log has failed."""

    def initialize(self, _group_id: str, asked: Sequence[InitializePartition], done: Callable[[Any], object]) -> None:
        done([PartitionError(each[0], each[1], ErrorCode.COORDINATOR_NOT_AVAILABLE) for each in asked])


class StoppedGroup:
    """An actor whose records cannot be appended any more."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def tell(self, event: Any) -> None:
        self.told.append(event)
        raise LogFailed("the log has stopped")


def test_an_initialisation_that_ends_after_the_log_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon stops; until then this is no error of the event loop."""
    group = StoppedGroup()
    monkeypatch.setattr(ShareStates, "actor", lambda *_: group)
    states = ShareStates(None, Persister())  # type: ignore[arg-type]  # of which only these methods are called
    states.initialize("g", [NewState(TOPIC, 0, 0), NewState(TOPIC, 1, 0)])
    assert group.told == [ShareStateCreated({TOPIC: frozenset({0, 1})}, False)]
