"""What is said of a group, and whether it needs somebody."""

from __future__ import annotations

import pytest

from coordinatord.monitoring.analysis.groups import SEVERITY, GroupNow
from coordinatord.monitoring.analysis.members import CRASH_LOOP, DEPLOY, STORM, Event, Life, how_they_went
from coordinatord.monitoring.analysis.severity import ORDER, URGENT, is_urgent, judged, under_way, urgency, verdict
from coordinatord.monitoring.analysis.status import ALARMING

NOW_MS = 10_000_000


def now(status: str) -> GroupNow:
    return GroupNow("g", status, "why", 0, 1, 5, 5, 0, "caught up", NOW_MS, None)


def event(kind: str, ended_ms: int = NOW_MS) -> Event:
    return Event(kind, ended_ms - 60_000, ended_ms, "c", "/h", 5, f"a {kind}")


def test_what_alarms_comes_first() -> None:
    words = [is_urgent(word) for word in ORDER]
    assert words == sorted(words, reverse=True)
    assert ORDER[0] == "members expired"
    assert set(ORDER) == {*SEVERITY, CRASH_LOOP, STORM, "no offsets"}
    assert ALARMING | {CRASH_LOOP, STORM} == URGENT


@pytest.mark.parametrize("status", ["members expired", "stopped", "stuck", "falling", "ok"])
def test_a_crash_loop_is_the_one_incident_that_it_is(status: str) -> None:
    """Its members expire, its offsets stand still, it rebalances all the time."""
    assert verdict(now(status), [event(STORM), event(CRASH_LOOP)]) == ("crash loop", "a crash loop")
    assert verdict(None, [event(CRASH_LOOP)]).is_urgent


def test_the_worst_is_said() -> None:
    assert verdict(now("ok"), []) == ("ok", "why")
    assert verdict(None, []) == ("no offsets", "")
    assert verdict(now("falling"), [event(STORM)]).word == "storm"
    assert verdict(now("stuck"), [event(STORM)]).word == "stuck"
    assert judged("new", None, [event(CRASH_LOOP)])[:3] == ("new", "crash loop", "a crash loop")
    assert judged("g", now("ok"), [])._asdict() == now("ok")._asdict()
    rows = [judged(name, now(word), []) for name, word in (("a", "ok"), ("b", "stuck"), ("c", "members expired"))]
    assert [row.status for row in sorted(rows, key=urgency)] == ["members expired", "stuck", "ok"]


def test_what_is_over_is_not_said() -> None:
    ended = [event(CRASH_LOOP, NOW_MS - 600_001), event(STORM, NOW_MS - 600_000), event(DEPLOY)]
    assert [each.kind for each in under_way(ended, NOW_MS)] == [STORM]


def life(until_ms: int | None, end: str | None) -> Life:
    return Life("m", None, "c", "/h", 0, until_ms, end, 1, 1, None, 10_000)


def test_how_the_last_members_went() -> None:
    assert how_they_went([]) is None
    assert how_they_went([life(None, None), life(5, "expired")]) is None, "it has a member"
    assert how_they_went([life(1_000, "expired"), life(90_000, "left")]) == "left", "the other went long before"
    assert how_they_went([life(95_000, "left"), life(95_000, "expired")]) == "expired"
    assert how_they_went([life(95_000, "left"), life(95_000, "went")]) is None
