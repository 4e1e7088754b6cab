"""The report as a person sees it, in a real browser: everything drawn, everything true, on any screen.

Screenshots are left in build/, for whoever wants to look.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from pyarrow import dataset

from coordinatord.monitoring.pipeline.report import page as page_module
from coordinatord.monitoring.pipeline.report.page import page
from coordinatord.monitoring.pipeline.report.read import read
from tests.monitoring.pipeline.browser.chromium import Tab
from tests.monitoring.pipeline.report.test_report import EVIL, NOW_MS, life, rebalance, status, write

BUILD = Path(__file__).parents[4] / "build"

#: Scroll as a person does, and look at each plot that has come into sight; resolves to what is drawn of each.
SCROLL = """
(async () => {
  const told = [];
  for (const box of document.querySelectorAll(".canvas")) {
    box.scrollIntoView({block: "center"});
    for (let turn = 0; turn < 3000 && box.dataset.drawn != "wholly"; turn++)
      await new Promise(done => setTimeout(done, 10));
    const marks = [...box.querySelectorAll(".trace path, .trace .js-line")].map(each => each.getBoundingClientRect());
    const frame = box.getBoundingClientRect();
    told.push({
      title: box.parentElement.querySelector("h3").textContent,
      names: [...box.parentElement.querySelectorAll(".legend span")].map(each => each.textContent),
      width: frame.width, right: frame.right,
      marks: marks.filter(each => each.width * each.height > 0 || each.width + each.height > 20).length,
    });
  }
  scrollTo(0, 0);
  return told;
})()
"""
ROWS = "[...document.querySelectorAll('#%s tr')].slice(1).map(row => [...row.cells].map(cell => cell.textContent))"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def colours(path: Path) -> tuple[tuple[int, int], set[tuple[int, int, int]], tuple[int, int, int]]:
    """Of a screenshot: its size, the colours that are a thousandth of it, and the most frequent one."""
    image = Image.open(path).convert("RGB")
    pixels = image.width * image.height
    counts = sorted(image.getcolors(maxcolors=pixels) or [], reverse=True)
    return image.size, {colour for count, colour in counts if count * 1000 >= pixels}, counts[0][1]


def shown(tab: Tab, path: Path, width: int, height: int, *, dark: bool = False, phone: bool = False) -> list[Any]:
    tab.open(path, width, height, dark=dark, phone=phone)
    told: list[Any] = tab.run(SCROLL)
    return told


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1400, 900), (390, 844)], ids=["wide", "phone"])
def test_everything_is_drawn(tab: Tab, out: Path, tmp_path: Path, width: int, height: int, dark: bool) -> None:
    path = tmp_path / "report.html"
    path.write_text(page(read(out, 12)))
    plots = shown(tab, path, width, height, dark=dark, phone=width < 500)
    assert tab.complaints == []
    assert [url for url in tab.requests if not url.startswith(("file:", "data:"))] == []
    titles = [plot["title"] for plot in plots]
    assert titles == [
        "Members that joined and left, by hour",
        "Cost of the rebalances of the groups below, by cause",
        "Members and their partitions",
        "Records unread, by partition",
        *["Members and their partitions"] * 2,
    ]
    # Bars: three hours up and down (nobody went in one of them); four causes; pieces of lives; nine curves.
    least = [5, 4, 6, 9, 6, 6]
    for plot, count in zip(plots, least, strict=True):
        assert plot["marks"] >= count, plot
        assert width * 0.3 < plot["width"], plot
        assert plot["right"] <= width, plot
    assert "4 other partitions together" in plots[3]["names"]
    assert {"there", "expired", "rebalance: session expired"} <= set(plots[2]["names"])
    assert tab.run(OVERFLOW) == 0, "nothing but tables scrolls sideways"

    picture = BUILD / f"report-{'phone' if width < 500 else 'wide'}-{'dark' if dark else 'light'}.png"
    tab.screenshot(picture, whole=True)
    size, frequent, paper = colours(picture)
    assert size[0] == width
    assert size[1] > 1500
    assert (max(paper) < 60) if dark else (min(paper) > 240)
    assert {(63, 127, 191), (209, 73, 91)} <= frequent, "members that are there, and what went wrong"


LOOPS = {"payments": ("crash loop", "c1 came and went five times")}
"""Status and reason of groups that the page shows for their crash loop: it comes before the status of their commits."""


def test_the_tables_say_what_the_data_says(tab: Tab, out: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page(read(out, 12)))
    tab.open(path, 1400, 900, dark=False)
    rows = {row[0]: row[1:] for row in tab.run(ROWS % "status")}
    stored = dataset.dataset(out / "tables" / "group_status", format="parquet").to_table().to_pylist()
    assert len(rows) == len(stored)
    for row in stored:
        name, why, unread, *_ = rows[row["group_id"]]
        assert (name, why) == LOOPS.get(row["group_id"], (row["status"], row["why"]))
        assert unread == ("?" if row["lag"] is None else f"{row['lag']:,}")
    assert [row[0] for row in tab.run(ROWS % "status")] == ["payments", EVIL, "orders"], "the most urgent first"
    changes = tab.run(ROWS % "changes")
    assert [(row[2], row[4]) for row in changes] == [
        ("began, not over", "pay-3"),
        ("recovered", "pay-3"),
        ("began", "pay-3"),
    ]
    # A link leads to the group's own part.
    tab.run("document.querySelector('#status a').click()")
    assert tab.run("document.querySelector(location.hash + ' h2').textContent").split()[:2] == ["payments", "·"]


def test_two_hundred_groups(tab: Tab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page stays within its limit and says what it leaves out; the browser draws what is looked at."""
    monkeypatch.setattr(page_module, "MAX_BYTES", 6_000_000)  # less to wait for
    groups = [f"group-{number:03d}" for number in range(200)]
    out = tmp_path / "out"
    triggers = ["new member", "session expired", "member left"]
    tables: dict[str, list[dict[str, Any]]] = {
        "group_status": [status(group, "stuck", 1000 - number) for number, group in enumerate(groups)],
        "rebalances": [rebalance(group, n, triggers[n % 3]) for group in groups for n in range(10)],
        "members": [life(group, n % 12, [None, "left", "expired"][n % 3]) for group in groups for n in range(12)],
        "lag_history": [
            {"group_id": group, "topic": "t", "partition": partition, "at_ms": NOW_MS - minute * 60_000,
             "committed_offset": 1, "lag": minute * (partition + 1)}
            for group in groups for partition in range(4) for minute in range(40)
        ],
    }  # fmt: skip
    write(out, tables)
    path = tmp_path / "report.html"
    path.write_text(page(read(out, 200)))
    assert 5_000_000 < path.stat().st_size <= 6_000_000
    tab.open(path, 1400, 900, dark=False)
    assert tab.complaints == []
    sections = tab.run("document.querySelectorAll('section').length")
    rest = tab.run("document.querySelector('#rest').textContent")
    left_out = re.match(r"(\d+) more groups \(group-\d{3}, .*would make this page larger than 6 MB", rest)
    assert left_out is not None
    assert sections + int(left_out[1]) == 200
    assert sections >= 20
    drawn = "document.querySelectorAll('.canvas[data-drawn]').length"
    assert tab.run(drawn) < 10, "not all at once"
    assert tab.run("document.querySelectorAll('#status tr').length") - 1 == max(sections, page_module.MAX_ROWS)
    assert tab.run("document.querySelectorAll('#status a').length") == sections
    last = tab.run(
        "(async () => { const box = [...document.querySelectorAll('.canvas')].at(-1); box.scrollIntoView();"
        " for (let turn = 0; turn < 3000 && box.dataset.drawn != 'wholly'; turn++)"
        " await new Promise(done => setTimeout(done, 10)); return box.querySelectorAll('.trace').length; })()"
    )
    assert last >= 4, "the curves of the last one"
