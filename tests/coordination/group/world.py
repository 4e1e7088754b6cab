"""A group, its timers and a virtual clock: the smallest shell that can run `step`, and that checks it.

Whatever a step must keep to is asserted after each one: parked requests are answered or dropped once and only once,
states follow the table, a generation has one leader and never falls, counts agree with what they count, and the log
replayed gives the durable state. The rebalance ledger follows each step, and its records fit together. While a group's
version does not move, what a member was answered is what it would be answered again.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from coordinatord.base.clocks.timer_wheel import TimerWheel
from coordinatord.coordination.group import events
from coordinatord.coordination.group.classic.step import heartbeat, restore, step
from coordinatord.coordination.group.replay import NO_PRODUCER_ID, replay, replay_marker
from coordinatord.coordination.group.result import Cancel, Record, Result, Schedule, TimerKey
from coordinatord.coordination.group.state import HEARTBEAT_OK, NEVER, Group, GroupSettings, Member
from coordinatord.coordination.group.states import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    NEXT_STATES,
    PREPARING_REBALANCE,
    STABLE,
    Cause,
)
from coordinatord.coordination.service.ledger import Ledger, Tell
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kafka_wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafka_wire.records.offsets import MemberMetadata

GROUP_ID = "g"
TOPIC_ID = bytes(range(16))


def _logged(group: Group) -> list[MemberMetadata]:
    """What the log has of the members of a Stable group."""
    protocol_name = group.protocol_name
    assert protocol_name is not None
    return [
        MemberMetadata(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            each.rebalance_timeout_ms,
            each.session_timeout_ms,
            each.metadata(protocol_name),
            each.assignment,
        )
        for each in group.members.values()
    ]


class World:
    """`tell` events, `advance` time, and look at `group`, `log`, `answers` (by reply_to) and `transitions`."""

    def __init__(self, *, tick_ms: int = 1, now_ms: int = 1_000_000, check: bool = True, **settings: int) -> None:
        self.settings = GroupSettings(**settings)
        self.now_ms = now_ms
        self.check = check
        self.ids = 0
        self.requests = 0
        self.log: list[Record] = []  # a marker is an EndTransaction without a value
        self.writers: dict[int, int] = {}  # index of a record in `log` -> its transaction's producer id
        self.parked: set[Any] = set()
        self.answers: dict[Any, Any] = {}
        self.dropped: list[Any] = []
        self.results: list[Result] = []
        self.wheel: TimerWheel[TimerKey] = TimerWheel(tick_ms, now_ms)
        self.group = self.new_group()
        self.leaders: dict[int, str] = {}
        self.rebalances: list[dict[str, Any]] = []  # what the ledger has recorded
        self.tell_of_rebalance: Tell = lambda _rebalance: None
        self.present: set[str] = set()  # the members before this step
        self.present_before: set[str] = set()  # and before the last rebalance
        self.ledger = self.new_ledger()
        self.expired: list[TimerKey] = []  # taken from the wheel and not yet told
        #: heartbeats that were answered well, of whom, and in which version of the group
        self.remembered: dict[str, tuple[HeartbeatRequest, Member, int]] = {}

    def new_group(self) -> Group:
        return Group(GROUP_ID, self.settings, self.new_id)

    def new_ledger(self) -> Ledger:
        def write(_group: Group, make: Callable[[], bytes]) -> None:
            self.rebalances.append(json.loads(make()))

        return Ledger(0, write, self.tell_of_rebalance)

    def new_id(self) -> str:
        self.ids += 1
        return str(self.ids)

    def reply_to(self) -> int:
        self.requests += 1
        return self.requests

    # What a shell does

    def tell(self, event: Any) -> Result:
        """One step with all its consequences; the answer to a parked request is found in `answers`."""
        before = (self.group.state, self.group.generation_id)
        if isinstance(event, events.TimedOut):
            self.wheel.cancel(event.key)
        self.present = set(self.group.members)
        result = step(self.group, event, self.now_ms)
        self.apply(event, result)
        if self.check:
            self.check_step(before, result)
        if not self.group.exists and self.group.state is DEAD:
            self.group = self.new_group()
            self.leaders = {}
            self.rebalances.clear()
        return result

    def apply(self, event: Any, result: Result) -> None:
        self.results.append(result)
        recorded = len(self.rebalances)
        self.ledger.observe(self.group, result, self.now_ms)
        begins = any(transition.new is PREPARING_REBALANCE for transition in result.transitions)
        if begins:  # an id that was handed out and leaves counts as a member
            self.present |= {change.member_id for change in result.changes if Cause.LEFT in change}
        if self.check:
            self.check_ledger(recorded, begins)
        if begins:
            self.present_before = self.present
        if result.producer is not None:
            self.writers.update(
                (number, result.producer[0]) for number in range(len(self.log), len(self.log) + len(result.records))
            )
        if isinstance(event, events.EndTransaction):
            self.log.append((event, None))
        self.log += copy.deepcopy(result.all_records(self.group.group_id))
        for timer in result.timers:
            if isinstance(timer, Cancel):
                self.wheel.cancel(timer.key)
            else:
                assert isinstance(timer, Schedule)
                self.wheel.schedule(timer.key, timer.deadline_ms)
        own = getattr(event, "reply_to", None)
        if own is not None:
            if result.reply is None:
                self.parked.add(own)
            else:
                self.answer(own, result.reply)
        for reply_to, response in result.replies:
            assert reply_to in self.parked, "an answer to a request that is not parked"
            self.parked.remove(reply_to)
            self.answer(reply_to, response)
        for reply_to in result.dropped:
            assert reply_to in self.parked, "a request is dropped that is not parked"
            self.parked.remove(reply_to)
            self.dropped.append(reply_to)

    def answer(self, reply_to: Any, response: Any) -> None:
        self.answers[reply_to] = response
        if not isinstance(response, JoinGroupResponse) or response.error_code or response.skip_assignment:
            return
        if response.leader == response.member_id:
            leader = self.leaders.setdefault(response.generation_id, response.leader)
            assert leader == response.leader, "two members of a generation take themselves for the leader"

    def advance(self, by_ms: int) -> None:
        """Let time pass, and let timers go off on the way at the time of their tick."""
        end_ms = self.now_ms + by_ms
        while (deadline_ms := self.wheel.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.expired = self.wheel.advance(self.now_ms)
            while self.expired:
                self.tell(events.TimedOut(self.expired.pop(0)))
        self.now_ms = end_ms
        self.wheel.advance(end_ms)

    def restart(self) -> Result:
        """Lose everything but the log, and load it."""
        self.parked.clear()
        self.remembered = {}
        self.group = self.replayed()
        # A generation that was not logged was never agreed: its number comes again.
        self.leaders = {}
        self.ledger = self.new_ledger()
        self.rebalances = []
        self.wheel = TimerWheel(self.wheel.tick_ms, self.now_ms)
        result = restore(self.group, self.now_ms)
        self.present = set(self.group.members)
        self.apply(None, result)
        if self.check:
            self.check_group()
        return result

    def replayed(self) -> Group:
        group = self.new_group()
        for number, (key, value) in enumerate(self.log):
            if isinstance(key, events.EndTransaction):
                replay_marker(group, key.producer_id, committed=key.committed)
            else:
                replay(group, key, value, self.writers.get(number, NO_PRODUCER_ID))
        return group

    # What must always hold

    def check_step(self, before: tuple[Any, int], result: Result) -> None:
        state, generation_id = before
        for transition in result.transitions:
            assert transition.old is state
            assert transition.new in NEXT_STATES[state]
            state = transition.new
        assert self.group.state is state, "the state changed without a transition"
        assert self.group.generation_id >= generation_id, "the generation fell"
        self.check_group()

    def check_group(self) -> None:
        group = self.group
        members = group.members
        parked = {m.join_reply_to for m in members.values()} | {m.sync_reply_to for m in members.values()}
        assert parked - {None} == self.parked, "requests are parked that no member waits for, or the other way round"
        assert group.awaiting_join_count == sum(m.join_reply_to is not None for m in members.values())
        assert not group.pending_members.keys() & members.keys()
        assert group.static_members == {
            m.group_instance_id: m.member_id for m in members.values() if m.group_instance_id is not None
        }
        counts: dict[str, int] = {}
        for member in members.values():
            for name, _ in member.protocols:
                counts[name] = counts.get(name, 0) + 1
        assert group.supported_protocols == counts
        assert (group.leader_id in members) if members else group.leader_id is None
        self._check_state()
        self._check_timers()
        self._check_remembered()
        if group.exists:
            live = (group.offsets, group.pending, group.metadata)
            replayed = self.replayed()
            restore(replayed, self.now_ms)
            again = (replayed.offsets, replayed.pending, replayed.metadata)
            assert again == live, "the log does not replay to the durable state"
            if group.state is STABLE and group.protocol_name is not None:
                assert _logged(replayed) == _logged(group), "the log has other members"

    def check_ledger(self, recorded: int, begins: bool) -> None:
        """A rebalance is under way where the state says so, and what ended begins where the last one ended."""
        is_open = self.ledger.open(self.group) is not None
        assert is_open == (self.group.state in (PREPARING_REBALANCE, COMPLETING_REBALANCE))
        after = set(self.group.members)
        for number, record in enumerate(self.rebalances[recorded:], recorded):
            before = self.present if begins and record["outcome"] != "superseded" else self.present_before
            counts = (len(before), len(after), len(after - before), len(before - after))
            assert counts == tuple(record[name] for name in ("members_before", "members_after", "added", "removed"))
            assert record["began_ms"] <= (record["joined_ms"] or record["began_ms"]) <= record["ended_ms"]
            came, went = ({each["member_id"] for each in record[what]} for what in ("rejoined", "dropped"))
            if record["outcome"] == "completed":
                assert record["generation_after"] == self.group.generation_id > record["generation_before"]
                assert record["members_after"] == len(self.group.members)
                statics = set(self.group.static_members.values())
                is_whole = "omitted" not in record
                assert self.group.members.keys() <= came | statics or not is_whole, "somebody is in who has not joined"
                assert not went & self.group.members.keys()
            last = self.rebalances[number - 1] if number else None
            if last is not None and last["outcome"] != "stopped":
                assert record["generation_before"] == last["generation_after"]
                assert record["began_ms"] >= last["ended_ms"]

    def _check_state(self) -> None:
        group = self.group
        if group.state is EMPTY or group.state is DEAD:
            assert not group.members
        if group.state is not PREPARING_REBALANCE:
            assert group.awaiting_join_count == 0
        if group.state is not COMPLETING_REBALANCE:
            assert all(m.sync_reply_to is None for m in group.members.values())
        if group.state is COMPLETING_REBALANCE:
            assert group.leader_id is not None
        if group.state is STABLE or group.state is COMPLETING_REBALANCE:
            assert group.members
            assert group.protocol_name is not None

    def _check_timers(self) -> None:
        """Somebody must wake up for each deadline that is still ahead, and for whatever a member waits for."""
        group = self.group
        for member in group.members.values():
            key = TimerKey(GROUP_ID, "session", member.member_id)
            waits = member.join_reply_to is not None or member.sync_reply_to is not None
            assert member.timer_ms <= member.session_deadline_ms or member.timer_ms == NEVER
            if member.timer_ms != NEVER:
                assert key in self.wheel or key in self.expired
            else:
                assert waits, f"nobody watches over {member.member_id}"
        for member_id in group.pending_members:
            key = TimerKey(GROUP_ID, "session", member_id)
            assert key in self.wheel or key in self.expired
        for kind, deadline_ms in (("join", group.join_deadline_ms), ("sync", group.sync_deadline_ms)):
            key = TimerKey(GROUP_ID, kind)
            assert (deadline_ms != NEVER) == (key in self.wheel) or key in self.expired
        assert (group.state is PREPARING_REBALANCE) == (group.join_deadline_ms != NEVER)
        if group.state is COMPLETING_REBALANCE:
            assert group.sync_deadline_ms != NEVER

    def _check_remembered(self) -> None:
        """A heartbeat that was answered well, and since when the version has not moved, would be so again; and it would
        move the deadline as `is_alive` does.
        """
        self.remembered = {key: each for key, each in self.remembered.items() if each[2] == self.group.version}
        for request, member, _ in self.remembered.values():
            before = member.heard_ms, member.patience_ms
            decided = heartbeat(self.group, request, self.now_ms)
            assert decided is HEARTBEAT_OK, f"{member.member_id} was remembered: {decided.reply}"
            deadline_ms = member.session_deadline_ms
            member.heard_ms, member.patience_ms = before
            member.keep_alive(self.now_ms)
            assert (deadline_ms, self.group.members[member.member_id]) == (member.session_deadline_ms, member)
            member.heard_ms, member.patience_ms = before

    # Requests, with what clients usually send

    def join(self, member_id: str = "", *, version: int = 9, client_id: str = "c", **fields: Any) -> Any:
        """The response, or the `reply_to` under which it will be found when the join is parked."""
        event = events.Join.of(join_request(member_id, **fields), version, self.reply_to(), client_id, "/127.0.0.1")
        reply = self.tell(event).reply
        return event.reply_to if reply is None else reply

    def enter(self, *, client_id: str = "c", version: int = 9, **fields: Any) -> tuple[str, Any]:
        """Join as clients do, with the id that the first request is handed: (member id, answer or reply_to)."""
        first = self.join(client_id=client_id, version=version, **fields)
        if isinstance(first, JoinGroupResponse) and first.error_code == 79:
            return first.member_id, self.join(first.member_id, client_id=client_id, version=version, **fields)
        return next(reversed(self.group.members)), first

    def sync(self, member_id: str, assignments: dict[str, bytes] | None = None, **fields: Any) -> Any:
        """The response, or the `reply_to` when it is parked. The generation is the group's unless given."""
        version = fields.pop("version", 5)
        fields.setdefault("generation_id", self.group.generation_id)
        fields.setdefault("protocol_type", self.group.protocol_type)
        fields.setdefault("protocol_name", self.group.protocol_name)
        request = SyncGroupRequest(
            GROUP_ID,
            member_id=member_id,
            assignments=[SyncGroupRequestAssignment(*pair) for pair in (assignments or {}).items()],
            **fields,
        )
        event = events.Sync.of(request, version, self.reply_to())
        reply = self.tell(event).reply
        return event.reply_to if reply is None else reply

    def heartbeat(self, member_id: str, generation_id: int | None = None, group_instance_id: str | None = None) -> int:
        """The error code."""
        if generation_id is None:
            generation_id = self.group.generation_id
        request = HeartbeatRequest(GROUP_ID, generation_id, member_id, group_instance_id)
        error_code = int(self.tell(request).reply.error_code)
        if not error_code and self.group.state is STABLE:
            self.remembered[repr(request)] = request, self.group.members[member_id], self.group.version
        return error_code

    def leave(self, *member_ids: str, identities: tuple[MemberIdentity, ...] = (), version: int = 5) -> Any:
        members = [*(MemberIdentity(member_id) for member_id in member_ids), *identities]
        request = LeaveGroupRequest(GROUP_ID, members=members)
        if version < 3:
            request = LeaveGroupRequest(GROUP_ID, member_id=members[0].member_id)
        return self.tell(events.Leave.of(request, version)).reply

    def commit(self, member_id: str = "", generation_id: int = -1, *, version: int = 9, **fields: Any) -> Any:
        """Commits offset 5 of partition 0 of topic t unless `topics` says otherwise."""
        fields.setdefault("topics", [commit_topic("t", {0: 5})])
        request = OffsetCommitRequest(GROUP_ID, generation_id, member_id, **fields)
        return self.tell(events.Commit.of(request, version)).reply

    def commit_transactional(
        self, producer_id: int, offset: int = 5, member_id: str = "", generation_id: int = -1, **fields: Any
    ) -> list[int]:
        """The error codes of a commit of `offset` for partition 0 of topic t, unless `topics` says otherwise."""
        topics = fields.pop("topics", [("t", {0: offset})])
        request = TxnOffsetCommitRequest("tx", GROUP_ID, producer_id, 0, generation_id, member_id, **fields)
        request.topics = [
            TxnOffsetCommitRequestTopic(
                name, partitions=[TxnOffsetCommitRequestPartition(*each) for each in offsets.items()]
            )
            for name, offsets in topics
        ]
        reply = self.tell(events.TxnCommit(request)).reply
        return [partition.error_code for topic in reply.topics for partition in topic.partitions]

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        self.tell(events.EndTransaction(producer_id, committed))

    def stable(self, count: int = 1, **fields: Any) -> list[str]:
        """Members that have joined, been assigned something, and are Stable; the leader first."""
        entered = [self.enter(client_id=f"c{number}", **fields) for number in range(count)]
        ids = [member_id for member_id, _ in entered]
        while self.group.state is PREPARING_REBALANCE:
            self.advance(1_000)
        assert self.group.state is COMPLETING_REBALANCE
        leader_id = self.group.leader_id
        assert leader_id is not None
        ids.sort(key=lambda member_id: member_id != leader_id)
        for member_id in reversed(ids):
            self.sync(member_id, {m: f"for {m}".encode() for m in ids} if member_id == leader_id else None)
        assert self.group.state is STABLE
        return ids

    def rejoin_all(self, ids: list[str]) -> list[Any]:
        return [self.join(member_id) for member_id in ids]


def join_request(
    member_id: str = "",
    *,
    session_timeout_ms: int = 10_000,
    rebalance_timeout_ms: int = 60_000,
    group_instance_id: str | None = None,
    protocol_type: str = "consumer",
    protocols: dict[str, bytes] | None = None,
    reason: str | None = None,
    group_id: str = GROUP_ID,
) -> JoinGroupRequest:
    """A consumer's JoinGroup."""
    offered = {"range": subscription("t")} if protocols is None else protocols
    return JoinGroupRequest(
        group_id,
        session_timeout_ms,
        rebalance_timeout_ms,
        member_id,
        group_instance_id,
        protocol_type,
        [JoinGroupRequestProtocol(name, metadata) for name, metadata in offered.items()],
        reason,
    )


def subscription(*topics: str) -> bytes:
    """A consumer's metadata, version 0."""
    out = b"\x00\x00" + len(topics).to_bytes(4, "big")
    for topic in topics:
        out += len(topic.encode()).to_bytes(2, "big") + topic.encode()
    return out + b"\xff\xff\xff\xff"


def commit_topic(name: str, offsets: dict[int, int], **fields: Any) -> OffsetCommitRequestTopic:
    return OffsetCommitRequestTopic(
        name,
        TOPIC_ID,
        [OffsetCommitRequestPartition(partition, offset, **fields) for partition, offset in offsets.items()],
    )
