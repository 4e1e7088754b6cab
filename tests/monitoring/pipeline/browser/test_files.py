"""The pages that are one file, in a real browser: the report, a sweep of simulate, stories of conform. On any screen,
light and dark, by keyboard, for those who do not see them, and on paper.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.daemon import running
from tests.monitoring.pipeline.browser.chromium import Tab
from tests.monitoring.pipeline.browser.test_report_page import BUILD, DRAWN, OVERFLOW, written

SWEEP = ("simulate", "--members", "3", "--partitions", "6", "--duration", "5m", "--event", "1m:crash:1",
         "--sweep", "session=10s,20s", "--sweep", "static=true,false")  # fmt: skip
STORIES = ("conform", "--only", "static_rejoin_with_id", "--only", "join_duplicate_protocols")


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with sweep.html, and stories.html, in which an answer differs."""
    path = tmp_path_factory.mktemp("pages")

    def make(name: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "coordinatord", *arguments, "--html", str(path / name)]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        assert told.returncode in (0, 1), told.stderr

    make("sweep.html", *SWEEP)
    with running(path / "daemon", {"group.initial.rebalance.delay.ms": "0"}) as daemon:
        make("stories.html", *STORIES, "--bootstrap", daemon.bootstrap)
    return path


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1400, 900), (390, 844)], ids=["wide", "phone"])
@pytest.mark.parametrize("name", ["sweep", "stories"])
def test_a_sweep_and_stories_are_to_be_seen(
    pages: Path, tab: Tab, axe: str, name: str, width: int, height: int, dark: bool
) -> None:
    tab.open(pages / f"{name}.html", width, height, dark=dark, phone=width < 500)
    tab.screenshot(BUILD / f"{name}-{width}-{'dark' if dark else 'light'}.png", whole=True)
    assert tab.run(OVERFLOW) == 0
    assert tab.violations(axe) == []
    assert tab.complaints == []
    assert len(tab.requests) == 1, "it loads nothing"
    if name == "stories":
        tab.page.locator("summary").first.click()
        assert "A: JoinGroup v3 protocols=" in tab.page.locator("pre").first.inner_text()
    else:
        widths = tab.run("[...document.querySelectorAll('.track i')].map(each => each.getBoundingClientRect().width)")
        assert min(widths) > 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("address", ["#/", "#/group/payments", "#/topic/pay", "#/client/c1"])
def test_axe_finds_nothing_in_the_report(
    tab: Tab, out: Path, tmp_path: Path, axe: str, address: str, width: int, dark: bool
) -> None:
    path = written(out, tmp_path / "report.html")
    tab.open(f"{path.as_uri()}{address}", width, 900, dark=dark, phone=width < 500)
    tab.until("document.querySelector('#groups tbody tr, #name')")
    assert tab.violations(axe) == []
    assert tab.run(OVERFLOW) == 0
    name = address.removeprefix("#/").replace("/", "-") or "overview"
    tab.screenshot(BUILD / f"report-{name}-{width}-{'dark' if dark else 'light'}.png", whole=True)


def test_the_report_by_keyboard(tab: Tab, out: Path, tmp_path: Path) -> None:
    tab.open(written(out, tmp_path / "report.html"), 1400, 900, dark=False)
    focused = "document.activeElement.id || document.activeElement.textContent"
    press = tab.page.keyboard.press
    seen = []
    while not seen or seen[-1] != "payments":
        assert len(seen) < 20, seen
        press("Tab")
        seen.append(tab.run(focused))
    assert seen[:2] == ["To the content", "Consumer groups"]
    assert seen[-3:] == ["q", "sort", "payments"]
    press("Enter")
    tab.until("document.querySelector('#name')")
    assert tab.run(focused) == "main"
    press("Tab")
    assert tab.run(focused) == "← all groups"
    press("Enter")
    tab.until("document.querySelector('#groups')")
    tab.page.locator("#q").focus()
    tab.page.keyboard.type("payments")
    tab.until("document.querySelector('#found').textContent === '1 group'")


def test_the_report_on_paper(tab: Tab, out: Path, tmp_path: Path) -> None:
    """All groups in a list, then each group in full with its plot and its folds open; then it is as before."""
    tab.open(written(out, tmp_path / "report.html"), 1400, 900, dark=True)
    before = tab.run("document.body.innerText")
    tab.run("dispatchEvent(new Event('beforeprint'))")
    names = tab.run("[...document.querySelectorAll('#paper h2')].map(each => each.textContent)")
    assert names[0] == "payments crash loop"
    assert len(names) == 3
    assert tab.run("document.querySelectorAll('#groups tbody tr:not(.gap)').length") == 4, "three groups, and a fold"
    tab.until("document.querySelectorAll('#paper canvas').length >= 1")
    assert tab.run(DRAWN)[0]
    assert tab.run("[...document.querySelectorAll('details')].every(each => each.open)")
    assert tab.run("document.querySelectorAll('#paper #name').length") == 0, "an id is there once"
    tab.run("dispatchEvent(new Event('afterprint'))")
    assert tab.run("document.body.innerText") == before
    tab.page.pdf(path=BUILD / "report.pdf")
    assert (BUILD / "report.pdf").read_bytes().count(b"/Type /Page\n") > 3
    assert tab.complaints == []
