"""Causes of a new group epoch, as the rebalance ledger's kinds and as a sentence for operators.

Lists in a sentence have at most NAMED entries: there may be many members and topics, and clients choose their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from coordinatord.coordination.group.consumer.state import ConsumerGroup, ConsumerMember
from coordinatord.coordination.group.consumer.topics import Topic, Topics
from coordinatord.coordination.group.result import Dropped, Joined, Result, Trigger
from coordinatord.coordination.group.states import Cause, Why

NAMED = 3

_WENT = {
    Cause.LEFT: (Why.MEMBER_LEFT, "{} left"),
    Cause.SESSION_EXPIRED: (Why.SESSION_EXPIRED, "session of {} expired"),
    Cause.NOT_REVOKED: (Why.NOT_REVOKED, "{} did not give up its partitions within its rebalance timeout"),
    Cause.NOT_REJOINED: (Why.NOT_REJOINED, "{} did not rejoin within its rebalance timeout"),
    Cause.NOT_SYNCED: (Why.NOT_SYNCED, "{} did not send SyncGroup within its rebalance timeout"),
}


def members_went(members: Sequence[ConsumerMember], cause: str) -> Trigger:
    """Return the trigger for members that left or were fenced; `cause` is one of Cause."""
    kind, text = _WENT[cause]
    who = _described(members[0]) if len(members) == 1 else f"members {_names(each.member_id for each in members)}"
    return Trigger(kind, text.format(who), members[0].member_id)


def member_changed(
    before: ConsumerMember, after: ConsumerMember, result: Result, *, is_converted: bool = False
) -> Trigger:
    """Return the trigger for a member that joined, rejoined, or changed its subscription, as in the step's changes."""
    member_id, who = after.member_id, _described(after)
    if is_converted:
        text = f"new {who} uses the consumer protocol, and the group was a classic one"
        return Trigger(Why.CONVERTED, text, member_id)
    for change in result.changes:
        if type(change) is Dropped and change.cause == Cause.REPLACED:
            text = f"static member {after.instance_id} came back as {member_id} and {_subscribes(before, after)}"
            return Trigger(Why.STATIC_MEMBER_RESTARTED, text, member_id)
    if any(type(change) is Joined and change.is_new for change in result.changes):
        protocol = "" if after.classic is None else " with the classic protocol"
        return Trigger(Why.NEW_MEMBER, f"new {who}{protocol}", member_id)
    return Trigger(Why.SUBSCRIPTION_CHANGED, f"{who} {_subscribes(before, after)}", member_id)


def assignor_changed(member: ConsumerMember, before: str, after: str) -> Trigger:
    """Return the trigger for a member whose preferred assignor changes that of the group."""
    text = f"{_described(member)} prefers another assignor: the group's is {after} (before: {before})"
    return Trigger(Why.METADATA_CHANGED, text, member.member_id)


def expressions_resolved(
    changed: Mapping[str, tuple[frozenset[str], frozenset[str]]], asked: Mapping[str, Trigger]
) -> Trigger:
    """Return the trigger for expressions that match other topics than before; `asked` contains the new expressions with
    the triggers of the members that added them.
    """
    for expression in changed:
        trigger = asked.get(expression)
        if trigger is not None:
            return trigger
    texts = []
    for expression, (before, after) in list(changed.items())[:NAMED]:
        parts = []
        if after - before:
            parts.append(f"matches {_names(sorted(after - before))} now")
        if before - after:
            parts.append(f"matches {_names(sorted(before - after))} no more")
        texts.append(f"expression {_short(expression)} {', and '.join(parts)}")
    return Trigger(Why.REGEX_RESOLVED, "; ".join(texts) + _more(len(changed)))


def topics_changed(consumer: ConsumerGroup, before: Mapping[str, Topic] | None, topics: Topics) -> Trigger:
    """Return the trigger for subscribed topics that were created, deleted or changed. Right after a load, `before` is
    None: the earlier topics are unknown.
    """
    after = consumer.seen
    texts, unsubscribed = [], []
    known = {} if before is None else before
    for name in () if before is None else sorted(known.keys() | after.keys()):
        old, new = known.get(name), after.get(name)
        if old == new:
            continue
        if old is None and new is not None:
            texts.append(f"topic {name} was created with {_partitions(new)}")
        elif new is None and topics.find(name) is not None:
            unsubscribed.append(name)
        elif new is None:
            texts.append(f"topic {name} was deleted")
        elif old is not None and old.topic_id != new.topic_id:
            texts.append(f"topic {name} was deleted and created again with {_partitions(new)}")
        elif old is not None and old.partitions != new.partitions:
            texts.append(f"topic {name} has {_partitions(new)} (before: {old.partitions})")
        else:
            texts.append(f"topic {name} has replicas on other racks")
    if unsubscribed and not texts:  # a member has changed its expression, which has not been resolved yet
        asked = (each for each in consumer.asked.values() if each.kind != Why.NEW_MEMBER)
        text = f"no member subscribes to {_names(unsubscribed)} now"
        return next(asked, Trigger(Why.SUBSCRIPTION_CHANGED, text))
    if not texts:
        texts = ["the subscribed topics are others than before the coordinator loaded the group"]
    return Trigger(Why.TOPICS_CHANGED, "; ".join(texts[:NAMED]) + _more(len(texts)))


def _described(member: ConsumerMember) -> str:
    if member.instance_id is None:
        return f"member {member.member_id}"
    return f"static member {member.instance_id} ({member.member_id})"


def _partitions(topic: Topic) -> str:
    return f"{topic.partitions} partition{'' if topic.partitions == 1 else 's'}"


def _subscribes(before: ConsumerMember, after: ConsumerMember) -> str:
    return f"subscribes to {_subscription(after)} (before: {_subscription(before)})"


def _subscription(member: ConsumerMember) -> str:
    parts = [_names(sorted(member.topics))] if member.topics else []
    if member.expression:
        parts.append(f"expression {_short(member.expression)}")
    return " and ".join(parts) or "nothing"


def _names(names: Iterable[str]) -> str:
    found = list(names)
    return ", ".join(map(_short, found[:NAMED])) + _more(len(found))


def _more(count: int) -> str:
    return f" and {count - NAMED} more" if count > NAMED else ""


def _short(text: str) -> str:
    return text if len(text) <= 249 else f"{text[:249]}…"
