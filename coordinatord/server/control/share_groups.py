"""The records that share groups have in delivery, as JSON, and verbs for them: expire_lock, release, kick."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from coordinatord.coordination.group.share.events import ShareHeartbeat
from coordinatord.coordination.group.share.state import ShareGroup
from coordinatord.coordination.service.groups import GroupActor
from coordinatord.coordination.share.leader import ShareKey, SharePartitionActor
from coordinatord.coordination.share.partition import events
from coordinatord.coordination.share.partition.held import Held, held
from coordinatord.coordination.share.partition.result import Result
from coordinatord.coordination.share.partition.state import RecordState
from coordinatord.coordination.share.persister import ACKNOWLEDGED, ARCHIVED, StateBatch
from coordinatord.server.control.node import Node, Share
from coordinatord.server.control.problems import not_now, not_there
from kafka_wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest

LEAVING = -1


class Counts:
    """An Observer of share partitions: counts the records that groups have acknowledged and archived since the start
    of the server, when that is persisted, and calls `tell` after each step.
    """

    def __init__(self, tell: Callable[[], object]) -> None:
        self.by_key: dict[ShareKey, tuple[int, int]] = {}
        self._tell = tell
        self._writes: dict[tuple[SharePartitionActor, int], tuple[int, int]] = {}

    def before(self, actor: SharePartitionActor, event: events.Event) -> None:
        """Do nothing."""

    def after(self, actor: SharePartitionActor, event: events.Event, result: Result) -> None:
        """Count what a write that has ended has persisted."""
        if result.write is not None:
            self._writes[actor, result.write.write_id] = _ended(result.write.batches)
        if isinstance(event, events.Written):
            written = self._writes.pop((actor, event.write_id), (0, 0))
            if event.committed:
                acknowledged, archived = self.by_key.get(actor.key, (0, 0))
                self.by_key[actor.key] = acknowledged + written[0], archived + written[1]
        self._tell()


def _ended(batches: Any) -> tuple[int, int]:
    """Return the number of records that are acknowledged, and of those that are archived. A record whose dead letter is
    being written is neither.
    """
    acknowledged = sum(_count(each) for each in batches if each.delivery_state == ACKNOWLEDGED)
    return acknowledged, sum(_count(each) for each in batches if each.delivery_state == ARCHIVED)


def _count(batch: StateBatch) -> int:
    return batch.last_offset - batch.first_offset + 1


def show(node: Node, counts: Counts, group_id: str) -> dict[str, Any]:
    """Return the share partitions of a group as JSON, and its last redeliveries, oldest first."""
    share = _served(node)
    actor = node.coordinator.actors.get(group_id)
    group = None if actor is None else actor.group.share
    names = {} if group is None else {each.member_id: each.client_id for each in group.members.values()}
    keys = {each.key for each in share.delivery.partitions.of_group(group_id)} | initialized(group_id, group)
    shown = [_partition(node, share, counts, key, names) for key in keys]
    return {
        "partitions": sorted((each for each in shown if each is not None), key=_place),
        "redeliveries": [] if share.redeliveries is None else share.redeliveries.recent(group_id),
    }


def _place(shown: dict[str, Any]) -> tuple[str, int]:
    return shown["topic"], shown["partition"]


def initialized(group_id: str, group: ShareGroup | None) -> set[ShareKey]:
    """Return the share partitions of a group that have a stored state."""
    topics = {} if group is None or group.partitions is None else group.partitions.initialized
    return {(group_id, topic_id, index) for topic_id, found in topics.items() for index in found.partitions}


def _partition(node: Node, share: Share, counts: Counts, key: ShareKey, names: dict[str, str]) -> dict[str, Any] | None:
    topic = node.topics.topic_name(key[1])
    if topic is None:
        return None
    acknowledged, archived = counts.by_key.get(key, (0, 0))
    found = share.delivery.partitions.find(key)
    now_ms = node.now_ms()
    told: dict[str, Any] = {"topic": topic, "partition": key[2], "acknowledged": acknowledged, "archived": archived}
    if found is None or not found.is_active:
        return told | {"start_offset": share.start_offset(key), "available": 0, "acquired": []}
    available = sum(
        last - first + 1
        for each in found.share.batches
        for first, last, record in each.states()
        if record.state is RecordState.AVAILABLE
    )
    acquired = [
        {
            "first_offset": each.first,
            "last_offset": each.last,
            "member_id": each.member_id,
            "client_id": names.get(each.member_id, ""),
            "delivery_count": each.delivery_count,
            "left_ms": max(0, each.deadline_ms - now_ms),
        }
        for each in held(found.share)
    ]
    return told | {"start_offset": found.share.start_offset, "available": available, "acquired": acquired}


# Verbs


def expire_lock(node: Node, group_id: str, offset: int | None = None, member_id: str | None = None) -> int:
    """End the locks of a group's records now, as if their time had passed: of all, of those at an offset, or of those
    of a member. Return the number of records.
    """
    now_ms, count = node.now_ms(), 0
    for actor, runs in _held(node, group_id, member_id, offset):
        for each in runs:
            first, last = (each.first, each.last) if offset is None else (offset, offset)
            for batch in actor.share.batches:
                if batch.last < first or batch.first > last:
                    continue
                if not batch.is_within(first, last):
                    batch.split()
                records = batch.states() if batch.whole is not None else batch.cut_out(first, last)
                for _, _, record in records:
                    record.deadline_ms = now_ms
            count += last - first + 1
        actor.share.deadline_ms = now_ms
        actor.tell(events.LockTimeout())
    if not count:
        raise not_now(f"Group {group_id} has no such acquired record.")
    return count


def release(node: Node, group_id: str, member_id: str) -> int:
    """Release what a member has acquired, as if it had sent RELEASE for it. Return the number of records."""
    count = 0
    for actor, runs in _held(node, group_id, member_id):
        batches = tuple(
            events.AcknowledgementBatch(each.first, each.last, (events.AcknowledgeType.RELEASE,)) for each in runs
        )
        actor.tell(events.Acknowledge(member_id, batches))
        count += sum(each.last - each.first + 1 for each in runs)
    return count


def kick(node: Node, actor: GroupActor, member_id: str) -> None:
    """Remove a member, and release what it has acquired: it leaves, and its share session ends."""
    request = ShareGroupHeartbeatRequest(actor.group.group_id, member_id, LEAVING)
    actor.tell(ShareHeartbeat(request, "", ""))
    _served(node).delivery.members.end((actor.group.group_id, member_id))


def _held(
    node: Node, group_id: str, member_id: str | None, offset: int | None = None
) -> Iterator[tuple[SharePartitionActor, list[Held]]]:
    for actor in _served(node).delivery.partitions.of_group(group_id):
        runs = [
            each
            for each in held(actor.share)
            if member_id in (None, each.member_id) and (offset is None or each.first <= offset <= each.last)
        ]
        if runs:
            yield actor, runs


def _served(node: Node) -> Share:
    if node.share is None:
        raise not_there("This server serves no share groups: group.coordinator.rebalance.protocols lacks `share`.")
    return node.share
