"""The skeleton and the style sheet that all pages share."""

from __future__ import annotations

import re

from coordinatord.base.html_page import STYLE_SHEET, document
from coordinatord.monitoring.dashboard.page import front_file, page


def test_a_page_is_one_file_with_the_style_sheet() -> None:
    text = document("a < b", "<p>body</p>", script="run()", body_class="live")
    assert text.startswith('<!doctype html>\n<html lang="en">')
    assert "<title>a &lt; b</title>" in text
    assert text.count(STYLE_SHEET.read_text()) == 1
    assert text.index("<script>run()</script>") < text.index("</head>") < text.index('<body class="live">\n<p>body</p>')
    assert "<body>" in document("", "")
    assert "<script>" not in document("", "")


def test_the_style_sheet_loads_nothing_and_is_whole() -> None:
    text = STYLE_SHEET.read_text()
    assert re.search(r"@import|url\(", text) is None
    assert text.count("{") == text.count("}")


def test_the_live_page_has_it_once() -> None:
    text = page()
    assert text.count('href="page.css"') == 1
    assert front_file("page.css").body == STYLE_SHEET.read_bytes()
    assert [text.count(each) for each in ("<html", "</html>", "<body", "</body>", "<main")] == [1] * 5
