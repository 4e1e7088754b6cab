"""Regular expressions that members subscribe to: the topics that they match, and when they are resolved again.

Expressions are resolved in separate steps, soon after the heartbeat that makes it necessary, and for all members
together: when a new expression is added, when topics were created, and every
`group.consumer.regex.refresh.interval.ms`; but not more often than every ten seconds. They match topics that the
principal of that heartbeat may describe, as in Kafka's TopicRegexResolver: another member with the same expression may
have another principal, and changed permissions take effect when the expressions are next resolved.
"""

from __future__ import annotations

from collections.abc import Generator
from enum import IntEnum
from typing import NamedTuple

from coordinatord.base.budget import Work
from coordinatord.coordination.group.consumer.expressions import InvalidExpression, compile_expression
from coordinatord.coordination.group.consumer.group_epoch import raise_epoch
from coordinatord.coordination.group.consumer.rebalance_triggers import (
    expressions_resolved,
    member_changed,
    topics_changed,
)
from coordinatord.coordination.group.consumer.records import expression_record, expression_tombstone
from coordinatord.coordination.group.consumer.sessions import EXPRESSIONS
from coordinatord.coordination.group.consumer.state import ConsumerGroup, ConsumerMember, GroupEnvironment, Resolved
from coordinatord.coordination.group.events import MayDescribe
from coordinatord.coordination.group.replay import write
from coordinatord.coordination.group.result import NOTHING, Result, Schedule, TimerKey
from coordinatord.coordination.group.state import Group

LEAST_INTERVAL_MS = 10_000

# Units of `Work`. A group may have as many expressions as members, and there may be ten thousand topics: Kafka resolves
# them on a separate thread.
MATCH_WORK = 2
SIZE_OF_A_UNIT = 50
"""Instructions of a compiled expression that cost one unit, for each name."""
COMPILE_WORK = 200
CHARACTERS_OF_A_UNIT = 5
ASK_WORK = 3


class Change(IntEnum):
    """The change of a member's expression by a heartbeat."""

    NONE = 0
    NEW = 1
    """The matching topics of the new expression are not known yet."""
    KNOWN = 2
    """The matching topics are known, or the member has no expression any more."""


def update_expression(
    group: Group,
    consumer: ConsumerGroup,
    surroundings: GroupEnvironment,
    before: ConsumerMember,
    after: ConsumerMember,
    now_ms: int,
    result: Result,
    *,
    may_describe: MayDescribe | None,
    is_converted: bool = False,
) -> Change:
    """Write the records about expressions that follow from a member's record, and schedule their resolution if
    necessary. `may_describe`: checks whether the client may describe a topic; None: all topics.
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


def resolve(group: Group, consumer: ConsumerGroup, surroundings: GroupEnvironment, now_ms: int) -> Result:
    """Start to resolve all expressions, or continue for a few milliseconds. At the end the group epoch rises if one of
    them matches other topics than before.
    """
    if not consumer.is_resolving:
        return NOTHING
    if consumer.resolving is None:
        names, may_describe = list(surroundings.topics.names()), consumer.may_describe
        slices = _matches(list(consumer.expressions), names, may_describe)
        consumer.resolving = Resolving(slices, surroundings.topics.version, now_ms)
    resolving: Resolving = consumer.resolving
    try:
        next(resolving.slices)
    except StopIteration as finished:
        consumer.is_resolving = False
        consumer.resolving = consumer.may_describe = None
        return _resolved(group, consumer, surroundings, resolving, finished.value, now_ms)
    # After other requests have been served: timers that are due now all fire together.
    return Result(timers=[Schedule(TimerKey(group.group_id, EXPRESSIONS), now_ms + 1)])


def _resolved(
    group: Group,
    consumer: ConsumerGroup,
    surroundings: GroupEnvironment,
    resolving: Resolving,
    matches: dict[str, frozenset[str]],
    now_ms: int,
) -> Result:
    """Write the matches of the expressions that members still subscribe to."""
    result = Result()
    topics = surroundings.topics
    changed: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
    seen = consumer.topics_seen()
    for expression, matched in matches.items():
        if expression not in consumer.expressions:
            continue
        known = consumer.resolved.get(expression)
        before: frozenset[str] = frozenset() if known is None else known.topics
        if matched != before:
            changed[expression] = before, matched
        resolved = Resolved(matched, resolving.version, resolving.began_ms)
        write(group, *expression_record(group.group_id, expression, resolved), result)
    metadata_hash = consumer.hash_of(topics)
    if changed or metadata_hash != consumer.metadata_hash:
        if changed:
            trigger = expressions_resolved(changed, consumer.asked)
        else:
            trigger = topics_changed(consumer, seen, topics)
        raise_epoch(group, consumer, metadata_hash, trigger, now_ms, result)
        consumer.topics_version = topics.version
    consumer.asked = {each: who for each, who in consumer.asked.items() if each not in matches}
    return result


Matches = Generator[None, None, dict[str, frozenset[str]]]


class Resolving(NamedTuple):
    """The resolution of a group's expressions: `version` is that of the topics at `began_ms`."""

    slices: Matches
    version: int
    began_ms: int


def _matches(expressions: list[str], names: list[str], may_describe: MayDescribe | None) -> Matches:
    """Return the topics that expressions match, without those that may not be described; each topic is checked once. An
    expression that another program has logged, and that is not valid here, matches nothing.
    """
    found: dict[str, list[str]] = {}
    work = Work()
    for expression in expressions:
        matched = found[expression] = []
        if work.done(COMPILE_WORK + len(expression) // CHARACTERS_OF_A_UNIT):
            yield None
        try:
            compiled = compile_expression(expression)
        except InvalidExpression:
            continue
        cost = MATCH_WORK + compiled.size // SIZE_OF_A_UNIT
        for name in names:
            if work.done(cost):
                yield None
            if compiled.matches(name):
                matched.append(name)
    denied: set[str] = set()
    if may_describe is not None:
        for name in dict.fromkeys(name for matched in found.values() for name in matched):
            if work.done(ASK_WORK):
                yield None
            if not may_describe(name):
                denied.add(name)
    return {expression: frozenset(matched) - denied for expression, matched in found.items()}
