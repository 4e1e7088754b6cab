"""The live page: a skeleton without inline script or style, and the files that it loads from the same port."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from coordinatord.base.html_page import STYLE_SHEET
from coordinatord.base.observe.log_part import Document
from coordinatord.monitoring.dashboard.html import CURVES, GREY, LIVES, TRIGGERS

FRONT = Path(__file__).with_name("front")
SCRIPTS = ("uplot.js", "colours.js", "text.js", "charts.js", "overview.js", "group.js", "others.js", "app.js")
"""In the order in which they run."""
STYLES = ("uplot.css", "page.css")
FILES = {**dict.fromkeys(SCRIPTS, "text/javascript; charset=utf-8"), **dict.fromkeys(STYLES, "text/css; charset=utf-8")}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
BODY = """<a class="skip" href="#main">To the content</a>
<header><h1><a href="#/">Consumer groups</a> <span id="cluster" class="soft"></span></h1>
<span id="moment" class="soft">connecting …</span>
<button type="button" id="pause" aria-pressed="false">Pause</button></header>
<main id="main" tabindex="-1">
<p id="trouble" role="alert" hidden></p>
<p id="said" class="skip" role="status" aria-live="polite"></p>
<div id="view"></div>
</main>
<noscript>This page shows groups as they change, and needs JavaScript. <a href="state">The same as JSON.</a></noscript>
"""


@cache
def front_file(name: str) -> Document:
    """Return one of FILES."""
    if name == "colours.js":
        return Document(FILES[name], _colours().encode())
    path = STYLE_SHEET if name == "page.css" else FRONT / name
    return Document(FILES[name], path.read_bytes())


def _colours() -> str:
    """Return the values that the page shares with the pipeline's report, as a script."""
    shared = {
        "triggers": {str(name): colour for name, colour in TRIGGERS.items()},
        "lives": {name or "": list(told) for name, told in LIVES.items()},
        "curves": CURVES,
        "grey": GREY,
    }
    return f'"use strict";\nconst shared = {json.dumps(shared)};\n'


@cache
def page() -> str:
    """Return the page; its data follow as JSON."""
    links = "".join(f'<link rel="stylesheet" href="{name}">\n' for name in STYLES)
    scripts = "".join(f'<script defer src="{name}"></script>\n' for name in SCRIPTS)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>Consumer groups, live</title>\n'
        f'<link rel="icon" href="data:,">\n{links}{scripts}</head>\n<body class="live">\n{BODY}</body>\n</html>\n'
    )
