"""What the live page is told: groups by urgency, searched and paged, one of them in full; whatever is asked."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from typing import Any

import pytest

from coordinatord.base.observe.log_part import Document
from coordinatord.monitoring.analysis import severity
from coordinatord.monitoring.analysis.advice import ADVICE
from coordinatord.monitoring.analysis.commit_window import Rewinds
from coordinatord.monitoring.analysis.expiry import Expiry
from coordinatord.monitoring.analysis.members import CRASH_LOOP, STORM, Event
from coordinatord.monitoring.dashboard.page import FILES, FRONT, page
from coordinatord.monitoring.dashboard.responses import PAGE_SIZE, Answers
from coordinatord.monitoring.dashboard.series import rows
from coordinatord.monitoring.dashboard.trends import Trends
from coordinatord.monitoring.dashboard.view import View
from tests.monitoring.dashboard.views import EVIL, NOW_MS, group, pickers, place, view


def answers(found: View | None) -> Answers:
    return Answers(lambda: found, lambda: "test", lambda: NOW_MS + 500, lambda: None, bootstrap="b:9")


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
    assert [each["kind"] for each in told["events"]] == ["crash loop", "storm"]
    assert state(group="stuck-payments")["group"]["partitions"][0]["why"].startswith("it has committed offset 100 for")
    assert state(group="nobody")["group"] is None


def test_what_the_group_page_has() -> None:
    """The verdict with its meaning, the action with commands, then partitions with their owners."""
    found = view()
    stuck = replace(found.groups["stuck-payments"], owners={("payments", 7): ("pay-1", "/10.0.0.7")})
    told = answers(View(NOW_MS, {**found.groups, "stuck-payments": stuck})).detail("group", "stuck-payments", "")[
        "found"
    ]
    assert told["why"].startswith("it has committed offset 100 for 20 min"), told["why"]
    assert told["means"] == ADVICE["stuck"].means
    assert told["do"] == ADVICE["stuck"].do
    assert told["partitions"][0]["owner"] == {"client": "pay-1", "host": "10.0.0.7"}
    commands = [each["command"] for each in told["commands"]]
    assert "coordinatord groups why stuck-payments --bootstrap b:9" in commands
    assert (
        "coordinatord groups reset-offsets stuck-payments --topic payments:7 --to-offset 101 --bootstrap b:9"
        in commands
    )
    assert not any("--execute" in each for each in commands)


def test_the_page_of_a_share_group() -> None:
    """Its share window, and commands that fit the type of the group."""
    told = state(View(NOW_MS, {"pickers": pickers()}), group="pickers")["group"]
    assert (told["status"], told["redelivered"], told["archived"]) == ("poison record", 5, 2)
    assert told["means"] == ADVICE["poison record"].means
    found = {row["partition"]: row for row in told["window"]}
    assert (found[1]["topic"], found[1]["start_offset"], found[1]["done"], found[1]["archived"]) == ("orders", 40, 2, 2)
    assert (found[1]["suspected"], found[1]["most_deliveries"], found[1]["at_offset"]) == (1, 3, 43)
    assert (found[0]["start_offset"], found[0]["suspected"]) == (7, 0)
    commands = [each["command"] for each in told["commands"]]
    assert (
        "kafka-console-consumer.sh --bootstrap-server b:9 --topic orders --partition 1 --offset 43 --max-messages 1"
        in commands
    )
    assert "kafka-share-groups.sh --bootstrap-server b:9 --describe --group pickers" in commands
    assert state(group="looping")["group"]["window"] == []


def test_a_name_in_a_command_is_one_word_for_a_shell() -> None:
    commands = answers(view()).detail("group", EVIL, "")["found"]["commands"]
    assert shlex.split(commands[0]["command"])[3] == EVIL
    bad = "a\nrm -rf b"
    assert answers(View(NOW_MS, {bad: group(bad, [])})).detail("group", bad, "")["found"]["commands"] == []


def test_a_page_that_has_the_content_gets_none() -> None:
    told = answers(view()).detail("group", "looping", "")
    assert set(answers(view()).detail("group", "looping", told["tag"])) >= {"same", "now_ms"}
    assert "found" not in answers(view()).detail("group", "looping", told["tag"])
    assert answers(view()).detail("group", "nobody", "")["found"] is None


def test_a_topic_and_its_readers() -> None:
    told = answers(view()).detail("topic", "payments", "")["found"]
    assert [(row["group"], row["status"], row["lag"]) for row in told["readers"]] == [
        ("stuck-payments", "stuck", 7_100)
    ]
    assert answers(view()).detail("topic", "nothing", "")["found"] is None


@pytest.mark.parametrize("name", ["pay-1", "10.0.0.7"])
def test_a_client_or_host_and_what_it_has(name: str) -> None:
    found = view()
    owners = {("payments", 7): ("pay-1", "/10.0.0.7"), ("payments", 8): ("pay-2", "/10.0.0.7")}
    groups = {**found.groups, "stuck-payments": replace(found.groups["stuck-payments"], owners=owners)}
    told = answers(View(NOW_MS, groups)).detail("client", name, "")["found"]
    assert ("stuck-payments", ["payments-7"]) in [(each["group"], each["owned"]) for each in told["members"]]
    assert answers(found).detail("client", "worker-3", "")["found"] is None, "it is gone"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", "/groups/state", 405), ("GET", "/groups/../x", 404), ("GET", "/groups/events", 404)],
)
def test_nothing_else(method: str, path: str, status: int) -> None:
    assert answers(view()).part(method, path, {}, "")[0] == status


def test_before_the_first_look() -> None:
    told = Answers(lambda: None, lambda: "test", lambda: 5, lambda: "it is being read").state({})
    assert (told["groups"], told["list"], told["trouble"]) == (0, [], "it is being read")


def test_the_page_runs_and_loads_its_own_files_alone() -> None:
    text = page()
    assert "script-src 'self'" in text
    assert "default-src 'none'" in text
    assert "unsafe" not in text
    assert not re.search(r"<script(?![^>]* src=)|<style|style=| on[a-z]+=|http:|https:", text)
    named = set(re.findall(r'(?:src|href)="([a-z]+\.(?:js|css))"', text))
    assert named == FILES.keys()
    for name in named - {"uplot.js"}:
        status, content = answers(view()).part("GET", f"/groups/{name}", {}, "")
        assert (status, isinstance(content, Document)) == (200, True)
        assert isinstance(content, Document)
        for word in (b"innerHTML", b"insertAdjacent", b"outerHTML", b"document.write", b"eval("):
            assert word not in content.body, (name, word)


def test_the_licence_of_uplot_is_beside_it() -> None:
    text = (FRONT / "UPLOT-LICENSE").read_text()
    assert text.startswith("The MIT License")
    assert "Leon Sorokin" in text


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


def test_events_steps_back_and_expiry_are_lines_with_a_count() -> None:
    loops = [
        Event(
            CRASH_LOOP,
            n * 1_000,
            n * 1_000 + 500,
            f"c came {n}",
            "/h",
            3,
            f"c came {n} on h came 3 times, for 200 s each",
        )
        for n in range(40)
    ]
    week = [Expiry("t", number, "empty", 600_000 + number) for number in range(50)]
    found = replace(
        view().groups["looping"], events=[*loops, Event("deploy", 5, 6, None, None, 2, "2 of 2 restarted within 90 s")],
        rewinds={("orders", 1): Rewinds(1, 10), ("orders", 0): Rewinds(3, 200, 300, 100, 7)},
        expiries=[*week, Expiry("t", 99, "simple", 600_000), Expiry("u", 0, "empty", 90_000_000)],
    )  # fmt: skip
    told = state(View(NOW_MS, {"looping": found}), group="looping")["group"]
    lines = [(each["kind"], each["count"], each["goes_on"], len(each["last"])) for each in told["events"]]
    assert lines == [("crash loop", 41, True, 30), ("storm", 1, True, 1), ("deploy", 1, False, 1)]
    assert told["events"][0]["last"][1]["text"] == "c came 39 on h came 3 times, for 3 min 20 s each"
    assert told["events"][2]["last"][0]["text"] == "2 of 2 restarted within 1 min 30 s"
    assert [(each["partition"], each["steps"], each["time_ms"]) for each in told["rewinds"]] == [
        (0, 3, 7),
        (1, 1, None),
    ]
    assert [(each["count"], each["counts_from"], len(each["partitions"])) for each in told["expiries"]] == [
        (50, "empty", 30), (1, "simple", 1), (1, "empty", 1),
    ]  # fmt: skip


def test_the_curves_of_a_group_are_those_of_its_partitions_with_the_most_lag() -> None:
    rows = [place("g", "orders", number, 10 * number) for number in range(12)]
    trends = Trends()
    for minute in range(3):
        shown = [row._replace(lag=None if minute == 1 and row.partition == 11 else row.lag) for row in rows]
        trends.add(View(NOW_MS + minute * 60_000, {"g": group("g", shown), "one": group("one", rows[5:6])}))
    found = {"g": group("g", rows), "one": group("one", rows[5:6])}
    served = Answers(lambda: View(NOW_MS, found), lambda: "test", lambda: NOW_MS, lambda: None, trends=trends)
    curves = served.detail("group", "g", "")["found"]["curves"]
    assert curves["times"] == [NOW_MS + minute * 60_000 for minute in range(3)]
    assert curves["names"] == [f"orders-{number}" for number in range(11, 4, -1)]
    assert curves["lags"][:2] == [[110, None, 110], [100, 100, 100]]
    assert curves["left_out"] == 4
    assert served.detail("group", "one", "")["found"]["curves"]["names"] == [], "it is that of the group"
