"""The live page: markup and script, completed with the values that the pipeline's report shares."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from coordinatord.base.html_page import document
from coordinatord.monitoring.dashboard.html import GREY, LIVES, TRIGGERS

FILE = Path(__file__).with_name("live.html")


@cache
def page() -> str:
    """Return the page; its data follows as server-sent events."""
    shared = {
        "triggers": {str(name): colour for name, colour in TRIGGERS.items()},
        "lives": {name or "": list(told) for name, told in LIVES.items()},
        "grey": GREY,
    }
    body = FILE.read_text("utf-8").replace("/*SHARED*/null", json.dumps(shared))
    return document("Consumer groups, live", body, body_class="live")
