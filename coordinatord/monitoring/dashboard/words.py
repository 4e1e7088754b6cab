"""Reasons of verdicts in units for people: the sentences of the rules have raw seconds."""

from __future__ import annotations

import re

from coordinatord.monitoring.analysis.current_lag import Now
from coordinatord.monitoring.analysis.members import Event
from coordinatord.monitoring.analysis.severity import is_urgent
from coordinatord.monitoring.analysis.status import BEHIND, CATCHING
from coordinatord.monitoring.dashboard.view import GroupView

_SECONDS = re.compile(r"\b(\d+(?:\.\d+)?)( to (\d+(?:\.\d+)?))? s\b")
_UNREAD = re.compile(r"\b\d{4,}(?= (?:unread|records?)\b)")
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def span(seconds: float) -> str:
    """Return a duration with its two largest units: `3 d 2 h`, `12 min`, `8 s`; `0.4 s` below a second."""
    if 0 < seconds < 1:
        return f"{seconds:.1f} s"
    left = round(seconds)
    for place, (unit, size) in enumerate(_UNITS):
        if left >= size and size > 1:
            below, small = _UNITS[place + 1]
            rest = left % size // small
            return f"{left // size} {unit}" + (f" {rest} {below}" if rest and left < 10 * size else "")
    return f"{left} s"


def in_units(why: str) -> str:
    """Return a rule's sentence with its seconds as durations. The sentence must not have names of peers."""

    def span_text(match: re.Match[str]) -> str:
        last = span(float(match[3] or match[1]))
        return f"{span(float(match[1]))} to {last}" if match[2] else last

    return _UNREAD.sub(lambda match: f"{int(match[0]):,}", _SECONDS.sub(span_text, why))


def event_text(event: Event) -> str:
    """Return an event's sentence in units for people. It may begin with a name, which stays as it is."""
    if event.client_id is None:
        return in_units(event.text)
    place = max(event.text.rfind(verb) for verb in (" came ", " holds "))
    return event.text if place < 0 else event.text[:place] + in_units(event.text[place:])


def reason(group: GroupView) -> str:
    """Return why the group has its verdict, with the rates of its worst partition where there is a lag."""
    word, why = group.verdict
    for event in group.trouble:
        if event.text == why:
            return event_text(event)
    worst = next((row for row in group.rows if (row.status, row.why) == (word, why)), None)
    text = in_units(why)
    if worst is None or not worst.lag or not (is_urgent(word) or word in (BEHIND, CATCHING)):
        return text
    return f"{text}; {rates(worst)}" if rates(worst) else text


def rates(row: Now) -> str:
    """Return what a partition's reader and producers do: `reads 1.2/s, writes 8/s; empty never`."""
    if row.consumed_per_s is None or row.produced_per_s is None:
        return ""
    empty = "never" if row.zero_in_s is None else f"in {span(row.zero_in_s)}"
    return f"reads {_rate(row.consumed_per_s)}, producers write {_rate(row.produced_per_s)}; empty {empty}"


def _rate(per_s: float) -> str:
    return f"{per_s:,.0f}/s" if per_s >= 10 or per_s == 0 else f"{per_s:.2g}/s"
