"""The report as a person sees it, in a real browser: the front end of the live page, with the tables' data inside.

Screenshots are left in build/, for whoever wants to look.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyarrow import dataset

from coordinatord.monitoring.pipeline.report.page import page
from coordinatord.monitoring.pipeline.report.read import read
from tests.monitoring.pipeline.browser.chromium import Tab
from tests.monitoring.pipeline.report.test_report import (
    EVIL,
    NOW_MS,
    life,
    rebalance,
    share_window,
    status,
    write,
)

BUILD = Path(__file__).parents[4] / "build"
ROWS = "[...document.querySelectorAll('#%s tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
#: Whether a canvas has pixels of the curve's colour.
DRAWN = """
[...document.querySelectorAll(".plot canvas")].map(canvas => {
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  for (let at = 0; at < data.length; at += 4)
    if (data[at] === 63 && data[at + 1] === 127 && data[at + 2] === 191) return true;
  return false;
})
"""


def written(out: Path, path: Path, limit: int = 12) -> Path:
    path.write_text(page(read(out, limit)))
    return path


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1400, 900), (390, 844)], ids=["wide", "phone"])
def test_everything_is_drawn(tab: Tab, out: Path, tmp_path: Path, width: int, height: int, dark: bool) -> None:
    path = written(out, tmp_path / "report.html")
    tab.open(path, width, height, dark=dark, phone=width < 500)
    assert tab.run("document.querySelectorAll('#groups tbody tr').length") == 3
    assert tab.run(OVERFLOW) == 0
    screen = f"{'phone' if width < 500 else 'wide'}-{'dark' if dark else 'light'}"
    tab.screenshot(BUILD / f"report-{screen}.png", whole=True)
    tab.run("location.hash = '#/group/payments'")
    tab.run("new Promise(done => setTimeout(done, 100))")
    assert tab.run("document.querySelector('#name').textContent") == "payments crash loop"
    assert tab.run(DRAWN) == [True]
    assert tab.run("document.querySelectorAll('.timeline .life').length") == 6
    assert tab.run("document.querySelectorAll('.timeline .band').length") == 4
    assert tab.run("document.querySelector('#more').hidden")
    assert tab.run(OVERFLOW) == 0
    assert tab.complaints == []
    assert [url for url in tab.requests if not url.startswith(("file:", "data:"))] == []


@pytest.mark.parametrize("width", [1400, 390])
def test_a_share_group_has_its_window(tab: Tab, out: Path, tmp_path: Path, width: int) -> None:
    share_window(out)
    tab.open(written(out, tmp_path / "report.html"), width, 900, dark=False, phone=width < 500)
    tab.run("location.hash = '#/group/packers'")
    tab.run("new Promise(done => setTimeout(done, 100))")
    assert tab.run("[...document.querySelectorAll('#window thead th')].map(each => each.textContent)") == [
        "partition", "start offset", "done", "archived", "redelivered", "near the delivery limit", "most deliveries",
        "last change",
    ]  # fmt: skip
    assert tab.run(ROWS % "window") == [
        ["jobs-0", "10", "8", "1", "2", "1 from offset 13", "5 at offset 12", "1 h ago"],
        ["jobs-1", "10", "0", "0", "0", "0", "–", "1 h ago"],
    ]
    assert tab.run(OVERFLOW) == 0
    tab.screenshot(BUILD / f"report-share-group-{width}.png", whole=True)
    assert tab.complaints == []


LOOPS = {"payments": ("crash loop", "c1 came and went five times")}
"""Status and reason of groups that the page shows for their crash loop: it comes before the status of their commits."""


def test_the_page_has_the_data_of_the_tables(tab: Tab, out: Path, tmp_path: Path) -> None:
    tab.open(written(out, tmp_path / "report.html"), 1400, 900, dark=False)
    tab.run("[...document.querySelectorAll('button.fold')].forEach(each => each.click())")
    rows = {row[0]: row[1:] for row in tab.run(ROWS % "groups") if not row[0].startswith("▾")}
    stored = dataset.dataset(out / "tables" / "group_status", format="parquet").to_table().to_pylist()
    assert len(rows) == len(stored)
    for row in stored:
        name, why, lag, *_ = rows[row["group_id"]]
        assert (name, why) == LOOPS.get(row["group_id"], (row["status"], row["why"]))
        assert lag == ("?" if row["lag"] is None else f"{row['lag']:,}")
    assert next(iter(rows)) == "payments", "the most urgent first"
    assert EVIL in rows
    tab.run("document.querySelector('#changes a').click()")
    tab.run("new Promise(done => setTimeout(done, 100))")
    assert tab.run("document.querySelector('#name').textContent.split(' ')[0]") == "payments"
    tab.run("document.querySelector('#places a[href^=\"#/client/\"]').click()")
    tab.run("new Promise(done => setTimeout(done, 100))")
    assert tab.run("document.querySelector('#name').textContent") == "Client or host c1"
    tab.run("history.back()")
    tab.run("new Promise(done => setTimeout(done, 100))")
    assert tab.run("document.querySelector('#name').textContent.split(' ')[0]") == "payments"
    assert tab.complaints == []


def test_five_thousand_groups(tab: Tab, tmp_path: Path) -> None:
    """All of them are listed, 200 in full; few are elements."""
    groups = [f"group-{number:04d}" for number in range(5_000)]
    full, out = groups[:200], tmp_path / "out"
    triggers = ["new member", "session expired", "member left"]
    tables: dict[str, list[dict[str, Any]]] = {
        "group_status": [
            status(group, "falling", 10_000 - number, why="it falls behind") for number, group in enumerate(groups)
        ],
        "rebalances": [rebalance(group, n, triggers[n % 3]) for group in full for n in range(5)],
        "members": [life(group, n % 12, [None, "left", "expired"][n % 3]) for group in full for n in range(6)],
        "lag_history": [
            {"group_id": group, "topic": "t", "partition": 0, "at_ms": NOW_MS - minute * 60_000,
             "committed_offset": 1, "lag": minute}
            for group in full for minute in range(40)
        ],
    }  # fmt: skip
    write(out, tables)
    path = written(out, tmp_path / "report.html", 200)
    tab.open(path, 1400, 900, dark=False)
    assert tab.run("document.querySelector('#found').textContent") == "5,000 groups"
    assert tab.run("document.querySelectorAll('#groups tbody tr').length") < 80
    took = tab.run("performance.getEntriesByType('navigation')[0].loadEventEnd")
    print(f"a report of 5,000 groups, {path.stat().st_size / 1e6:.1f} MB: loaded after {took:.0f} ms")
    tab.run("location.hash = '#/group/group-4999'")
    tab.run("new Promise(done => setTimeout(done, 100))")
    assert "coordinatord pipeline report --group NAME" in tab.run("document.querySelector('#view').textContent")
    assert tab.complaints == []
