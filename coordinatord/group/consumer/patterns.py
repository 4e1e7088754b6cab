"""Expressions that members subscribe to: which topics they match, and when that is looked at again.

They are resolved in a step of their own, soon after the heartbeat that asks for it, and for all members together: when
a new expression comes, when topics were created, and every `group.consumer.regex.refresh.interval.ms`; but not more
often than every ten seconds. They match topics that whoever sent that heartbeat may describe, as in Kafka's
TopicRegexResolver: another member with the same expression may have another principal, and permissions that change are
seen when the expressions are next resolved.
"""

from __future__ import annotations

from enum import IntEnum

from coordinatord.group.consumer.causes import expressions_resolved, member_changed, topics_changed
from coordinatord.group.consumer.epochs import raise_epoch
from coordinatord.group.consumer.expressions import InvalidExpression, compile_expression
from coordinatord.group.consumer.records import expression_record, expression_tombstone
from coordinatord.group.consumer.sessions import EXPRESSIONS
from coordinatord.group.consumer.state import ConsumerGroup, ConsumerMember, Resolved, Surroundings
from coordinatord.group.events import MayDescribe
from coordinatord.group.replay import write
from coordinatord.group.result import NOTHING, Result, Schedule, TimerKey
from coordinatord.group.state import Group

LEAST_INTERVAL_MS = 10_000


class Change(IntEnum):
    """What a heartbeat does to its member's expression."""

    NONE = 0
    NEW = 1
    """It is not known yet what it matches."""
    KNOWN = 2
    """It is known, or there is none any more."""


def update_expression(
    group: Group,
    consumer: ConsumerGroup,
    surroundings: Surroundings,
    before: ConsumerMember,
    after: ConsumerMember,
    now_ms: int,
    result: Result,
    *,
    may_describe: MayDescribe | None,
    is_converted: bool = False,
) -> Change:
    """The member's record has been written: write what follows for expressions, and have them resolved if need be.
    `may_describe`: what the client may learn of topics; None: all.
    """
    if not consumer.expressions and before.expression == after.expression:
        return Change.NONE
    change = Change.NONE
    is_needed = False
    count, first = len(consumer.resolved), next(iter(consumer.resolved.values()), None)
    old, new = before.expression, after.expression
    if old != new:
        change = Change.NEW
        if old and not consumer.expressions[old]:
            write(group, *expression_tombstone(group.group_id, old), result)
            consumer.asked.pop(old, None)
        if new:
            is_needed = consumer.expressions[new] == 1
            if not is_needed and new in consumer.resolved:
                change = Change.KNOWN
            else:
                consumer.asked[new] = member_changed(before, after, result, is_converted=is_converted)
        elif old:
            change = Change.KNOWN
    if not consumer.expressions or consumer.is_resolving:
        return change
    if first is not None and now_ms <= first.timestamp_ms + LEAST_INTERVAL_MS:
        return change
    topics, limits = surroundings.topics, surroundings.limits
    if (
        is_needed
        or first is None
        or len(consumer.expressions) != count
        or not topics.created_version <= first.version <= topics.version
        or now_ms > first.timestamp_ms + limits.expression_refresh_ms
    ):
        consumer.is_resolving = True
        consumer.may_describe = may_describe
        result.timers.append(Schedule(TimerKey(group.group_id, EXPRESSIONS), now_ms))
    return change


def resolve(group: Group, consumer: ConsumerGroup, surroundings: Surroundings, now_ms: int) -> Result:
    """Resolve all expressions. The group's epoch rises if one matches other topics than before."""
    if not consumer.is_resolving:
        return NOTHING
    consumer.is_resolving = False
    may_describe, consumer.may_describe = consumer.may_describe, None
    result = Result()
    topics = surroundings.topics
    names = list(topics.names())
    changed: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
    seen = consumer.topics_seen()
    matches = _allowed({each: _matching(each, names) for each in consumer.expressions}, may_describe)
    for expression, matched in matches.items():
        known = consumer.resolved.get(expression)
        before: frozenset[str] = frozenset() if known is None else known.topics
        if matched != before:
            changed[expression] = before, matched
        resolved = Resolved(matched, topics.version, now_ms)
        write(group, *expression_record(group.group_id, expression, resolved), result)
    metadata_hash = consumer.hash_of(topics)
    if changed or metadata_hash != consumer.metadata_hash:
        if changed:
            trigger = expressions_resolved(changed, consumer.asked)
        else:
            trigger = topics_changed(consumer, seen, topics)
        raise_epoch(group, consumer, metadata_hash, trigger, now_ms, result)
        consumer.topics_version = topics.version
    consumer.asked = {}
    return result


def _matching(expression: str, names: list[str]) -> frozenset[str]:
    """One that was logged by somebody who allows it, and is not valid here, matches nothing."""
    try:
        compiled = compile_expression(expression)
    except InvalidExpression:
        return frozenset()
    return frozenset(name for name in names if compiled.matches(name))


def _allowed(matches: dict[str, frozenset[str]], may_describe: MayDescribe | None) -> dict[str, frozenset[str]]:
    """Without the topics that may not be described; each is asked about once."""
    if may_describe is None:
        return matches
    denied = {name for name in frozenset[str]().union(*matches.values()) if not may_describe(name)}
    return {expression: matched - denied for expression, matched in matches.items()} if denied else matches
