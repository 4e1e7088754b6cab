"""Random histories of a group: members of all kinds, time, crashes. World checks what must hold after every step."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from coordinatord.coordination.group import events
from coordinatord.coordination.group.states import DEAD, EMPTY
from kafka_wire.api.leave_group import MemberIdentity
from kafka_wire.errors import ErrorCode
from tests.coordination.group.world import World, subscription

PROTOCOLS: list[dict[str, bytes]] = [
    {"range": subscription("t")},
    {"range": subscription("t", "u"), "sticky": b""},
    {"sticky": subscription("t"), "range": subscription("t")},
]
TIMES_MS = st.sampled_from([1, 500, 2_999, 3_000, 5_999, 6_000, 10_000, 19_999, 20_000, 61_000, 300_000])
INSTANCES = st.sampled_from([None, None, "i", "j"])
PRODUCERS = st.integers(1, 3)
PICK = st.integers(0, 30)


class GroupHistory(RuleBasedStateMachine):
    @initialize(
        delay_ms=st.sampled_from([0, 3_000]), max_size=st.sampled_from([2, 3, 100]), tick_ms=st.sampled_from([1, 100])
    )
    def begin(self, delay_ms: int, max_size: int, tick_ms: int) -> None:
        self.world = World(tick_ms=tick_ms, initial_rebalance_delay_ms=delay_ms, max_size=max_size)
        self.known: list[str] = []
        self.lost = 0

    def somebody(self, pick: int) -> str:
        """A member, an id that was handed out, or somebody who has been one."""
        ids = [*self.world.group.members, *self.world.group.pending_members, *self.known[-3:]]
        return ids[pick % len(ids)] if ids else "stray"

    @rule(
        instance_id=INSTANCES,
        version=st.sampled_from([0, 3, 4, 8, 9]),
        protocols=st.sampled_from(PROTOCOLS),
        session_ms=st.sampled_from([6_000, 20_000]),
        rebalance_ms=st.sampled_from([0, 10_000, 60_000]),
    )
    def new_member(
        self, instance_id: str | None, version: int, protocols: dict[str, bytes], session_ms: int, rebalance_ms: int
    ) -> None:
        answer = self.world.join(
            version=version,
            group_instance_id=instance_id,
            protocols=protocols,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
        )
        if getattr(answer, "error_code", 0) == ErrorCode.MEMBER_ID_REQUIRED:
            self.known.append(answer.member_id)

    @rule(pick=PICK, protocols=st.sampled_from(PROTOCOLS), as_static=st.booleans())
    def rejoin(self, pick: int, protocols: dict[str, bytes], as_static: bool) -> None:
        member_id = self.somebody(pick)
        member = self.world.group.members.get(member_id)
        instance_id = member.group_instance_id if member is not None and as_static else None
        self.world.join(member_id, protocols=protocols, group_instance_id=instance_id)

    @rule(keep_metadata=st.booleans())
    def everybody_rejoins(self, keep_metadata: bool) -> None:
        for member_id, member in list(self.world.group.members.items()):
            self.world.join(member_id, protocols=dict(member.protocols) if keep_metadata else PROTOCOLS[0])

    @rule(pick=PICK)
    def sync(self, pick: int) -> None:
        member_id = self.somebody(pick)
        self.world.sync(member_id, {m: m.encode() for m in self.world.group.members})

    @rule()
    def everybody_syncs(self) -> None:
        for member_id in list(self.world.group.members):
            self.world.sync(member_id, {m: m.encode() for m in self.world.group.members})

    @rule(pick=PICK, generation_off_by=st.sampled_from([0, 0, 0, -1, 1]))
    def heartbeat(self, pick: int, generation_off_by: int) -> None:
        self.world.heartbeat(self.somebody(pick), self.world.group.generation_id + generation_off_by)

    @rule()
    def everybody_heartbeats(self) -> None:
        for member_id in list(self.world.group.members):
            self.world.heartbeat(member_id)

    @rule(picks=st.lists(PICK, min_size=1, max_size=3), instance_id=INSTANCES)
    def leave(self, picks: list[int], instance_id: str | None) -> None:
        identities = [MemberIdentity(self.somebody(pick)) for pick in picks]
        if instance_id is not None:
            identities.append(MemberIdentity("", instance_id))
        self.world.leave(identities=tuple(identities))

    @rule(pick=PICK, as_member=st.booleans(), retention_ms=st.sampled_from([-1, -1, 1_000]))
    def commit(self, pick: int, as_member: bool, retention_ms: int) -> None:
        member_id, generation_id = (self.somebody(pick), self.world.group.generation_id) if as_member else ("", -1)
        self.world.commit(member_id, generation_id, retention_time_ms=retention_ms)

    @rule(pick=PICK, as_member=st.booleans(), producer_id=PRODUCERS, partition=st.integers(0, 1))
    def commit_in_transaction(self, pick: int, as_member: bool, producer_id: int, partition: int) -> None:
        member_id, generation_id = (self.somebody(pick), self.world.group.generation_id) if as_member else ("", -1)
        topics = [("t", {partition: pick})]
        self.world.commit_transactional(producer_id, member_id=member_id, generation_id=generation_id, topics=topics)

    @rule(producer_id=PRODUCERS, committed=st.booleans())
    def end_transaction(self, producer_id: int, committed: bool) -> None:
        self.world.end_transaction(producer_id, committed=committed)

    @rule(by_ms=TIMES_MS)
    def time_passes(self, by_ms: int) -> None:
        before = set(self.world.group.members)
        self.world.advance(by_ms)
        self.known += sorted(before - self.world.group.members.keys())

    @rule()
    def crash(self) -> None:
        self.lost += len(self.world.parked)
        self.world.restart()

    @rule(what=st.sampled_from([events.Delete(), events.Expire(0), events.Expire(10**7)]))
    def maintenance(self, what: Any) -> None:
        self.world.tell(what)

    @precondition(lambda self: self.world.group.exists)
    @rule()
    def unloaded_and_loaded_again(self) -> None:
        self.world.tell(events.Unload())
        assert not self.world.parked
        self.world.restart()

    def teardown(self) -> None:
        """With no more requests everything ends: nobody is left waiting, and no timer is left behind."""
        if not hasattr(self, "world"):
            return
        world = self.world
        world.advance(1_000_000)
        assert not world.parked
        assert not world.group.members
        assert world.group.state in (EMPTY, DEAD)
        assert not world.group.pending_members
        assert len(world.wheel) == 0
        assert not set(world.dropped) & world.answers.keys()
        assert len(world.dropped) == len(set(world.dropped))


GroupHistory.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestGroupHistory = GroupHistory.TestCase
