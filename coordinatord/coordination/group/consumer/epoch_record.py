"""The account of a group epoch: its cause, the partitions that each member had to
revoke and was assigned, and the longest wait.

A group whose epoch has risen has an open account (`ConsumerGroup.account`) until each member has its target assignment
of that epoch, until no members are left, or until the next epoch supersedes it. Then the account goes to the rebalance
ledger in `Result.ended`. The account is volatile: Kafka's records have no field for it. A coordinator that loads a
group in the middle of an epoch opens an account of the rest (`resume`), without the cause.

Steps call the functions here where they change members; a heartbeat without changes does not call them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from coordinatord.coordination.group.consumer.state import (
    LEAVING_FOR_NOW,
    ConsumerGroup,
    ConsumerMember,
    ConsumerState,
    MemberState,
)
from coordinatord.coordination.group.consumer.state import Target as Target
from coordinatord.coordination.group.consumer.topics import Topics
from coordinatord.coordination.group.result import Dropped, Joined, Result, Trigger
from coordinatord.coordination.group.states import Cause, Outcome, Why

REVOKE = "revoke"
"""Phase: other members waited until this member had revoked partitions."""
HEARTBEAT = "heartbeat"
"""Phase: the member's next request was awaited; nothing else prevented its transition."""

NAMED = 10
"""Maximum number of unreconciled members without changed targets that the account of a superseded epoch names."""

NOTHING: Target = {}


class HeldUp:
    """The longest wait: the member, the phase (REVOKE, HEARTBEAT), and its duration in milliseconds."""

    __slots__ = ("is_away", "member_id", "phase", "waited_ms")

    def __init__(self, phase: str, member_id: str, waited_ms: int, *, is_away: bool = False) -> None:
        self.phase = phase
        self.member_id = member_id
        self.waited_ms = waited_ms
        self.is_away = is_away  # a static member that has left temporarily


class Account:
    """The account of one epoch. Times are milliseconds since the Unix epoch; members are identified by id."""

    __slots__ = (
        "assigned_ms", "assignor", "began_ms", "changed", "departed", "dropped", "ended_ms", "epoch", "held_up",
        "is_initial", "is_resumed", "joined", "members", "members_before", "names", "outcome", "overtaken_by",
        "reached", "revoked", "size", "told", "trigger", "waits", "went",
    )  # fmt: skip

    # set at the end
    outcome: str
    ended_ms: int
    members: Mapping[str, ConsumerMember]
    size: int
    held_up: HeldUp | None
    overtaken_by: Trigger | None

    def __init__(
        self, epoch: int, began_ms: int, trigger: Trigger, members_before: int, *, is_resumed: bool = False
    ) -> None:
        self.epoch = epoch
        self.began_ms = began_ms
        self.trigger = trigger
        self.members_before = members_before
        self.is_initial = False
        self.is_resumed = is_resumed
        self.joined: list[Joined] = []
        self.dropped: list[Dropped] = []
        self.departed: dict[str, Target] = {}  # the targets of removed members
        self.went: dict[str, ConsumerMember] = {}  # the removed members
        self.assigned_ms: int | None = None  # when the target assignment was computed
        self.assignor: str | None = None
        self.changed: dict[str, tuple[Target, Target]] = {}  # targets before and after, where they differ
        self.names: dict[bytes, str] = {}  # names of the topics in these
        self.waits: dict[str, None] = {}  # members that have not reached the epoch
        self.told: dict[str, int] = {}  # when a member was requested to revoke partitions
        self.revoked: dict[str, int] = {}  # when the member had revoked them
        self.reached: dict[str, int] = {}  # when the member had its target assignment; in order of time
        self.overtaken_by = None

    def gave_up(self, member_id: str) -> dict[bytes, frozenset[int]]:
        """Return the partitions that a member had to revoke: in its target before, and not in this epoch's."""
        before, after = self.changed.get(member_id, (NOTHING, NOTHING))
        return _less(self.departed.get(member_id, before), after)

    def got(self, member_id: str) -> dict[bytes, frozenset[int]]:
        """Return the partitions that a member was to get."""
        before, after = self.changed.get(member_id, (NOTHING, NOTHING))
        return _less(after, before)

    def take(self, before: ConsumerMember, after: ConsumerMember, assignment_epoch: int, now_ms: int) -> None:
        """Record a change of a member's current assignment."""
        member_id = after.member_id
        if after.state is MemberState.UNREVOKED_PARTITIONS:
            self.told.setdefault(member_id, now_ms)
            self.revoked.pop(member_id, None)
        elif member_id not in self.revoked and (member_id in self.told or _sheds(before, after)):
            self.told.setdefault(member_id, now_ms)
            self.revoked[member_id] = now_ms
        if after.is_reconciled_to(assignment_epoch):
            self.waits.pop(member_id, None)
            self.reached.setdefault(member_id, now_ms)
        elif self.assigned_ms is not None:
            self.waits[member_id] = None
            self.reached.pop(member_id, None)

    def rename(self, old_id: str, new_id: str) -> None:
        """Record that a static member has rejoined under another id: it has to reach the epoch anew."""
        self.reached.pop(old_id, None)
        if self.assigned_ms is not None:
            self.waits.pop(old_id, None)
            self.waits[new_id] = None
        for times in (self.told, self.revoked):
            if old_id in times:
                times[new_id] = times.pop(old_id)
        if old_id in self.changed:
            self.changed[new_id] = self.changed.pop(old_id)

    def end(self, outcome: str, members: Mapping[str, ConsumerMember], size: int, now_ms: int) -> None:
        """Close the account of this epoch, which has `size` members. If the epoch was superseded, `members` are only
        those with changed targets, and some of those still awaited: otherwise a group in which many members join one
        after the other would copy and record all members for each join.
        """
        self.outcome, self.ended_ms = outcome, now_ms
        self.members, self.size = members, size
        self.held_up = self._held_up()

    def _held_up(self) -> HeldUp | None:
        """Return the longest wait until the end: the last member waits for the members that revoke what it is to get,
        and the group waits for its heartbeat. For a superseded epoch: the member awaited at that time.
        """
        assigned_ms = self.assigned_ms
        if assigned_ms is None:
            return None
        if self.outcome != Outcome.COMPLETED:
            return self._awaited(assigned_ms)
        last = next(reversed(self.reached), None)
        if last is None:
            return None
        free_ms, giver = assigned_ms, last
        wanted = self.got(last)
        for member_id, revoked_ms in self.revoked.items():
            if revoked_ms > free_ms and (member_id == last or _overlap(self.gave_up(member_id), wanted)):
                free_ms, giver = revoked_ms, member_id
        waited_ms = self.reached[last] - free_ms
        if free_ms - assigned_ms >= waited_ms:
            return HeldUp(REVOKE, giver, free_ms - assigned_ms) if free_ms > assigned_ms else None
        return HeldUp(HEARTBEAT, last, waited_ms)

    def _awaited(self, assigned_ms: int) -> HeldUp | None:
        waited_ms = self.ended_ms - assigned_ms
        for member_id in self.told:
            if member_id not in self.revoked:
                return HeldUp(REVOKE, member_id, waited_ms)
        member_id = next(iter(self.waits), "")
        if not member_id:
            return None
        member = self.members.get(member_id)
        return HeldUp(HEARTBEAT, member_id, waited_ms, is_away=member is not None and member.epoch == LEAVING_FOR_NOW)


def open_account(consumer: ConsumerGroup) -> Account | None:
    """Return the account of the epoch that the group is reconciling to; None if the group has reached its epoch."""
    account: Account | None = consumer.account
    return account


def begin(consumer: ConsumerGroup, trigger: Trigger, now_ms: int, result: Result) -> None:
    """Open the account of a new epoch. The step has already changed the members."""
    came = consumer.came | _newcomers(result)
    new = {each for each, joined in came.items() if joined.is_new and each in consumer.members}
    overtaken = open_account(consumer)
    if overtaken is not None:
        overtaken.overtaken_by = trigger
        size = len(consumer.members) - len(new) + len(consumer.departing)
        overtaken.end(Outcome.SUPERSEDED, _named(overtaken, consumer), size, now_ms)
        result.ended = (*result.ended, overtaken)
    consumer.came = {}
    dropped = [each for each in result.changes if type(each) is Dropped and each.cause != Cause.REPLACED]
    account = Account(consumer.epoch, now_ms, trigger, len(consumer.members) - len(new) + len(dropped))
    account.joined = [joined for member_id, joined in came.items() if member_id in consumer.members]
    account.dropped = dropped
    account.departed = {member_id: target for member_id, (_, target) in consumer.departing.items()}
    account.went = {member_id: member for member_id, (member, _) in consumer.departing.items()}
    consumer.departing = {}
    account.is_initial = account.members_before == 0
    account.names = {} if overtaken is None else overtaken.names
    for topic in consumer.seen_before.values():
        account.names.setdefault(topic.topic_id, topic.name)  # the topic may be deleted now
    consumer.account = account
    result.trigger = trigger


def departing(consumer: ConsumerGroup, members: Iterable[ConsumerMember]) -> None:
    """Record the members that the step is about to remove, which will raise the epoch."""
    consumer.departing = {each.member_id: (each, consumer.target.get(each.member_id, NOTHING)) for each in members}


def assigning(consumer: ConsumerGroup, wanted: Mapping[str, Target], name: str, topics: Topics, now_ms: int) -> None:
    """Record the target assignment of the epoch, which has been computed and is about to replace the previous one."""
    account = open_account(consumer)
    if account is None:
        return
    account.assigned_ms, account.assignor = now_ms, name
    account.waits = dict.fromkeys(consumer.members)
    target = consumer.target
    account.changed = {
        member_id: (target.get(member_id, NOTHING), after)
        for member_id, after in wanted.items()
        if target.get(member_id, NOTHING) != after
    }
    _name_topics(account, topics)


def moved(consumer: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, now_ms: int) -> None:
    """Record a change of a member's current assignment."""
    account = open_account(consumer)
    if account is not None:
        account.take(before, after, consumer.assignment_epoch, now_ms)


def renamed(consumer: ConsumerGroup, old_id: str, new_id: str) -> None:
    """Record that a static member has rejoined under another id."""
    account = open_account(consumer)
    if account is not None:
        account.rename(old_id, new_id)


def follow(
    before: ConsumerGroup | None,
    after: ConsumerGroup | None,
    state: ConsumerState | None,
    now_ms: int,
    result: Result,
) -> None:
    """Close the account if the epoch has ended; called at the end of a step that has changed the
    group. `state` is that of `after`. `before` is another object than `after` if the group has been
    deleted or converted, or is no longer served here.
    """
    if before is not None and before is not after:
        account = open_account(before)
        if account is not None:
            _close(before, account, Outcome.STOPPED, now_ms, result)
    if after is None:
        return
    account = open_account(after)
    if result.changes and (account is None or account.trigger is not result.trigger):  # else in the new account
        after.came |= _newcomers(result)
    if account is not None:
        if state is ConsumerState.STABLE:
            _close(after, account, Outcome.COMPLETED, now_ms, result)
        elif state is ConsumerState.EMPTY:
            _close(after, account, Outcome.EMPTY, now_ms, result)


def abandon(consumer: ConsumerGroup, trigger: Trigger | None, now_ms: int, result: Result) -> None:
    """Close the account because the group is about to become a classic one. The rebalance of the classic group, if
    there is a trigger, supersedes the epoch.
    """
    account = open_account(consumer)
    if account is None:
        return
    account.overtaken_by = trigger
    _close(consumer, account, Outcome.STOPPED if trigger is None else Outcome.SUPERSEDED, now_ms, result)


def resume(consumer: ConsumerGroup, topics: Topics, now_ms: int) -> None:
    """Open an account after a load, if the group has not reached its epoch: of the partitions that members still have
    to revoke and get.
    """
    has_target = consumer.assignment_epoch >= consumer.epoch
    waits = [each for each in consumer.members if each in consumer.unreconciled]
    if not consumer.members or (has_target and all(consumer.members[each].epoch == LEAVING_FOR_NOW for each in waits)):
        return
    began_ms = consumer.assignment_timestamp_ms if has_target and consumer.assignment_timestamp_ms else now_ms
    text = f"the coordinator has loaded the group, which had not reached epoch {consumer.epoch}"
    account = Account(consumer.epoch, began_ms, Trigger(Why.LOADED, text), len(consumer.members), is_resumed=True)
    consumer.account = account
    if not has_target:
        return
    account.assigned_ms = began_ms
    account.waits = dict.fromkeys(waits)
    for member_id, member in consumer.members.items():
        owned = _owned(member)
        target = consumer.target.get(member_id, NOTHING)
        if owned != {topic_id: frozenset(each) for topic_id, each in target.items() if each}:
            account.changed[member_id] = (owned, target)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            account.told[member_id] = began_ms
    _name_topics(account, topics)


def _close(consumer: ConsumerGroup, account: Account, outcome: str, now_ms: int, result: Result) -> None:
    account.end(outcome, dict(consumer.members), len(consumer.members), now_ms)
    consumer.account = None
    result.ended = (*result.ended, account)


def _named(overtaken: Account, consumer: ConsumerGroup) -> dict[str, ConsumerMember]:
    """Return the members that the record of a superseded epoch names; the step may have removed some of them."""
    if overtaken.assigned_ms is None:
        return {}
    found = {}
    for member_id in dict.fromkeys((*overtaken.changed, *overtaken.told, *islice(overtaken.waits, NAMED))):
        member = consumer.members.get(member_id)
        if member is None and member_id in consumer.departing:
            member, _target = consumer.departing[member_id]
        if member is not None:
            found[member_id] = member
    return found


def _newcomers(result: Result) -> dict[str, Joined]:
    """Return the members that are new in the group: without those that send a full heartbeat or rejoin. A static member
    that replaces its earlier instance has `is_new` false.
    """
    found: dict[str, Joined] = {}
    replaced = {
        each.group_instance_id for each in result.changes if type(each) is Dropped and each.cause == Cause.REPLACED
    }
    for change in result.changes:
        if type(change) is Joined and (change.is_new or change.group_instance_id in replaced):
            is_new = change.is_new and change.group_instance_id not in replaced
            found[change.member_id] = change._replace(is_new=is_new)
    return found


def _name_topics(account: Account, topics: Topics) -> None:
    for targets in (*account.changed.values(), account.departed.values()):
        for target in targets:
            for topic_id in target:
                if topic_id not in account.names:
                    topic = topics.find_id(topic_id)
                    if topic is not None:
                        account.names[topic_id] = topic.name


def _owned(member: ConsumerMember) -> Target:
    found: dict[bytes, frozenset[int]] = {}
    for part in (member.assigned, member.revoking):
        for topic_id, partitions in part.items():
            found[topic_id] = found.get(topic_id, frozenset()).union(partitions)  # `|` would make a set
    return found


def _sheds(before: ConsumerMember, after: ConsumerMember) -> bool:
    """Return whether the member has revoked partitions without a request to do so."""
    if before.assigned == after.assigned:
        return False
    return any(not partitions.keys() <= after.assigned.get(topic_id, {}).keys()
               for topic_id, partitions in before.assigned.items())  # fmt: skip


def _less(target: Target, other: Target) -> dict[bytes, frozenset[int]]:
    found = {}
    for topic_id, partitions in target.items():
        rest = frozenset(partitions) - other.get(topic_id, frozenset())
        if rest:
            found[topic_id] = rest
    return found


def _overlap(one: Target, other: Target) -> bool:
    return any(not partitions.isdisjoint(other.get(topic_id, ())) for topic_id, partitions in one.items())
