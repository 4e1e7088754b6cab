"""The live page: one file of markup, style and script, completed with the values that the pipeline's report shares."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from coordinatord.monitoring.dashboard.html import GREY, LIVES, STYLE, TRIGGERS

FILE = Path(__file__).with_name("live.html")


@cache
def page() -> str:
    """Return the page; its data follows as server-sent events."""
    shared = {
        "triggers": {str(name): colour for name, colour in TRIGGERS.items()},
        "lives": {name or "": list(told) for name, told in LIVES.items()},
        "grey": GREY,
    }
    return FILE.read_text("utf-8").replace("/*STYLE*/", STYLE).replace("/*SHARED*/null", json.dumps(shared))
