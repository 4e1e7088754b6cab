"""Parsing and formatting of times, rates and events. Every error message is a sentence with the expected notation."""

from __future__ import annotations

import re
from dataclasses import dataclass

UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
MAX_MS = 366 * UNITS_MS["d"]

KINDS = ("crash", "restart", "stop", "start", "pause", "slow")
TIMED = ("pause", "slow")


class BadScenario(Exception):
    """A scenario is not valid; the message is a sentence without its full stop."""


def duration_ms(text: object) -> int:
    """Return the milliseconds of a duration such as 300ms, 45s, 1h30m; 0 needs no unit. Raises BadScenario."""
    written = str(text).strip().lower().replace(" ", "")
    if written in ("0", "0.0"):
        return 0
    parts = PART.findall(written)
    if not parts or "".join(number + unit for number, unit in parts) != written:
        if re.fullmatch(r"\d+(\.\d+)?", written):
            raise BadScenario(f"{written} has no unit: write {written}s, or {written}ms")
        raise BadScenario(f"{str(text)[:40]!r} is not a duration: write 300ms, 45s, 10m or 1h30m")
    total = round(sum(float(number) * UNITS_MS[unit] for number, unit in parts))
    if total > MAX_MS:
        raise BadScenario(f"{written} is longer than a year")
    return total


def duration_text(ms: float) -> str:
    """Return a duration as readable text: 300 ms, 4.2 s, 45 s, 1 h 30 m."""
    if ms < 1_000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s".replace(".0 s", " s")
    parts = []
    rest = round(ms / 1000)
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def written_ms(ms: int) -> str:
    """Return a duration in the syntax of `duration_ms`."""
    if ms % 1_000:
        return f"{ms}ms"
    text, rest = "", ms // 1_000
    for unit, size in (("h", 3_600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


@dataclass(frozen=True, slots=True)
class Rate:
    """Rate of an event for each member, and the duration of the event."""

    per_hour: float = 0.0
    for_ms: int = 0

    def __str__(self) -> str:
        if not self.per_hour:
            return "0"
        per_day = self.per_hour * 24
        often = f"{per_day:g}/d" if self.per_hour < 1 and per_day == round(per_day) else f"{self.per_hour:g}/h"
        return often + (f":{written_ms(self.for_ms)}" if self.for_ms else "")


def rate(text: object, *, timed: bool) -> Rate:
    """Parse a rate such as 0.5/h, 2/d; with a duration if the event lasts: 2/h:10s. 0: never. Raises BadScenario."""
    written = str(text).strip().lower()
    example = "2/h:10s or 1/d:30s" if timed else "0.5/h or 2/d"
    found = re.fullmatch(r"(\d+(?:\.\d+)?)/([hd])(?::(.+))?", written)
    if written == "0":
        return Rate()
    if found is None or bool(found[3]) is not timed:
        raise BadScenario(f"{str(text)[:40]!r} is not a rate per member: write {example}")
    per_hour = float(found[1]) / (24 if found[2] == "d" else 1)
    if per_hour > 3_600:
        raise BadScenario(f"{written} is more than once a second")
    return Rate(per_hour, duration_ms(found[3]) if timed else 0)


@dataclass(frozen=True, slots=True)
class Planned:
    """An event for one member at a given time after the group has formed."""

    at_ms: int
    kind: str
    number: int
    for_ms: int = 0

    def __str__(self) -> str:
        text = f"{written_ms(self.at_ms)}:{self.kind}:{self.number}"
        return f"{text}:{written_ms(self.for_ms)}" if self.for_ms else text


def planned(text: object) -> Planned:
    """Parse an event such as 10s:crash:3, 1m:pause:0:20s. Raises BadScenario."""
    parts = str(text).strip().split(":")
    example = "write TIME:WHAT:MEMBER, as 10s:crash:3, or 1m:pause:0:20s"
    if len(parts) < 3 or parts[1] not in KINDS or not parts[2].isdecimal():
        raise BadScenario(f"{str(text)[:40]!r} is no event: {example}; WHAT is one of {', '.join(KINDS)}")
    if (len(parts) == 4) is not (parts[1] in TIMED) or len(parts) > 4:
        raise BadScenario(f"{str(text)[:40]!r}: {' and '.join(TIMED)} have a length, the others have none: {example}")
    return Planned(duration_ms(parts[0]), parts[1], int(parts[2]), duration_ms(parts[3]) if len(parts) == 4 else 0)


@dataclass(frozen=True, slots=True)
class Deploy:
    """Restarts of a deployment: `size` members every `every_ms`, or all at once."""

    kind: str = "none"
    every_ms: int = 0
    size: int = 1

    def __str__(self) -> str:
        if self.kind != "rolling":
            return self.kind
        return f"rolling:{written_ms(self.every_ms)}" + (f":{self.size}" if self.size > 1 else "")


def deploy(text: object) -> Deploy:
    """Parse a deployment: none, all, rolling:30s, rolling:30s:5 (five at a time). Raises BadScenario."""
    kind, *rest = str(text).strip().lower().split(":")
    example = "write none, all, rolling:30s, or rolling:30s:5 for five at a time"
    if kind in ("none", "all") and not rest:
        return Deploy(kind)
    if kind != "rolling" or not rest or len(rest) > 2 or (len(rest) == 2 and not rest[1].isdecimal()):
        raise BadScenario(f"{str(text)[:40]!r} is no deployment: {example}")
    every_ms, size = duration_ms(rest[0]), int(rest[1]) if len(rest) == 2 else 1
    if not every_ms or not size:
        raise BadScenario(f"{str(text)[:40]!r} would restart no member, or all at once: {example}")
    return Deploy(kind, every_ms, size)
