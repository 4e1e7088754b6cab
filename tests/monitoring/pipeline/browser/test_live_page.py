"""The live page in a real browser: groups as they change, on any screen, by keyboard, and for those who do not see it.

Screenshots are left in build/, for whoever wants to look.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from coordinatord.base.config.address import Listener
from coordinatord.base.observe.admin import AdminServer
from coordinatord.base.observe.health import Health
from coordinatord.monitoring.dashboard.responses import Answers
from coordinatord.monitoring.dashboard.view import View
from tests.monitoring.dashboard.views import EVIL, NOW_MS, group, place, view
from tests.monitoring.pipeline.browser.chromium import Tab
from tests.monitoring.pipeline.browser.test_report_page import BUILD, OVERFLOW
from tests.reference.broker import cache_directory, exclusive

AXE = "4.10.3"
ROWS = "[...document.querySelectorAll('#groups tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))"
#: The elements whose text is to be seen, and is beyond the right edge.
BEYOND = """
[...document.querySelectorAll("main *")].filter(each => each.childElementCount == 0 && each.textContent.trim() &&
  !each.closest("svg, .skip, caption, thead") && each.getBoundingClientRect().width > 0 &&
  each.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map(each => each.textContent)
"""


class Served:
    """A port whose view the test replaces."""

    def __init__(self) -> None:
        self.view: View | None = view()
        self.trouble: str | None = None
        self.answers = Answers(lambda: self.view, lambda: "test", lambda: NOW_MS + 700, lambda: self.trouble)
        self.server = AdminServer(Listener("HTTP", "127.0.0.1", 0), None, Health())
        self.server.add_part("/groups", self.answers.part)
        self.server.start()

    @property
    def url(self) -> str:
        return f"{self.server.url}groups/"


@pytest.fixture
def served() -> Iterator[Served]:
    found = Served()
    yield found
    found.server.stop()


def opened(tab: Tab, address: str, width: int = 1400, height: int = 900, *, dark: bool = False) -> None:
    tab.open("about:blank", width, height, dark=dark)  # another fragment alone would not load the page again
    tab.open(address, width, height, dark=dark, phone=width < 500)
    until(tab, "document.querySelectorAll('#groups tbody tr').length > 0")


def until(tab: Tab, condition: str) -> None:
    """Wait until a JavaScript expression is true."""
    deadline = time.monotonic() + 60
    while not tab.run(f"!!({condition})"):
        assert time.monotonic() < deadline, condition
        time.sleep(0.05)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1400, 900), (390, 844)], ids=["wide", "phone"])
def test_all_of_it_is_to_be_seen(tab: Tab, served: Served, width: int, height: int, dark: bool) -> None:
    opened(tab, f"{served.url}#group=looping", width, height, dark=dark)
    until(tab, "document.querySelectorAll('#rebalances li').length == 10")
    assert tab.complaints == []
    host = served.server.url
    assert [url for url in tab.requests if not url.startswith((host, "data:", "about:"))] == []
    rows = tab.run(ROWS)
    assert [row[:2] for row in rows][:2] == [["looping", "crash loop"], ["stuck-payments", "stuck"]]
    assert tab.run("document.querySelector('#rebalances li b').textContent") == "session expired", "the verdict first"
    assert tab.run("document.querySelectorAll('#group svg .life').length") == 7
    assert tab.run("document.querySelectorAll('#group svg .band').length") == 10
    assert "storm" in tab.run("document.querySelector('#group').textContent")
    assert tab.run(OVERFLOW) == 0
    assert tab.run(BEYOND) == []
    tab.screenshot(BUILD / f"live-{'phone' if width < 500 else 'wide'}-{'dark' if dark else 'light'}.png", whole=True)


def test_what_peers_say_is_text(tab: Tab, served: Served) -> None:
    opened(tab, served.url)
    tab.run(f"[...document.querySelectorAll('button.group')].find(e => e.textContent === {json.dumps(EVIL)}).click()")
    until(tab, "document.querySelectorAll('#rebalances li').length == 1")
    assert tab.run("document.querySelectorAll('#main img, #main script').length") == 0
    assert tab.run("document.title") == "Consumer groups, live"
    shown = tab.run("document.querySelector('#group').textContent")
    assert shown.count(EVIL) >= 6
    assert f"waits for {EVIL}" in shown
    assert tab.complaints == []


def test_it_changes_by_itself(tab: Tab, served: Served) -> None:
    """What happens is shown without a click, and where the keyboard was it stays; a deadline runs down meanwhile."""
    opened(tab, f"{served.url}#group=stuck-payments")
    until(tab, "document.querySelector('.bar i') && document.querySelector('.bar i').style.width")
    before = tab.run("document.querySelector('.bar').previousElementSibling.textContent")
    tab.run("document.querySelectorAll('button.group')[1].focus()")
    focused = "document.activeElement.dataset.group"
    assert tab.run(focused) == "stuck-payments"
    assert served.view is not None
    fresh = group("fresh", [place("fresh", "orders", 0, 9_999, stuck=True)])
    served.view = View(NOW_MS, {**served.view.groups, "fresh": fresh})
    until(tab, "document.querySelectorAll('#groups button')[1].textContent === 'fresh'")
    assert tab.run(focused) == "stuck-payments"
    until(tab, f"document.querySelector('.bar').previousElementSibling.textContent !== {json.dumps(before)}")
    served.trouble = "no broker answers at b:1: connection refused"
    until(tab, "!document.querySelector('#trouble').hidden")
    assert "connection refused" in tab.run("document.querySelector('#trouble').textContent")
    tab.run("document.querySelector('#pause').click()")
    served.view = View(NOW_MS, {})
    time.sleep(3)
    assert tab.run("document.querySelectorAll('#groups button')[1].textContent") == "fresh", "paused"
    tab.run("document.querySelector('#pause').click()")
    until(tab, "document.querySelectorAll('#groups tbody tr').length === 0")
    assert tab.run("document.querySelector('#none').textContent") == "No group has committed an offset yet."


def test_ten_thousand_groups_are_searched_and_paged(tab: Tab, served: Served) -> None:
    served.view = view(9_995)
    opened(tab, served.url)
    assert len(tab.run(ROWS)) == 50
    assert tab.run("document.querySelector('#pages').textContent") == "page 1 of 200, 10,000 groups"
    tab.run("document.querySelector('#next').click()")
    until(tab, "document.querySelector('#pages').textContent.startsWith('page 2 of 200')")
    tab.run("const s = document.querySelector('#search'); s.value = '09876'; s.dispatchEvent(new Event('input'))")
    until(tab, "document.querySelector('#pages').textContent === 'page 1 of 1, 1 groups'")
    assert tab.run(ROWS)[0][0] == "service-09876"
    assert tab.complaints == []
    took = tab.run(
        "(async () => { const began = performance.now(); await (await fetch('state?search=service')).json();"
        " return performance.now() - began; })()"
    )
    print(f"a search in 10,000 groups: {took:.0f} ms")
    assert took < 10_000


def test_by_keyboard(tab: Tab, served: Served) -> None:
    opened(tab, served.url)

    def press(key: str, code: int) -> None:
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            tab.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **text)

    seen = []
    for _ in range(6):
        press("Tab", 9)
        seen.append(tab.run("document.activeElement.id || document.activeElement.textContent"))
    assert seen[:5] == ["To the groups", "search", "pause", "looping", "stuck-payments"]
    tab.run("document.querySelectorAll('button.group')[0].focus()")
    press("Enter", 13)
    until(tab, "document.querySelector('#name') && document.querySelector('#name').textContent.startsWith('looping')")
    assert tab.run("document.activeElement.getAttribute('aria-expanded')") == "true"


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core, of npm, in the cache of the tests."""
    home = cache_directory() / f"axe-core-{AXE}"
    script = home / "node_modules" / "axe-core" / "axe.min.js"
    with exclusive(cache_directory() / "axe.lock"):
        if not script.exists():
            command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(home), f"axe-core@{AXE}"]
            try:
                subprocess.run(command, check=True, capture_output=True, timeout=120)
            except (OSError, subprocess.SubprocessError) as error:
                if os.environ.get("CI") == "true":
                    pytest.fail(f"axe-core cannot be had: {error}")
                pytest.skip("skipped: needs npm")
    return script.read_text()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_axe_finds_nothing(tab: Tab, served: Served, axe: str, width: int, dark: bool) -> None:
    opened(tab, f"{served.url}#group=looping", width, dark=dark)
    until(tab, "document.querySelectorAll('#rebalances li').length == 10")
    tab.run(f"{axe}; 1")
    found: list[dict[str, Any]] = tab.run("axe.run(document).then(told => told.violations)")
    told = [
        f"{each['id']}: {node['html'][:120]} {node.get('failureSummary')}" for each in found for node in each["nodes"]
    ]
    assert not found, "\n".join(told[:10])
