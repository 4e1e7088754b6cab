"""Output of `coordinatord groups why` about a group of the consumer protocol (KIP-848): its state, and its group
epochs.

The summary comes first: duration, cause, and the members that held up the group epoch. Then follow the members that had
to revoke or receive partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from coordinatord.cli.times import utc
from kafka_wire.api.consumer_group_describe import Assignment, DescribedGroup, Member
from kafka_wire.records.rebalance_ledger import Outcome

SHOWN_MEMBERS = 5
SHOWN_RANGES = 6
AWAY = -2
"""Member epoch of a static member that has left temporarily."""

Partitions = Mapping[str, list[int]]
"""Partition indexes by topic."""


def state_lines(state: DescribedGroup) -> Iterator[str]:
    """Describe the present state of the group; if it is on its way to a group epoch, also the members that have not
    reached it and what they lack.
    """
    group, members = state.group_id, state.members
    if not members:
        yield f"Group {group} is {state.group_state}: no members (consumer protocol, epoch {state.group_epoch})."
        return
    size = f"{len(members)} member{'' if len(members) == 1 else 's'}"
    yield (
        f"Group {group} is {state.group_state}: {size} in epoch {state.group_epoch}, assigned by "
        f"{state.assignor_name or 'no assignor yet'} (consumer protocol)."
    )
    if state.assignment_epoch < state.group_epoch:
        yield f"  Its target assignment is still that of epoch {state.assignment_epoch}; a heartbeat computes the next."
        return
    late = [(each, missing) for each in members if (missing := _missing(each, state.assignment_epoch))]
    for member, missing in late[:SHOWN_MEMBERS]:
        yield f"  waits for {_name(member.member_id, member.instance_id, member.client_id)}: {missing}"
    if len(late) > SHOWN_MEMBERS:
        yield f"  and for {len(late) - SHOWN_MEMBERS} more"


def _missing(member: Member, epoch: int) -> str:
    """Return the reason why a member has not reached the group epoch; empty if it has."""
    if member.member_epoch == AWAY:
        return "it is a static member that has left for now, and keeps its partitions until its session ends"
    owned, target = _by_topic(member.assignment), _by_topic(member.target_assignment)
    if member.member_epoch < epoch:
        give_up = _less(owned, target)
        if give_up:
            return f"it has to give up {ranges(give_up)} (epoch {member.member_epoch})"
        return f"its next heartbeat (epoch {member.member_epoch})"
    get = _less(target, owned)
    return f"it is to get {ranges(get)}" if get else ""


def epoch_story(record: Mapping[str, Any]) -> Iterator[str]:
    """Describe one group epoch, in a few lines."""
    before, after = record["generation_before"], record["generation_after"]
    epoch = f"epoch {before} → {after}" if before != after else f"epoch {after}"
    yield f"{utc(record['began_ms'])}  {epoch}, {_ending(record)}"
    yield f"  why: {_text(record, record['trigger'])}"
    if record.get("overtaken_by") is not None:
        yield f"  overtaken by: {_text(record, record['overtaken_by'])}"
    delay_ms = 0 if record["assigned_ms"] is None else record["assigned_ms"] - record["began_ms"]
    if delay_ms:
        yield f"  the target assignment was computed after {seconds(delay_ms)}"
    held_up = _held_up(record)
    if held_up is not None:
        yield f"  held up by {held_up}"
    changes = [f"{record[what]} {what}" for what in ("added", "removed") if record[what]]
    changed = f" ({', '.join(changes)})" if changes else ""
    yield f"  members: {record['members_before']} before, {record['members_after']} after{changed}"
    yield from _shares(record)
    count = record.get("not_reached", 0)
    if count and record["outcome"] == Outcome.SUPERSEDED:
        late = [_name_of(each) for each in record["members"] if each["after_ms"] is None]
        yield f"  not there yet: {_some(late, count)}"


def _ending(record: Mapping[str, Any]) -> str:
    took = seconds(record["ended_ms"] - record["began_ms"])
    outcome, is_assigned = record["outcome"], record["assigned_ms"] is not None
    if outcome == Outcome.COMPLETED:
        return f"took {took}"
    if outcome == Outcome.EMPTY:
        return "no members were left"
    if outcome == Outcome.SUPERSEDED:
        return f"overtaken after {took}" + ("" if is_assigned else ", before its target assignment was computed")
    return f"cut off after {took}: the coordinator stopped serving the group"


def _held_up(record: Mapping[str, Any]) -> str | None:
    held_up = record.get("held_up")
    if not held_up or not held_up["after_ms"]:
        return None
    who, waited = _name_of(held_up), seconds(held_up["after_ms"])
    if held_up.get("away"):
        return f"{who}: a static member that had left for now, {waited}"
    if held_up["phase"] == "revoke":
        if record["outcome"] == Outcome.COMPLETED:
            return f"{who}: it took {waited} to give up its partitions"
        return f"{who}: it had not given up its partitions after {waited}"
    if record["outcome"] == Outcome.COMPLETED:
        return f"{who}: its heartbeat came {waited} after it could go on"
    return f"{who}: it had not come for its assignment after {waited}"


def _named(record: Mapping[str, Any], member_id: str) -> str:
    for each in (*record["members"], *record["dropped"]):
        if each["member_id"] == member_id:
            return _name_of(each)
    return member_id


def _shares(record: Mapping[str, Any]) -> Iterator[str]:
    for what, words in _WORDS.items():
        who = [each for each in (*record["dropped"], *record["members"]) if each.get(what)]
        for each in who[:SHOWN_MEMBERS]:
            # A dropped member has given up all its partitions.
            after_ms = 0 if "cause" in each else each.get(words.time)
            verb = words.unfinished if after_ms is None else words.finished
            late = f", after {seconds(after_ms)}" if after_ms else ""
            yield f"  {_name_of(each)} {verb} {ranges(each[what])}{late}"
        if len(who) > SHOWN_MEMBERS:
            listed = sum(sum(map(len, each[what].values())) for each in who[:SHOWN_MEMBERS])
            yield f"  {len(who) - SHOWN_MEMBERS} more {words.unfinished} {record[what] - listed} partitions"


class _Words(NamedTuple):
    finished: str
    unfinished: str
    time: str


_WORDS = {
    "gave_up": _Words("gave up", "had to give up", "revoked_after_ms"),
    "got": _Words("got", "was to get", "after_ms"),
}


def ranges(partitions: Partitions) -> str:
    """Return partitions as `orders 0-3, 7; payments 1`; of a long list, the rest as a count."""
    found: list[tuple[str, str, int]] = []
    for topic in sorted(partitions):
        numbers = sorted(partitions[topic])
        cuts = [0, *(at for at, (one, other) in enumerate(pairwise(numbers), 1) if other != one + 1), len(numbers)]
        for start, end in pairwise(cuts):
            first, last = numbers[start], numbers[end - 1]
            found.append((topic, str(first) if first == last else f"{first}-{last}", end - start))
    shown: dict[str, list[str]] = {}
    for topic, text, _count in found[:SHOWN_RANGES]:
        shown.setdefault(topic, []).append(text)
    told = "; ".join(f"{topic} {', '.join(texts)}" for topic, texts in shown.items())
    rest = sum(count for *_, count in found[SHOWN_RANGES:])
    return f"{told} and {rest} more" if rest else told


def seconds(milliseconds: int) -> str:
    """Return a duration as text."""
    return f"{milliseconds} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


def _name_of(member: Mapping[str, Any]) -> str:
    return _name(member["member_id"], member.get("instance"), member.get("client_id", ""))


def _name(member_id: str, instance_id: str | None, client_id: str) -> str:
    """Return a readable name of a member: member ids are random, users know the instance id or the client id."""
    known = instance_id or client_id
    return f"{known} ({member_id})" if known and not member_id.startswith(f"{known}-") else member_id


def _text(record: Mapping[str, Any], trigger: Mapping[str, Any]) -> str:
    """Return a trigger's text with the name of its member's client."""
    text, member_id = str(trigger["text"]), trigger.get("member_id", "")
    return text.replace(f"member {member_id}", f"member {_named(record, member_id)}", 1) if member_id else text


def _some(names: Sequence[str], count: int) -> str:
    shown = names[:SHOWN_MEMBERS]
    more = count - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _by_topic(assignment: Assignment) -> dict[str, list[int]]:
    return {each.topic_name: each.partitions for each in assignment.topic_partitions}


def _less(one: Partitions, other: Partitions) -> dict[str, list[int]]:
    rest = {topic: sorted(set(numbers) - set(other.get(topic, ()))) for topic, numbers in one.items()}
    return {topic: numbers for topic, numbers in rest.items() if numbers}
