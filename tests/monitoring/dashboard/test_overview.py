"""The overview: incidents, rows in units for people, and how much a page that is open costs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coordinatord.monitoring.dashboard.overview import BYTES, PAUSE_MS, Feed, incidents, sparkline
from coordinatord.monitoring.dashboard.trends import POINTS, STEP_MS, Trends
from coordinatord.monitoring.dashboard.view import GroupView, View
from coordinatord.monitoring.dashboard.words import in_units, reason, span
from tests.monitoring.dashboard.views import MINUTE, NOW_MS, group, place, view


def stopped(name: str, last_ms: int, lag: int = 500, topic: str = "events") -> GroupView:
    row = place(name, topic, 0, lag)
    return group(
        name, [row._replace(status="stopped", alarming=True, why="no commit for 1500 s", committed_ms=last_ms)]
    )


def many(count: int, at_ms: int = NOW_MS, lag: int = 0) -> View:
    """Groups that are all behind, with `lag` records more each."""
    row = place("", "orders", 0, 0)
    groups = [
        group(name, [row._replace(group_id=name, status="behind", lag=number + lag)])
        for number, name in enumerate(f"group-{number:05d}" for number in range(count))
    ]
    return View(at_ms, {each.group_id: each for each in groups})


def test_groups_that_stopped_together_are_one_incident() -> None:
    together = [stopped(f"batch-{n}", NOW_MS - 30 * MINUTE + n * 1_000) for n in range(40)]
    alone = stopped("alone", NOW_MS - 90 * MINUTE)
    (incident,), of = incidents([*together, alone, *view().groups.values()])
    assert (incident.status, incident.groups, incident.lag, incident.topic) == ("stopped", 40, 20_000, "events")
    assert incident.since_ms == NOW_MS - 30 * MINUTE
    assert of.keys() == {each.group_id for each in together}


def test_two_groups_and_different_causes_are_no_incident() -> None:
    found, _ = incidents([stopped("a", NOW_MS), stopped("b", NOW_MS + 1)])
    assert found == []
    far = [stopped(name, NOW_MS - number * 5 * MINUTE) for number, name in enumerate("abcd")]
    assert incidents(far)[0] == []


def test_a_cursor_gets_what_changed() -> None:
    feed, first = Feed(Trends()), view(20)
    whole = feed.since(first, "")
    assert whole["whole"]
    assert len(whole["rows"]) == 25
    nothing = feed.since(first, whole["next"])
    assert (nothing["whole"], nothing["rows"], nothing["gone"]) == (False, [], [])
    groups = {name: each for name, each in first.groups.items() if name != "looping"}
    groups["fresh"] = group("fresh", [place("fresh", "orders", 0, 9)])
    told = feed.since(View(NOW_MS + 5_000, groups), nothing["next"])
    assert [row["id"] for row in told["rows"]] == ["fresh"]
    assert told["gone"] == ["looping"]


@pytest.mark.parametrize("cursor", ["x", "{}", "[1,2]", '[0,5,5,""]', "[null,1,1,0]", "[[],[],[],[]]", "9" * 5000])
def test_a_cursor_of_another_process_gets_all(cursor: str) -> None:
    assert Feed(Trends()).since(view(), cursor)["whole"]


def test_five_thousand_groups_that_all_change_cost_no_more_and_none_is_left_out() -> None:
    """Each look changes each row, and a page that asks every PAUSE_MS gets every row in turn."""
    feed = Feed(Trends())
    shown = many(5_000)
    cursor = feed.since(shown, "")["next"]
    seen: set[str] = set()
    looks = 0
    while len(seen) < 5_000:
        looks += 1
        assert looks < 1_000
        if looks % 20 == 1:
            shown = many(5_000, NOW_MS + looks * 30_000, lag=looks * 5_000)
        told = feed.since(shown, cursor)
        assert len(json.dumps(told, separators=(",", ":"))) * 60_000 // PAUSE_MS < 200_000
        seen |= {row["id"] for row in told["rows"]}
        cursor = told["next"]
    assert len(json.dumps(told["rows"])) <= BYTES


def test_a_group_that_commits_steadily_is_not_sent_again() -> None:
    feed, first = Feed(Trends()), many(3)
    cursor = feed.since(first, "")["next"]
    assert first.groups["group-00001"].now is not None
    later = {
        name: group(name, [each.rows[0]._replace(committed_ms=NOW_MS + 29_000)]) for name, each in first.groups.items()
    }
    assert feed.since(View(NOW_MS + 30_000, later), cursor)["rows"] == []


def test_trends_are_an_hour_of_minutes() -> None:
    trends = Trends()
    for minute in range(90):
        trends.add(many(2, NOW_MS + minute * STEP_MS, lag=minute))
        trends.add(many(2, NOW_MS + minute * STEP_MS + 1, lag=7_777))  # too early for the next point
    points = trends.points("group-00001")
    assert len(points) == POINTS
    assert points[-1] == (NOW_MS + 89 * STEP_MS, 90)
    assert points[0] == (NOW_MS + 29 * STEP_MS, 30)
    trends.add(View(NOW_MS + 90 * STEP_MS, {}))
    assert trends.points("group-00001") == []
    assert trends._lags == {}


def test_sparklines() -> None:
    assert sparkline([(0, 0), (1, 0)]) == "00"
    assert sparkline([(0, 0), (1, 50), (2, 100)]) == "0iz"
    assert sparkline([(0, 5)]) == ""
    assert len(sparkline([(n, n) for n in range(61)])) <= 20


def test_units() -> None:
    told: dict[float, Any] = {0: "0 s", 0.4: "0.4 s", 59: "59 s", 60: "1 min", 90: "1 min 30 s", 3_600: "1 h",
                              266_400: "3 d 2 h", 900_000: "10 d"}  # fmt: skip
    assert {each: span(each) for each in told} == told
    assert in_units("420 at its commits 30 to 600 s ago, none for 7200 s") == (
        "420 at its commits 30 s to 10 min ago, none for 2 h"
    )
    assert in_units("offset 1200 of topic s") == "offset 1200 of topic s"


def test_a_reason_has_rates() -> None:
    row = place("g", "t", 0, 420)._replace(
        status="falling", why="420 unread", consumed_per_s=1.2, produced_per_s=8.04, zero_in_s=None
    )
    assert reason(group("g", [row])) == "420 unread; reads 1.2/s, producers write 8/s; empty never"
    soon = row._replace(zero_in_s=200.0)
    assert reason(group("g", [soon])).endswith("empty in 3 min 20 s")
