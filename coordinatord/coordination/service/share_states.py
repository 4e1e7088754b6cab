"""The state of share partitions, as groups ask for it: from the results of their steps to the persister and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from coordinatord.base.observe.logger import get_logger
from coordinatord.broker.log.errors import LogFailed
from coordinatord.coordination.group.share.events import DeleteShareState, ShareStateCreated
from coordinatord.coordination.group.share.state import NewState
from coordinatord.coordination.service.groups import Coordinator, GroupActor
from coordinatord.coordination.share.persister import (
    InitializePartition,
    PartitionError,
    Persister,
    TopicIdPartition,
)
from kafka_wire.errors import ErrorCode

log = get_logger("coordinatord.coordination.service")

Errors = list[PartitionError]


class ShareStates:
    """The persister, for the groups of a coordinator. Callbacks are never called before the method returns."""

    def __init__(self, coordinator: Coordinator, persister: Persister) -> None:
        self.coordinator = coordinator
        self.persister = persister

    def initialize(self, group_id: str, states: Sequence[NewState]) -> None:
        """Create the state of the partitions that a member subscribes to. If any of it fails, the group asks for all of
        them again.
        """
        self._create(group_id, states, partial(self._initialized, group_id))

    def alter(self, group_id: str, states: Sequence[NewState], done: Callable[[Errors], None]) -> None:
        """Create the state of partitions anew, with other start offsets. If any of it fails, as in Kafka, none of them
        counts as initialised, until a member subscribes to them and its heartbeat initialises them.
        """

        def altered(errors: Errors) -> None:
            if not _failed(errors):
                self._finish(group_id, errors, succeeded=True)
            done(errors)

        self._create(group_id, states, altered)

    def deletion(self) -> DeleteShareState:
        """Return the event of the first step of a group's deletion."""
        return DeleteShareState()

    def delete(self, group_id: str, partitions: Sequence[TopicIdPartition], done: Callable[[Errors], None]) -> None:
        """Delete the state of partitions."""
        self.persister.delete(group_id, partitions, done)

    def actor(self, group_id: str) -> GroupActor | None:
        """Return the group's actor if this node still serves it, and it is a share group."""
        actor = self.coordinator.find(group_id)
        return actor if isinstance(actor, GroupActor) and actor.group.share is not None else None

    def _create(self, group_id: str, states: Sequence[NewState], done: Callable[[Errors], None]) -> None:
        self.persister.initialize(group_id, [InitializePartition(*each) for each in states], done)

    def _initialized(self, group_id: str, errors: Errors) -> None:
        failed = _failed(errors)
        if failed:
            log.warning(
                "the state of share partitions was not initialised",
                group=group_id,
                partitions=len(failed),
                error=failed[0].error.name,
            )
        self._finish(group_id, errors, succeeded=not failed)

    def _finish(self, group_id: str, errors: Errors, *, succeeded: bool) -> None:
        actor = self.actor(group_id)
        if actor is None:
            return
        partitions: dict[bytes, set[int]] = {}
        for each in errors:
            partitions.setdefault(each.topic_id, set()).add(each.partition)
        found = {topic_id: frozenset(of_topic) for topic_id, of_topic in partitions.items()}
        with suppress(LogFailed):  # the daemon stops
            actor.tell(ShareStateCreated(found, succeeded))


def _failed(errors: Errors) -> Errors:
    return [each for each in errors if each.error is not ErrorCode.NONE]
