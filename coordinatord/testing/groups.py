"""A group and a transactional id in a test: properties, commands and waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Protocol, Self

from coordinatord.testing.links import Link
from coordinatord.testing.problems import KafkaError
from coordinatord.testing.views import GroupView, MemberView, Rebalance, TopicPartition
from coordinatord.testing.waits import Looking, Waited, refuse_plain_with

TIMEOUT_S = 30.0
"""Default timeout of waits, in seconds."""


class Offsets(Protocol):
    """Committed offsets and lag of groups, by (topic, partition)."""

    def committed(self, group_id: str) -> dict[TopicPartition, int]: ...
    def lag(self, group_id: str) -> dict[TopicPartition, int]: ...


class Group:
    """The result of `kafka.group(group_id)`. Members are named by member id, client id or group.instance.id."""

    def __init__(self, link: Link, group_id: str, offsets: Offsets) -> None:
        self.group_id = group_id
        self._link = link
        self._offsets = offsets

    def __repr__(self) -> str:
        return f"<group {self.group_id}>"

    # Reading

    @property
    def view(self) -> GroupView:
        """The present state of the group; `state` is Dead if the group does not exist."""
        return GroupView.of(self._link.call("group", group=self.group_id))

    @property
    def state(self) -> str:
        """The state of the group, by Kafka's name."""
        return self.view.state

    @property
    def members(self) -> tuple[MemberView, ...]:
        """The members of the group, the oldest first."""
        return self.view.members

    @property
    def assignment(self) -> dict[str, frozenset[TopicPartition]]:
        """Partitions by client id; by member id where several members have the same client id."""
        return self.view.assignment

    @property
    def node(self) -> int:
        """The id of the node that coordinates the group."""
        return self.view.node

    @property
    def rebalances(self) -> tuple[Rebalance, ...]:
        """The last hundred rebalances, the latest last; in a group of the consumer protocol, its group epochs."""
        self._link.call("groups")  # another broker has no ledger
        return self.view.rebalances

    # Waiting

    def until(
        self, holds: Callable[[GroupView], object], timeout: float = TIMEOUT_S, what: str = "what `until` asks for"
    ) -> Waited[GroupView]:
        """Wait until `holds(view)` is true; the result is that view. `timeout` is in seconds. Raises NotInTime, with
        `what` in its message.
        """
        return self._looking(f"group {self.group_id}: {what}", holds, timeout).waited()

    def until_stable(self, members: int | None = None, timeout: float = TIMEOUT_S) -> Waited[GroupView]:
        """Wait until the group is Stable with `members` members, or with any number of them: a group without members is
        Empty. Raises NotInTime, and KafkaError at once if `members` is less than one.
        """
        if members is not None and members < 1:
            raise KafkaError(
                f"A Stable group has members: until_stable(members={members}) never holds. until_empty() waits until "
                "the group has none."
            )

        def holds(view: GroupView) -> bool:
            return view.is_stable and (members is None or len(view.members) == members)

        wanted = "" if members is None else f" with {members} member{'s' if members != 1 else ''}"
        return self.until(holds, timeout, f"Stable{wanted}")

    def until_empty(self, timeout: float = TIMEOUT_S) -> Waited[GroupView]:
        """Wait until the group has no members. Raises NotInTime."""
        return self.until(lambda view: not view.members, timeout, "no members")

    def until_assigned(
        self, member: str | None = None, partitions: int | None = None, timeout: float = TIMEOUT_S
    ) -> Waited[GroupView]:
        """Wait until the group is Stable and `member`, or all members together, have `partitions` partitions; without a
        number, at least one. Raises NotInTime.
        """

        def holds(view: GroupView) -> bool:
            if not view.is_stable:
                return False
            found = list(view.members) if member is None else [each for each in view.members if each.is_called(member)]
            count = sum(len(each.partitions) for each in found)
            return count > 0 if partitions is None else bool(found) and count == partitions

        who = "its members" if member is None else member
        number = "partitions" if partitions is None else f"{partitions} partition{'s' if partitions != 1 else ''}"
        return self.until(holds, timeout, f"{who} with {number}")

    def until_committed(
        self, offsets: Mapping[TopicPartition, int], timeout: float = TIMEOUT_S
    ) -> Waited[dict[TopicPartition, int]]:
        """Wait until the group has committed at least these offsets.

        Args:
            offsets: the offset that the group reads next, by (topic, partition).
            timeout: seconds.

        Returns:
            All committed offsets of the group.

        Raises:
            NotInTime: with the offsets that are committed.
        """

        def look() -> tuple[int, dict[TopicPartition, int]]:
            version = self._link.call("changed", timeout_ms=0)["version"]
            return version, self._offsets.committed(self.group_id)

        def holds(found: dict[TopicPartition, int]) -> bool:
            return all(found.get(partition, -1) >= offset for partition, offset in offsets.items())

        what = f"group {self.group_id}: commits of {dict(offsets)}"
        return Looking(self._link, what, look, holds, timeout).waited()

    def until_caught_up(self, timeout: float = TIMEOUT_S) -> Waited[dict[TopicPartition, int]]:
        """Wait until the group has committed all records of the partitions that it reads, and reads at least one.

        Args:
            timeout: seconds.

        Returns:
            The lag, which is 0, by (topic, partition).

        Raises:
            NotInTime: with the lag that is left.
        """

        def look() -> tuple[int, dict[TopicPartition, int]]:
            version = self._link.call("changed", timeout_ms=0)["version"]
            return version, self._offsets.lag(self.group_id)

        what = f"group {self.group_id}: no lag"
        return Looking(self._link, what, look, lambda lag: bool(lag) and not any(lag.values()), timeout).waited()

    def _looking(self, what: str, holds: Callable[[GroupView], object], timeout: float) -> Looking[GroupView]:
        def look() -> tuple[int, GroupView]:
            view = self.view
            return view.version, view

        return Looking(self._link, what, look, lambda view: bool(holds(view)), timeout)

    # Verbs

    def rebalance(self, reason: str = "a test", timeout: float = TIMEOUT_S) -> Rebalancing:
        """Start a rebalance of the group. The result can be used as a block, `with` or `async with`: at its end the
        block waits until the group is Stable, up to `timeout` seconds.
        """
        before = self._link.call("rebalance", group=self.group_id, reason=reason)["generation_before"]

        def holds(view: GroupView) -> bool:
            return view.is_stable and view.generation > before

        return Rebalancing(self._looking(f"group {self.group_id}: Stable after {reason!r}", holds, timeout))

    def expire(self, member: str) -> str:
        """End a member's session at once, as if its heartbeats had stopped. Returns its member id. A client that is
        alive joins again after its next error response.
        """
        expired: str = self._link.call("expire", group=self.group_id, member=member)["member_id"]
        return expired

    def kick(self, member: str) -> str:
        """Remove a member, like an operator. Returns its member id."""
        removed: str = self._link.call("kick", group=self.group_id, member=member)["member_id"]
        return removed

    def move(self) -> None:
        """Move the coordinator: requests get NOT_COORDINATOR until a client has found the coordinator again. Groups of
        the same partition of __consumer_offsets move with it, as in Kafka.

        A consumer of aiokafka 0.14 that commits automatically and stops before it has found the coordinator again hangs
        in `stop()`: during its close it does not search for a coordinator, and repeats its last commit forever
        (GroupCoordinator.ensure_coordinator_known, commit_offsets). `await consumer.commit()` before the stop finds the
        coordinator; with `enable_auto_commit=False` there is no last commit.
        """
        self._link.call("move", group=self.group_id)

    def loading(self) -> Loading:
        """Return a block in which requests get COORDINATOR_LOAD_IN_PROGRESS."""
        return Loading(self._link, self.group_id)

    def no_rebalance(self) -> NoRebalance:
        """Return a block that raises AssertionError if the group has rebalanced in it."""
        return NoRebalance(self)


class Rebalancing:
    """A rebalance that has begun: the result of Group.rebalance."""

    def __init__(self, looking: Looking[GroupView]) -> None:
        self._looking = looking

    def until_stable(self) -> Waited[GroupView]:
        """Wait until the rebalance has ended. Raises NotInTime."""
        return self._looking.waited()

    def __enter__(self) -> Self:
        refuse_plain_with("rebalance()")
        return self

    def __exit__(self, kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        if kind is None:
            self._looking.now()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        if kind is None:
            await self._looking.later()


class Loading:
    """A block in which the group's coordinator is loading: the result of Group.loading."""

    def __init__(self, link: Link, group_id: str) -> None:
        self._link = link
        self._group_id = group_id

    def __enter__(self) -> Self:
        self._link.call("begin_loading", group=self._group_id)
        return self

    def __exit__(self, _kind: object, _error: object, _trace: object) -> None:
        self._link.call("end_loading", group=self._group_id)

    async def __aenter__(self) -> Self:
        await self._link.call_later("begin_loading", group=self._group_id)
        return self

    async def __aexit__(self, _kind: object, _error: object, _trace: object) -> None:
        await self._link.call_later("end_loading", group=self._group_id)


class NoRebalance:
    """A block in which the group must not rebalance: the result of Group.no_rebalance."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._before: GroupView | None = None

    def __enter__(self) -> Self:
        self._before = self._group.view
        return self

    def __exit__(self, kind: type[BaseException] | None, _error: object, _trace: object) -> None:
        before, after = self._before, self._group.view
        assert before is not None, "the block was entered"
        if kind is not None:
            return
        if after.generation != before.generation or after.state != before.state:
            known = {id(each.record): each for each in after.rebalances[len(before.rebalances) :]}
            told = "; ".join(map(str, known.values())) or f"it was {before}"
            raise AssertionError(f"Group {self._group.group_id} has rebalanced: {told}. Now {after}.")

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        self.__exit__(kind, error, trace)


class Transaction:
    """The result of `kafka.transaction(transactional_id)`."""

    def __init__(self, link: Link, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self._link = link

    @property
    def state(self) -> str:
        """The state of the transactional id, by Kafka's name."""
        told: str = self._link.call("transaction", transactional_id=self.transactional_id)["state"]
        return told

    def expire(self) -> None:
        """Abort the open transaction, as if transaction.timeout.ms had passed: its producer is fenced."""
        self._link.call("expire_transaction", transactional_id=self.transactional_id)
