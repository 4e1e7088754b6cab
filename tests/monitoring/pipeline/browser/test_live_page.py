"""The live page in a real browser: groups as they change, on any screen, by keyboard, and for those who do not see it.

Screenshots are left in build/, for whoever wants to look.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from coordinatord.base.config.address import Listener
from coordinatord.base.observe.admin import AdminServer
from coordinatord.base.observe.health import Health
from coordinatord.monitoring.analysis.commit_window import Rewinds
from coordinatord.monitoring.analysis.expiry import Expiry
from coordinatord.monitoring.analysis.members import CRASH_LOOP, Event
from coordinatord.monitoring.analysis.share_state import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    Batch,
    ShareState,
    deliveries,
)
from coordinatord.monitoring.dashboard.responses import Answers
from coordinatord.monitoring.dashboard.trends import Trends
from coordinatord.monitoring.dashboard.view import Ending, GroupView, View
from tests.monitoring.dashboard.views import EVIL, MINUTE, NOW_MS, group, place, view
from tests.monitoring.pipeline.browser.chromium import Tab
from tests.monitoring.pipeline.browser.test_report_page import BUILD, OVERFLOW

ROWS = (
    "[...document.querySelectorAll('#groups tbody tr:not(.gap)')]"
    ".map(row => [...row.cells].map(cell => cell.textContent))"
)
PLACES = "[...document.querySelectorAll('#places tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))"
#: The elements whose text is to be seen, and is beyond the right edge.
BEYOND = """
[...document.querySelectorAll("main *")].filter(each => each.childElementCount == 0 && each.textContent.trim() &&
  !each.closest("svg, .skip, caption, thead, .table, pre, .plot") && each.getBoundingClientRect().width > 0 &&
  each.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map(each => each.textContent)
"""


class Served:
    """A port whose view the test replaces."""

    def __init__(self) -> None:
        self.view: View | None = view()
        self.trouble: str | None = None
        self.trends = hour()
        self.answers = Answers(
            lambda: self.view,
            lambda: "test",
            lambda: NOW_MS + 700,
            lambda: self.trouble,
            trends=self.trends,
            bootstrap="broker:9092",
        )
        self.server = AdminServer(Listener("HTTP", "127.0.0.1", 0), None, Health())
        self.server.add_part("/groups", self.answers.part)
        self.server.start()

    @property
    def url(self) -> str:
        return f"{self.server.url}groups/"


def hour() -> Trends:
    """The lag of the last hour: it has grown by a third."""
    trends = Trends()
    for minute in range(60, -1, -1):
        groups = {}
        for name, each in view().groups.items():
            lag = each.now.lag if each.now is not None else None
            past = None if lag is None else lag * (240 - minute) // 240
            rows = [row._replace(lag=row.lag * (240 - minute) // 240) for row in each.rows]
            groups[name] = replace(each, rows=rows, now=None if each.now is None else each.now._replace(lag=past))
        trends.add(View(NOW_MS - minute * MINUTE, groups))
    return trends


def busy() -> View:
    """Groups with a story, 340 that stopped within a minute, and 28 that are well."""
    groups = dict(view(28).groups)
    row = place("", "events", 0, 500)
    why = "no commit for 1500 s, its longest usual pause is 5 s, and 500 records are unread"
    for number in range(340):
        name = f"batch-{number:03d}"
        last_ms = NOW_MS - 25 * MINUTE + number * 100
        stopped = row._replace(group_id=name, status="stopped", why=why, alarming=True, committed_ms=last_ms)
        groups[name] = group(name, [stopped], members=1)
    groups["stuck-payments"] = storied(groups["stuck-payments"])
    return View(NOW_MS, groups, [Ending("payments", 7, 0, 7_200), Ending("payments", 8, 0, 339)])


def storied(found: GroupView) -> GroupView:
    """With owners, commits that went back, offsets that expire, and crash loops that are over."""
    loops = [
        Event(CRASH_LOOP, NOW_MS - n * 90 * MINUTE, NOW_MS - n * 80 * MINUTE, f"pay-{n}", "/10.0.0.7", 4,
              f"pay-{n} on 10.0.0.7 came 4 times, for 130 s each")
        for n in (1, 2, 3)
    ]  # fmt: skip
    week_ms = NOW_MS + 4_470 * MINUTE
    return replace(
        found,
        owners={("payments", number): ("pay-1", "/10.0.0.7") for number in (7, 8)},
        events=[*loops, Event("deploy", NOW_MS - 9_000_000, NOW_MS - 8_000_000, None, None, 2, "2 of 3 restarted")],
        rewinds={("payments", 8): Rewinds(2, 1_200, 1_300, 100, NOW_MS - 50 * MINUTE)},
        expiries=[Expiry("refunds", number, "not subscribed", week_ms + number) for number in range(3)],
    )  # fmt: skip


@pytest.fixture
def served() -> Iterator[Served]:
    found = Served()
    yield found
    found.server.stop()


def opened(tab: Tab, address: str, width: int = 1400, height: int = 900, *, dark: bool = False) -> None:
    tab.open(address, width, height, dark=dark, phone=width < 500)
    tab.until("document.querySelector('#groups tbody tr, #name')")


def click(tab: Tab, selector: str, text: str) -> None:
    """Click the first element with this text in it, as a person does: it must be to be seen, and nothing above it."""
    tab.page.locator(selector).filter(has_text=text).first.click()


def search(tab: Tab, words: str) -> None:
    tab.page.locator("#q").fill("")
    tab.page.locator("#q").press_sequentially(words)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1400, 900), (390, 844)], ids=["wide", "phone"])
@pytest.mark.parametrize(
    ("name", "address"),
    [("overview", "#/"), ("group", "#/group/looping"), ("topic", "#/topic/payments"), ("client", "#/client/10.0.0.7")],
)
def test_each_page_is_to_be_seen(
    tab: Tab, served: Served, name: str, address: str, width: int, height: int, dark: bool
) -> None:
    served.view = busy()
    opened(tab, f"{served.url}{address}", width, height, dark=dark)
    assert tab.complaints == []
    host = served.server.url
    assert [url for url in tab.requests if not url.startswith((host, "data:", "about:"))] == []
    assert tab.run(OVERFLOW) == 0
    assert tab.run(BEYOND) == []
    screen = f"{'phone' if width < 500 else 'wide'}-{'dark' if dark else 'light'}"
    tab.screenshot(BUILD / f"live-{name}-{screen}.png", whole=name != "overview")


def test_an_operator_finds_the_worst_group_its_reason_and_its_owner(tab: Tab, served: Served) -> None:
    """340 groups that stopped together are one line; the crash loop and the stuck group are not buried."""
    served.view = busy()
    opened(tab, served.url)
    rows = tab.run(ROWS)
    assert [row[:2] for row in rows[:3]] == [
        ["looping", "crash loop"],
        ["▸ 340 groups", "stopped"],
        ["stuck-payments", "stuck"],
    ]
    assert rows[0][2] == "worker-3 on 10.0.0.7 came 5 times, for 41 s each"
    assert "one incident, 25 min ago (01:48:20 UTC); all read events" in rows[1][2]
    assert rows[2][2].startswith("it has committed offset 100 for 20 min")
    assert [row[0] for row in rows][-2:] == ["▸ 28 groups", "▸ 1 group"], "those that are well are folded"

    click(tab, "#groups a", "stuck-payments")
    tab.until("document.querySelector('#name')")
    tab.until("document.querySelectorAll('#places tbody tr').length == 2")
    assert tab.run("document.querySelector('#name').textContent") == "stuck-payments stuck"
    page = tab.run("document.querySelector('#view').innerText")
    assert "What to do: look at the record at that offset" in page
    assert "--partition 7 --offset 100 --max-messages 1" in page
    first = tab.run(PLACES)[0]
    assert first[:6] == ["payments-7", "stuck", "pay-1 on 10.0.0.7", "100", "7,200", "7,100"]
    order = [page.index(word) for word in ("It means", "Commands to copy", "Partitions", "Lag of all partitions",
                                           "Members and rebalances", "Rebalances by cause")]  # fmt: skip
    assert order == sorted(order), "the first question comes first"

    lines = tab.run(
        "[...document.querySelectorAll('details summary')].map(each => each.innerText.replace(/\\s+/g, ' '))"
    )
    assert lines[1:5] == [
        "2 times in 1 partition, by 1,200 records together, which were read again",
        "3 partitions in 3 d 2 h, 2026-11-26 04:43:20 UTC; counted since the commit: no member reads the topic",
        "1 member",
        "crash loop 3 times, last 1 h 20 min ago pay-1 on 10.0.0.7 came 4 times, for 2 min 10 s each",
    ]
    click(tab, "details summary", "crash loop")
    assert tab.page.get_by_text("pay-3 on 10.0.0.7 came 4 times, for 2 min 10 s each").is_visible()
    click(tab, "details summary", "3 partitions")
    assert tab.page.get_by_text("refunds-2", exact=True).is_visible()
    click(tab, "details summary", "1,200 records")
    assert (
        "payments-8: 2 times, by 1,200 records; the last time from 1,300 to 100, 50 min ago"
        in tab.page.locator("#view").inner_text()
    )

    click(tab, "#places a", "pay-1")
    tab.until("document.querySelector('#name') && document.querySelector('#name').textContent.endsWith('pay-1')")
    assert tab.run(PLACES)[0][:4] == ["stuck-payments", "stuck", "pay-1", "10.0.0.7"]
    tab.run("history.back()")
    tab.until(
        "document.querySelector('#name') && document.querySelector('#name').textContent === 'stuck-payments stuck'"
    )
    click(tab, "#places a", "payments")
    tab.until("document.querySelector('#readers')")
    assert "Topic payments" in tab.run("document.querySelector('#name').textContent")
    click(tab, "nav a", "all groups")
    tab.until("document.querySelectorAll('#groups tbody tr').length > 3")
    assert tab.complaints == []


def test_filter_search_sort_and_open(tab: Tab, served: Served) -> None:
    served.view = busy()
    opened(tab, served.url)
    click(tab, "button.fold", "340 groups")
    tab.until("document.querySelector('button.fold').getAttribute('aria-expanded') === 'true'")
    assert tab.run(ROWS)[2][:2] == ["batch-339", "stopped"] or tab.run(ROWS)[2][0].startswith("batch-")
    click(tab, "#tiles button", "need attention")
    tab.until("document.querySelector('#found').textContent === '342 groups'")
    assert tab.run("location.hash") == "#/?status=attention"
    assert tab.run("document.querySelectorAll('#groups tbody tr').length") < 100, "only the visible ones are elements"
    search(tab, "stuck PAYMENTS")
    tab.until("document.querySelector('#found').textContent === '1 group'")
    click(tab, "#groups a", "stuck-payments")
    tab.until("document.querySelector('#name')")
    tab.run("history.back()")
    tab.until("document.querySelector('#found')")
    assert tab.run("document.querySelector('#q').value") == "stuck PAYMENTS", "a return finds the same filter"
    # A form filler, or a person who leaves the field at once; the port's next answer comes meanwhile.
    tab.run("const q = document.querySelector('#q'); q.value = 'batch'; q.dispatchEvent(new Event('input')); draw()")
    tab.until("document.querySelector('#found').textContent === '340 groups'")
    tab.page.locator("#sort").select_option("group")
    tab.until("location.hash.includes('sort=group')")
    assert tab.run(ROWS)[0][0] == "batch-000"
    tab.run("scrollTo(0, document.body.scrollHeight)")
    tab.until("[...document.querySelectorAll('#groups a')].some(each => each.textContent === 'batch-339')")
    assert tab.complaints == []


def test_a_share_group_has_its_window(tab: Tab, served: Served) -> None:
    rows = [place("sharers", "jobs", number, 40) for number in range(2)]
    stored = (Batch(100, 102, ARCHIVED, 2), Batch(103, 104, ACKNOWLEDGED, 1), Batch(105, 106, AVAILABLE, 4))
    windows = {
        ("jobs", 0): deliveries(ShareState(1, 1, 100, -1, stored)),
        ("jobs", 1): deliveries(ShareState(1, 1, -1, -1, ())),
    }
    found = replace(
        group("sharers", rows, group_type="share"), deliveries=windows, redelivered=7, archived=1,
        state_changes_ms={("jobs", 0): NOW_MS - 48 * 60 * MINUTE},
    )  # fmt: skip
    served.view = View(NOW_MS, {"sharers": found})
    opened(tab, f"{served.url}#/group/sharers")
    window = PLACES.replace("#places", "#window")
    assert tab.run(window) == [
        ["jobs-0", "100", "5", "3", "5", "2 from offset 105", "4 at offset 105", "2 d ago"],
        ["jobs-1", "not begun", "0", "0", "0", "0", "–", "?"],
    ]
    assert (
        "7 records delivered again, 1 record archived, since the watcher started"
        in tab.page.locator("#view").inner_text()
    )
    assert tab.run("document.querySelector('#places th:nth-child(4)').textContent") == "start offset"
    served.view = View(NOW_MS, {"sharers": replace(found, acquired={("jobs", 0): 6})})
    opened(tab, f"{served.url}#/group/sharers")
    assert [row[2] for row in tab.run(window)] == ["6", "?"], "what members have acquired is known of a coordinatord"


def test_what_peers_say_is_text(tab: Tab, served: Served) -> None:
    opened(tab, served.url)
    click(tab, "#groups a", EVIL)
    tab.until("document.querySelectorAll('#rebalances > details').length == 1")
    assert tab.run("document.querySelectorAll('#main img, #main script').length") == 0
    assert "broken" not in tab.run("document.title").replace(EVIL, "")
    shown = tab.run("document.querySelector('#view').textContent")
    assert shown.count(EVIL) >= 6
    assert f"waits for {EVIL}" in shown
    assert tab.complaints == []
    turned = "safe\u202egpj.exe\x07"
    served.view = View(NOW_MS, {turned: group(turned, [place(turned, "t", 0, 3)])})
    opened(tab, served.url)
    assert tab.run("document.querySelector('#groups a').textContent") == "safe\\u202egpj.exe\\u0007"


def test_it_changes_by_itself(tab: Tab, served: Served) -> None:
    """What happens is shown without a click, and where the keyboard was it stays; a deadline runs down meanwhile."""
    opened(tab, f"{served.url}#/group/stuck-payments")
    tab.until("document.querySelector('.bar i') && document.querySelector('.bar i').style.width")
    before = tab.run("document.querySelector('.bar').previousElementSibling.textContent")
    tab.until(f"document.querySelector('.bar').previousElementSibling.textContent !== {json.dumps(before)}")
    tab.run("document.querySelector('nav a').focus()")
    tab.page.keyboard.press("Enter")
    tab.until("document.querySelectorAll('#groups a').length > 1")
    tab.until("document.activeElement.id === 'main'")  # a screen reader begins there
    assert tab.run("getComputedStyle(document.activeElement).outlineStyle") == "none", "no key does anything there"
    tab.run("document.querySelectorAll('#groups a')[1].focus()")
    focused = "document.activeElement.textContent"
    assert tab.run(focused) == "stuck-payments"
    assert served.view is not None
    fresh = group("fresh", [place("fresh", "orders", 0, 9_999, stuck=True)])
    served.view = View(NOW_MS, {**served.view.groups, "fresh": fresh})
    tab.until("document.querySelectorAll('#groups a')[1].textContent === 'fresh'")
    assert tab.run(focused) == "stuck-payments"
    served.trouble = "no broker answers at b:1: connection refused"
    tab.until("!document.querySelector('#trouble').hidden")
    assert "connection refused" in tab.run("document.querySelector('#trouble').textContent")
    tab.run("document.querySelector('#pause').click()")
    served.view = View(NOW_MS, {})
    time.sleep(6)
    assert tab.run("document.querySelectorAll('#groups a')[1].textContent") == "fresh", "paused"
    tab.run("document.querySelector('#pause').click()")
    tab.until("document.querySelectorAll('#groups tbody tr').length === 0")
    assert tab.run("document.querySelector('#none').textContent") == "No group has committed an offset yet."


def test_ten_thousand_groups_are_a_list_of_few_elements(tab: Tab, served: Served) -> None:
    served.view = view(9_995)
    opened(tab, f"{served.url}#/?sort=group")
    tab.until("document.querySelector('#found').textContent === '10,000 groups'")
    elements = "document.querySelectorAll('#groups tbody tr').length"
    assert tab.run(elements) < 80
    tab.run("scrollTo(0, document.body.scrollHeight)")
    tab.until("[...document.querySelectorAll('#groups a')].some(each => each.textContent === 'stuck-payments')")
    assert tab.run(elements) < 80
    search(tab, "09876")
    tab.until("document.querySelector('#found').textContent === '1 group'")
    assert tab.run(ROWS)[0][0] == "service-09876"
    assert tab.complaints == []


def test_by_keyboard(tab: Tab, served: Served) -> None:
    opened(tab, served.url)

    seen = []
    for _ in range(20):
        tab.page.keyboard.press("Tab")
        seen.append(tab.run("document.activeElement.id || document.activeElement.textContent"))
        if seen[-1] == "looping":
            break
    assert seen[:3] == ["To the content", "Consumer groups", "pause"]
    assert seen[-3:] == ["q", "sort", "looping"]
    tab.page.keyboard.press("Enter")
    tab.until("document.querySelector('#name') && document.querySelector('#name').textContent.startsWith('looping')")
    assert tab.run("document.activeElement.id") == "main"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("address", ["#/", "#/group/looping", "#/topic/payments", "#/client/10.0.0.7"])
def test_axe_finds_nothing(tab: Tab, served: Served, axe: str, address: str, width: int, dark: bool) -> None:
    served.view = busy()
    opened(tab, f"{served.url}{address}", width, dark=dark)
    assert tab.violations(axe) == []
