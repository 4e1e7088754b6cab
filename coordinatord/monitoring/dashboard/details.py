"""The pages of one group, one topic, and one client or host, as values for JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from coordinatord.monitoring.analysis.advice import ADVICE
from coordinatord.monitoring.analysis.current_lag import Now
from coordinatord.monitoring.analysis.expiry import Expiry
from coordinatord.monitoring.analysis.generations import TopicPartition
from coordinatord.monitoring.analysis.members import MINUTE_MS, Event
from coordinatord.monitoring.analysis.severity import is_urgent, severity
from coordinatord.monitoring.analysis.status import LOST, POISON, REWOUND, STUCK, WAITING
from coordinatord.monitoring.dashboard.html import CURVES
from coordinatord.monitoring.dashboard.overview import row
from coordinatord.monitoring.dashboard.trends import Point, Points
from coordinatord.monitoring.dashboard.view import GroupView, View
from coordinatord.monitoring.dashboard.words import event_text, in_units

SHARE = "share"
MAX_ROWS = 100
"""Maximum number of partitions, members, rebalances and readers in a response: the worst or the last ones."""
MAX_LINES = 30
"""Maximum number of events, or of partitions, in a line that opens."""
LIFE = ("member_id", "instance", "client_id", "host", "since_ms", "until_ms", "end", "partitions", "last_commit_ms")
REBALANCE = (
    "generation", "generation_before", "outcome", "began_ms", "ended_ms", "members", "added", "removed",
    "partitions_moved", "trigger", "trigger_client_id", "cause", "client_reason", "how", "confidence",
)  # fmt: skip
PLACE = (
    "topic", "partition", "committed_offset", "committed_ms", "end_offset", "lag", "time_lag_ms", "time_lag_method",
    "lost_records", "retention_left_ms", "consumed_per_s", "produced_per_s", "zero_in_s", "status", "why", "alarming",
)  # fmt: skip


def whole(group: GroupView, trends: Points, bootstrap: str) -> dict[str, Any]:
    """Return a group's page: its row, what the verdict means, what to do, its partitions, members and rebalances."""
    rows = sorted(group.rows, key=lambda each: (severity(each.status), -(each.lag or 0), each.topic, each.partition))
    lives = sorted(group.lives, key=lambda life: (life.until_ms is not None, -(life.until_ms or 0), life.since_ms))
    deadlines = sorted(group.deadlines, key=lambda each: each.at_ms)
    word, why = group.verdict
    advice = ADVICE[word]
    return {
        **row(group, trends, None),
        "type": group.group_type,
        "rule": why,
        "means": advice.means,
        "do": advice.do,
        "commands": commands(group, rows, bootstrap),
        "events": _events(group),
        "window": [
            {
                "topic": place[0],
                "partition": place[1],
                **each._asdict(),
                "acquired": group.acquired.get(place),
                "changed_ms": group.state_changes_ms.get(place),
            }
            for place, each in sorted(group.deliveries.items())[:MAX_ROWS]
        ],
        "redelivered": group.redelivered,
        "archived": group.archived,
        "rewinds": _rewinds(group),
        "expiries": _expiries(group),
        "commits": group.commits,
        "causes": dict(group.causes),
        "waiting": group.waiting,
        "deadlines": [each._asdict() for each in deadlines[:MAX_ROWS]],
        "points": trends.points(group.group_id),
        "curves": _curves(trends.curves(group.group_id)),
        "partitions": _places(rows[:MAX_ROWS], group),
        "partitions_count": len(rows),
        **_part("rebalances", list(reversed(group.rebalances)), REBALANCE),
        **_part("lives", lives, LIFE),
    }  # fmt: skip


def _events(group: GroupView) -> list[dict[str, Any]]:
    """Return the events by kind, those first that are not over: how many, and the last ones in words."""
    by_kind: dict[str, list[Event]] = {}
    for each in sorted({*group.events, *group.trouble}, key=lambda each: (-each.ended_ms, -each.began_ms, each.text)):
        by_kind.setdefault(each.kind, []).append(each)
    trouble = set(group.trouble)
    told = [
        {
            "kind": kind,
            "count": len(alike),
            "goes_on": any(each in trouble for each in alike),
            "ended_ms": alike[0].ended_ms,
            "last": [
                {
                    "text": event_text(each),
                    "began_ms": each.began_ms,
                    "ended_ms": each.ended_ms,
                    "goes_on": each in trouble,
                }
                for each in alike[:MAX_LINES]
            ],
        }
        for kind, alike in by_kind.items()
    ]
    return sorted(told, key=lambda each: (not each["goes_on"], severity(each["kind"]), each["kind"]))


def _rewinds(group: GroupView) -> list[dict[str, Any]]:
    """Return the partitions whose commits went back, those with the most records first."""
    found = sorted(group.rewinds.items(), key=lambda each: (-each[1].records, each[0]))
    return [{"topic": topic, "partition": number, **each._asdict()} for (topic, number), each in found[:MAX_ROWS]]


def _expiries(group: GroupView) -> list[dict[str, Any]]:
    """Return the offsets that will expire, the first ones first: those that count from the same, within a minute of
    each other, are one line.
    """
    alike: dict[tuple[int, str], list[Expiry]] = {}
    for each in group.expiries:
        alike.setdefault(((each.expires_ms or 0) // MINUTE_MS, each.counts_from), []).append(each)
    return [
        {
            "expires_ms": min(each.expires_ms or 0 for each in lines),
            "counts_from": counts_from,
            "count": len(lines),
            "partitions": [f"{each.topic}-{each.partition}" for each in lines[:MAX_LINES]],
        }
        for (_, counts_from), lines in sorted(alike.items())[:MAX_ROWS]
    ]


def _curves(curves: Mapping[TopicPartition, Sequence[Point]]) -> dict[str, Any]:
    """Return the lag of the partitions with the largest ones, at all known times; None where it is not known. None if
    one partition has all of it: then it is that of the group.
    """
    most = {place: max(lag for _, lag in points) for place, points in curves.items()}
    behind = sorted((place for place in most if most[place]), key=lambda place: (-most[place], place))
    shown = behind[: len(CURVES)] if len(behind) > 1 else []
    times = sorted({at_ms for place in shown for at_ms, _ in curves[place]})
    lags = [dict(curves[place]) for place in shown]
    return {
        "times": times,
        "names": [f"{topic}-{number}" for topic, number in shown],
        "lags": [[each.get(at_ms) for at_ms in times] for each in lags],
        "left_out": len(behind) - len(shown),
    }


def _part(name: str, rows: Sequence[Any], columns: Sequence[str]) -> dict[str, Any]:
    told = []
    for each in rows[:MAX_ROWS]:
        values = each._asdict() if hasattr(each, "_asdict") else asdict(each)
        told.append({column: values[column] for column in columns})
    return {name: told, f"{name}_count": len(rows)}


def _places(rows: Iterable[Now], group: GroupView) -> list[dict[str, Any]]:
    told = []
    for each in rows:
        values = each._asdict()
        place = {column: values[column] for column in PLACE}
        place["why"] = in_units(each.why)
        place["owner"] = _owner(group.owners.get((each.topic, each.partition)))
        told.append(place)
    return told


def _owner(owner: tuple[str, str] | None) -> dict[str, str] | None:
    return None if owner is None else {"client": owner[0], "host": owner[1].removeprefix("/")}


def commands(group: GroupView, rows: Sequence[Now], bootstrap: str) -> list[dict[str, str]]:
    """Return commands for a shell: none changes anything. A name that a terminal does not show as it is has none."""
    if not group.group_id.isprintable() or not group.group_id:
        return []
    at, name = f"--bootstrap {bootstrap}", shlex.quote(group.group_id)
    is_shared = group.group_type == SHARE
    what = "which records were delivered again, and why" if is_shared else "why it rebalanced"
    found = [
        ("the partitions, and their owners", f"coordinatord groups describe {name} {at}"),
        (f"{what} (on a coordinatord)", f"coordinatord groups why {name} {at}"),
    ]
    if is_shared:
        found.append(("its share partitions, and how often records were delivered", f"coordinatord lag {name} {at}"))
    worst = next((each for each in rows if each.status == group.verdict.word and each.topic.isprintable()), None)
    if worst is not None and worst.committed_offset is not None:
        topic = shlex.quote(worst.topic)
        shared = group.deliveries.get((worst.topic, worst.partition))
        suspect = None if shared is None or worst.status != POISON else shared.suspected_at
        if worst.status == STUCK or suspect is not None:
            found.append((
                "the record at which it is stuck" if suspect is None else "the suspected poison record",
                f"kafka-console-consumer.sh --bootstrap-server {bootstrap} --topic {topic} --partition "
                f"{worst.partition} --offset {worst.committed_offset if suspect is None else suspect} --max-messages 1",
            ))  # fmt: skip
        if worst.status == STUCK:
            found.append((
                "a plan that skips this record (stop its members first; --execute does it)",
                f"coordinatord groups reset-offsets {name} --topic {topic}:{worst.partition} "
                f"--to-offset {worst.committed_offset + 1} {at}",
            ))  # fmt: skip
        elif worst.status in (REWOUND, LOST):
            how = "--to-earliest" if worst.status == LOST else "--to-moment HH:MM"
            found.append((
                "a plan for other offsets (stop its members first; --execute does it)",
                f"coordinatord groups reset-offsets {name} --topic {topic} {how} {at}",
            ))  # fmt: skip
        elif worst.status == WAITING:
            found.append((
                "transactions that hang",
                f"kafka-transactions.sh --bootstrap-server {bootstrap} find-hanging --topic {topic} "
                f"--partition {worst.partition}",
            ))  # fmt: skip
    script = "kafka-share-groups.sh" if is_shared else "kafka-consumer-groups.sh"
    tool = f"{script} --bootstrap-server {bootstrap} --describe --group {name}"
    return [{"what": what, "command": command} for what, command in [*found, ("the same with Kafka's tool", tool)]]


def topic(view: View, name: str) -> dict[str, Any] | None:
    """Return the groups that read a topic, the most urgent first; None if none does."""
    readers = []
    for group, word, _why in view.by_urgency:
        rows = [each for each in group.rows if each.topic == name]
        if rows:
            worst = min(rows, key=lambda each: severity(each.status))
            readers.append({
                "group": group.group_id,
                "group_status": word,
                "urgent": is_urgent(worst.status),
                "status": worst.status,
                "why": in_units(worst.why),
                "partitions": len(rows),
                "lag": _sum(each.lag for each in rows),
                "time_lag_ms": max((each.time_lag_ms for each in rows if each.time_lag_ms is not None), default=None),
                "last_commit_ms": max((each.committed_ms for each in rows if each.committed_ms), default=None),
            })  # fmt: skip
    ends = [each for each in view.endings if each.topic == name]
    if not readers and not ends:
        return None
    return {
        "name": name,
        "partitions": len(ends),
        "records": sum(each.end_offset - (each.log_start_offset or 0) for each in ends),
        "readers": readers[:MAX_ROWS],
        "readers_count": len(readers),
    }


def client(view: View, name: str) -> dict[str, Any] | None:
    """Return the groups and partitions of a client id, an instance id or a host; None if no present member has it."""
    members = []
    for group, word, _why in view.by_urgency:
        for life in group.lives:
            host = life.host.removeprefix("/")
            if life.until_ms is not None or name not in (life.client_id, life.instance, host):
                continue
            members.append({
                "group": group.group_id, "status": word, "urgent": is_urgent(word), "client": life.client_id,
                "member_id": life.member_id, "instance": life.instance, "host": host, "since_ms": life.since_ms,
                "partitions": life.partitions, "last_commit_ms": life.last_commit_ms,
                "owned": _owned(group, (life.client_id, life.host))[:MAX_ROWS],
            })  # fmt: skip
    if not members:
        return None
    return {"name": name, "members": members[:MAX_ROWS], "members_count": len(members)}


def _owned(group: GroupView, owner: tuple[str, str]) -> list[str]:
    places: Mapping[tuple[str, int], tuple[str, str]] = group.owners
    return [f"{topic}-{number}" for (topic, number), each in sorted(places.items()) if each == owner]


def _sum(lags: Iterable[int | None]) -> int | None:
    known = [lag for lag in lags if lag is not None]
    return sum(known) if known else None
