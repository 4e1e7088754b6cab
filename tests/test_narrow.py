"""No test is left out because its file was not imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import narrow


@pytest.mark.parametrize(
    ("expression", "markers", "wanted"),
    [
        ("slow", {"slow"}, True),
        ("slow", {"clients"}, False),
        ("slow", set(), False),
        ("not slow", {"slow"}, True),  # a file may have tests without it
        ("slow and not clients", {"slow", "clients"}, True),
        ("slow and clients", {"slow"}, False),
        ("slow or clients", {"clients"}, True),
        ("(slow or clients) and not alone", {"alone"}, False),
        ("slow and", set(), True),  # pytest tells what is wrong
    ],
)
def test_what_may_be_wanted(expression: str, markers: set[str], wanted: bool) -> None:
    assert narrow.may_be_wanted(expression, frozenset(markers)) is wanted


def test_a_marker_comes_from_the_file_or_from_a_conftest() -> None:
    here = Path(__file__).parent
    browser = here / "pipeline" / "browser" / "test_live_page.py"
    assert "browser" in narrow.possible(browser)
    assert narrow.unnamed(browser, {"browser", "hostile"}) == {"hostile"}
    assert not narrow.can_be_left_out(browser, "browser and not hostile")
    assert narrow.can_be_left_out(browser, "hostile")
    assert not narrow.can_be_left_out(browser, "")
    assert not narrow.can_be_left_out(here / "conftest.py", "hostile")
