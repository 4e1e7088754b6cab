"""A share group, its timers, topics and a virtual clock, and a share coordinator that does what a test says.

After each step is asserted: the log replayed, whole or compacted, gives the durable state; the target has only
partitions with state; somebody wakes up for each session.
"""

from __future__ import annotations

import copy
import random
from typing import Any

from coordinatord.base.clocks.timer_wheel import TimerWheel
from coordinatord.coordination.group import events
from coordinatord.coordination.group.classic.step import restore, step
from coordinatord.coordination.group.consumer.state import GroupEnvironment
from coordinatord.coordination.group.replay import replay
from coordinatord.coordination.group.result import Cancel, Record, Result, TimerKey
from coordinatord.coordination.group.share import events as share_events
from coordinatord.coordination.group.share.state import Answer, NewState, ShareGroup
from coordinatord.coordination.group.state import Group, GroupSettings
from kafka_wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kafka_wire.records.keys import decode_key, decode_value, encode_key, encode_value
from tests.coordination.group.consumer_world import Limits, Topics, compacted

GROUP_ID = "g"
SESSION_MS = 45_000
RETRY_MS = 30_000


class ShareLimits:
    """See coordinatord.coordination.group.consumer.state.ShareLimits."""

    max_size = 3
    initialize_retry_interval_ms = RETRY_MS

    def session_timeout_ms(self, group_id: str) -> int:
        return SESSION_MS

    def heartbeat_interval_ms(self, group_id: str) -> int:
        return 5_000

    def assignment_interval_ms(self, group_id: str) -> int:
        return 1_000


def durable(group: Group) -> tuple[Any, ...]:
    """What the log must give again."""
    share = group.share
    if share is None:
        return (group.exists,)
    return (
        group.exists,
        (share.epoch, share.metadata_hash, share.assignment_epoch, share.assignment_timestamp_ms),
        share.members,
        share.target,
        share.partitions,
        share.subscriptions,
    )


class World:
    """`tell` events, `advance` time; look at `group` and `log`."""

    def __init__(self) -> None:
        self.topics = Topics()
        self.now_ms = 1_000_000
        self.log: list[Record] = []
        self.records: list[Record] = []  # of the last step
        self.wheel: TimerWheel[TimerKey] = TimerWheel(1, self.now_ms)
        self.chance = random.Random(1)
        self.group = self.new_group()

    def new_group(self) -> Group:
        return Group(GROUP_ID, GroupSettings(), str, GroupEnvironment(self.topics, Limits(), ShareLimits()))

    @property
    def share(self) -> ShareGroup:
        assert self.group.share is not None
        return self.group.share

    def tell(self, event: Any) -> Any:
        """One step; returns the reply."""
        if isinstance(event, events.TimedOut):
            self.wheel.cancel(event.key)
        version = self.group.version
        result = step(self.group, event, self.now_ms)
        assert self.group.version > version or not result.records, "a record moves the version"
        self.records = copy.deepcopy(result.records)
        self.log += self.records
        self._set(result)
        if not self.group.exists:
            self.group = self.new_group()
        self.check()
        return result.reply

    def _set(self, result: Result) -> None:
        for timer in result.timers:
            if isinstance(timer, Cancel):
                self.wheel.cancel(timer.key)
            else:
                self.wheel.schedule(timer.key, timer.deadline_ms)

    def replayed(self, log: list[Record]) -> Group:
        """A group from a log, by the bytes of its records."""
        group = self.new_group()
        for key, value in log:
            read = decode_key(encode_key(key))
            replay(group, read, None if value is None else decode_value(read, encode_value(value)))
        return group

    def check(self) -> None:
        before = durable(self.group)
        assert durable(self.replayed(self.log)) == before
        assert durable(self.replayed(compacted(self.log, self.chance))) == before
        share = self.group.share
        if share is not None:
            assert share.sessions.keys() == share.members.keys()
            assert share.target.keys() <= share.members.keys()
            for session in share.sessions.values():
                assert session.timer_ms <= session.deadline_ms

    def advance(self, by_ms: int) -> None:
        end_ms = self.now_ms + by_ms
        while (deadline_ms := self.wheel.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            for key in self.wheel.advance(self.now_ms):
                self.tell(events.TimedOut(key))
        self.now_ms = end_ms
        self.wheel.advance(end_ms)

    def restart(self) -> None:
        """Lose everything but the log, and load it."""
        self.group = self.replayed(self.log)
        self.wheel = TimerWheel(1, self.now_ms)
        self._set(restore(self.group, self.now_ms))
        self.check()

    def heard(self, member_id: str, epoch: int, *names: str, **fields: Any) -> Answer:
        """Send a heartbeat; return the response with what the share coordinator is asked for."""
        request = ShareGroupHeartbeatRequest(GROUP_ID, member_id, epoch, **fields)
        if names:
            request.subscribed_topic_names = list(names)
        reply = self.tell(share_events.ShareHeartbeat(request, "client", "/127.0.0.1"))
        assert isinstance(reply, Answer)
        return reply

    def heartbeat(self, member_id: str, epoch: int, *names: str, **fields: Any) -> ShareGroupHeartbeatResponse:
        """Send a heartbeat, and let the share coordinator create what it is asked for."""
        reply = self.heard(member_id, epoch, *names, **fields)
        self.create(reply.create)
        response: ShareGroupHeartbeatResponse = reply.response
        return response

    def create(self, states: tuple[NewState, ...], *, succeeded: bool = True) -> None:
        """The share coordinator answers."""
        created: dict[bytes, set[int]] = {}
        for each in states:
            created.setdefault(each.topic_id, set()).add(each.partition)
        if created:
            found = {topic_id: frozenset(partitions) for topic_id, partitions in created.items()}
            self.tell(share_events.ShareStateCreated(found, succeeded))

    def settled(self, *member_ids: str) -> None:
        """Let members take over their targets."""
        self.advance(1_000)
        for member_id in member_ids:
            self.heartbeat(member_id, self.share.members[member_id].epoch)
        for member_id in member_ids:
            self.heartbeat(member_id, self.share.members[member_id].epoch)

    def assigned(self, member_id: str) -> dict[str, list[int]]:
        """What a member has, by topic."""
        found = {}
        for topic_id, partitions in self.share.members[member_id].assigned.items():
            topic = self.topics.find_id(topic_id)
            assert topic is not None
            found[topic.name] = sorted(partitions)
        return found
