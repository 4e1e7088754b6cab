"""What the live page is told: groups by urgency, searched and paged, one of them in full; whatever is asked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coordinatord.base.observe.log_part import Document
from coordinatord.monitoring.analysis import severity
from coordinatord.monitoring.analysis.members import CRASH_LOOP, STORM, Event
from coordinatord.monitoring.dashboard.page import page
from coordinatord.monitoring.dashboard.responses import PAGE_SIZE, Answers
from coordinatord.monitoring.dashboard.series import rows
from coordinatord.monitoring.dashboard.view import View
from tests.monitoring.dashboard.views import EVIL, NOW_MS, view


def answers(found: View | None) -> Answers:
    return Answers(lambda: found, lambda: "test", lambda: NOW_MS + 500, lambda: None)


def state(found: View | None = None, **query: str) -> dict[str, Any]:
    status, content = answers(view() if found is None else found).part("GET", "/groups/state", query, "")
    assert status == 200
    told: dict[str, Any] = json.loads(json.dumps(content))
    return told


def test_the_most_urgent_come_first() -> None:
    """A crash loop is as urgent as a lag that grows, although nothing is unread."""
    told = state()
    assert [(row["id"], row["status"], row["urgent"]) for row in told["list"]] == [
        ("looping", "crash loop", True),
        ("stuck-payments", "stuck", True),
        ("migrating", "behind", False),
        (EVIL, "behind", False),
        ("no-offsets", "no offsets", False),
    ]
    assert (told["groups"], told["urgent"], told["found"]) == (5, 2, 5)
    assert told["list"][0]["why"] == "worker-3 on 10.0.0.7 came 5 times, for 41 s each"


def test_words_that_are_said_of_a_group_have_an_order() -> None:
    assert set(severity.ORDER) >= severity.URGENT
    assert [each for each in severity.ORDER if each in severity.URGENT] == list(severity.ORDER[: len(severity.URGENT)])
    events = [Event(kind, 0, NOW_MS - 1, None, None, 5, "") for kind in (CRASH_LOOP, STORM, "deploy")]
    assert [each.kind for each in severity.under_way(events, NOW_MS)] == [CRASH_LOOP, STORM]
    assert severity.under_way(events, NOW_MS + 3_600_000) == []


def test_search_and_pages() -> None:
    many = view(120)
    assert [row["id"] for row in state(many, search="STUCK pay")["list"]] == ["stuck-payments"]
    assert state(many, search="00007")["found"] == 1
    assert state(many, search="nothing like it")["list"] == []
    seen = [row["id"] for number in ("1", "2", "3") for row in state(many, page=number)["list"]]
    assert len(seen) == len(set(seen)) == 125
    assert state(many, page="3")["pages"] == -(-125 // PAGE_SIZE)
    for number in ("0", "-1", "99999999999999999999", "x", "²"):
        assert state(many, page=number)["list"], number


def test_one_group_in_full() -> None:
    told = state(group="looping")["group"]
    assert [row["trigger"] for row in told["rebalances"]][:2] == ["session expired", "new member"], "the last first"
    assert [life["until_ms"] for life in told["lives"]][:2] == [None, None], "those that are there first"
    assert [each["kind"] for each in told["also"]] == ["crash loop", "storm"]
    assert state(group="stuck-payments")["group"]["partitions"][0]["why"].startswith("it has committed offset 100 for")
    assert state(group="nobody")["group"] is None


def test_events_end_so_that_no_connection_stays() -> None:
    status, content = answers(view()).part("GET", "/groups/events", {"group": EVIL}, "")
    assert status == 200
    assert isinstance(content, Document)
    lines = content.body.decode().split("\n")
    assert lines[0].startswith("retry: ")
    assert lines[1] == "event: state"
    assert json.loads(lines[2].removeprefix("data: "))["group"]["id"] == EVIL
    assert lines[3:] == ["", ""]


@pytest.mark.parametrize(("method", "path", "status"), [("POST", "/groups/state", 405), ("GET", "/groups/../x", 404)])
def test_nothing_else(method: str, path: str, status: int) -> None:
    assert answers(view()).part(method, path, {}, "")[0] == status


def test_before_the_first_look() -> None:
    told = Answers(lambda: None, lambda: "test", lambda: 5, lambda: "it is being read").state({})
    assert (told["groups"], told["list"], told["trouble"]) == (0, [], "it is being read")


def test_the_page_needs_nothing_of_others() -> None:
    text = page()
    assert "/*SHARED*/" not in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "innerHTML" not in text
    assert "insertAdjacent" not in text


def test_series_of_trouble() -> None:
    found = {(name, labels): value for name, labels, value in rows(view(), NOW_MS + 2_500)}
    assert found["coordinatord_group_storm", ("looping",)] == 1
    assert found["coordinatord_group_crash_loops", ("looping",)] == 1
    assert found["coordinatord_group_status", ("looping", "crash loop")] == 1
    assert found["coordinatord_group_rebalances_total", ("looping", "session expired")] == 5
    assert found["coordinatord_group_stuck_partitions", ("stuck-payments",)] == 1
    assert found["coordinatord_group_alarming_partitions", ("stuck-payments",)] == 1
    assert found["kafka_consumergroup_group_max_lag", ("stuck-payments",)] == 7_100
    assert found["coordinatord_watch_age_seconds", ()] == 2.5
    assert ("kafka_consumergroup_group_sum_lag", ("no-offsets",)) not in found, "unknown is no 0"
