"""The live page of the exporter beside Apache Kafka, as a person woken at night reads it: a cluster of groups in all
kinds of trouble (cluster_of_groups.py says what is right of each); which is first, why, where, whose; and the way back.
"""

from __future__ import annotations

import re
import time
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from coordinatord.monitoring.analysis.severity import URGENT
from tests.monitoring.exporter.cluster_of_groups import GROUPS, HOSTILE, WAIT_S, cluster_of_groups, going_on, produce
from tests.monitoring.exporter.test_verdicts_on_kafka import is_right, said_by_exporter, watched, wrong
from tests.monitoring.pipeline.browser.chromium import Tab
from tests.monitoring.pipeline.browser.test_live_page import BEYOND, PLACES, ROWS, click, opened, search
from tests.monitoring.pipeline.browser.test_report_page import BUILD, OVERFLOW
from tests.reference.broker import KafkaBroker

pytestmark = [pytest.mark.reference, pytest.mark.full, pytest.mark.timeout(3600)]

RIGHT = {group: status for group, status in GROUPS.items() if group != "again"}
"""Without the group whose topic is made anew: whether its client survives that is not the page's affair."""
NEEDED = {group for group, status in RIGHT.items() if status in URGENT}
HOSTILE_SHOWN = HOSTILE.replace("\x1b", "\\u001b")


def shown(tab: Tab) -> dict[str, list[str]]:
    """The cells of each group that the overview lists, by the group's name."""
    return {row[0]: row[1:] for row in tab.run(ROWS) if not re.match(r"[▸▾] ", row[0])}


def test_what_a_person_reads_and_does(tab: Tab, kafka_libs: Path, tmp_path: Path, axe: str) -> None:
    with cluster_of_groups(kafka_libs, tmp_path) as broker, going_on(broker), watched(broker) as exporter:
        wait_until_right(broker, exporter)
        opened(tab, f"{exporter}/groups/")
        tab.until("document.querySelectorAll('#groups tbody tr').length > 3")
        read_the_overview(tab)
        read_the_stuck_group(tab)
        read_its_owner_and_topic(tab)
        read_the_others(tab)
        for address in ("#/", "#/group/stuck", "#/group/loop", "#/topic/orders", "#/client/stuck"):
            for width in (1400, 390):
                look(tab, f"{exporter}/groups/{address}", width, axe)
        assert tab.complaints == []


def wait_until_right(broker: KafkaBroker, exporter: str) -> None:
    """Wait until the exporter has the right status of each group; the slow one gets a record now and then."""
    for look in count():
        if look % 40 == 0:
            produce(broker, "seldom", 1)
        amiss = wrong({group: said for group, said in said_by_exporter(exporter).items() if group in RIGHT}, RIGHT)
        if not amiss:
            return
        assert look < 2 * WAIT_S, amiss
        time.sleep(0.5)


def read_the_overview(tab: Tab) -> None:
    """Members whose sessions expired come first, then the crash loops, each with its reason; all others have the right
    status; the tile of those that need attention has as many.
    """
    for fold in range(tab.page.locator("button.fold").count()):
        tab.page.locator("button.fold").nth(fold).click()
    rows = shown(tab)
    urgent = [(group, row[0]) for group, row in rows.items() if row[0] in URGENT]
    assert {group for group, _ in urgent[:3]} == {"dead", "static dead", "new dead"}, urgent
    assert {group for group, _ in urgent[3:5]} == {"loop", "killed loop"}, urgent
    for group, _ in urgent[3:5]:
        why = rows[group][1]
        assert re.fullmatch(rf"{group} on 127\.0\.0\.1 came \d+ times, for [\d.]+ (s|min) each", why), why
    for group, status in RIGHT.items():
        name = HOSTILE_SHOWN if group == HOSTILE else group
        assert is_right(rows[name][0].split(" · ")[0], status), (group, rows[name])
    click(tab, "#tiles button", "need attention")
    tab.until("location.hash === '#/?status=attention'")
    needed = shown(tab).keys()
    assert needed - {"again"} == NEEDED, needed
    assert tab.run("document.querySelector('#found').textContent") == f"{len(needed)} groups"
    click(tab, "#tiles button", "all groups")


def read_the_stuck_group(tab: Tab) -> None:
    search(tab, "stuck ORDERS")
    tab.until("document.querySelector('#found').textContent === '1 group'")
    assert re.match(r"it has committed offset 5 for .+, [\d,]+ unread; reads 0/s, ", shown(tab)["stuck"][1]), shown(tab)
    click(tab, "#groups a", "stuck")
    tab.until("document.querySelectorAll('#places tbody tr').length === 1")
    assert tab.run("document.querySelector('#name').textContent") == "stuck stuck"
    [place] = tab.run(PLACES)
    assert place[:4] == ["orders-0", "stuck", "stuck on 127.0.0.1", "5"]
    end, lag = (int(cell.replace(",", "")) for cell in place[4:6])
    assert lag == end - 5 > 0
    text = tab.page.locator("#view").inner_text()
    assert "What to do: look at the record at that offset" in text
    assert "--topic orders --partition 0 --offset 5 --max-messages 1" in text
    assert "coordinatord groups reset-offsets stuck --topic orders:0 --to-offset 6" in text


def read_its_owner_and_topic(tab: Tab) -> None:
    click(tab, "#places a", "127.0.0.1")
    tab.until("document.querySelector('#name')?.textContent === 'Client or host 127.0.0.1'")
    found = {row[0]: row for row in tab.run(PLACES)}
    assert found["stuck"][1:5] == ["stuck", "stuck", "127.0.0.1", "orders-0"]
    assert "healthy" in found
    tab.page.go_back()
    tab.until("document.querySelector('#name')?.textContent === 'stuck stuck'")
    click(tab, "#places a", "orders")
    tab.until("document.querySelector('#readers')")
    readers: dict[str, Any] = {row[0]: row[1] for row in tab.run(PLACES.replace("#places", "#readers"))}
    for group in ("stuck", "dead", "static dead", "new dead"):
        assert readers[group] == GROUPS[group]
    assert "robbed" not in readers
    tab.page.go_back()
    tab.page.go_back()
    tab.until("document.querySelector('#found')")
    assert tab.run("document.querySelector('#q').value") == "stuck ORDERS", "a return finds the same search"
    search(tab, "")
    tab.until("document.querySelector('#found').textContent !== '1 group' && !location.hash.includes('q=')")


def read_the_others(tab: Tab) -> None:
    """The verdict and the partitions of each group that needs somebody; of one that ended, what expires when."""
    name = "document.querySelector('#name')?.textContent"
    for group in sorted(NEEDED):
        tab.run(f"location.hash = '#/group/{quote(group)}'")
        tab.until(f"{name} === '{group} {GROUPS[group]}'")
        assert tab.run(PLACES)
    tab.run("location.hash = '#/group/left'")
    tab.until(f"{name} === 'left ended'")
    text = tab.page.locator("#view").inner_text()
    assert re.search(r"1 partition in (7 d|6 d 23 h), .* UTC; counted since the last member went", text), text


def look(tab: Tab, address: str, width: int, axe: str) -> None:
    opened(tab, address, width, 844 if width < 500 else 900)
    assert tab.run(OVERFLOW) == 0, address
    assert tab.run(BEYOND) == [], address
    assert tab.violations(axe) == [], address
    name = address.rpartition("#/")[2].replace("/", "-") or "overview"
    tab.screenshot(BUILD / f"kafka-{name}-{width}.png", whole=True)
