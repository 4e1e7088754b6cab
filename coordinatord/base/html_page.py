"""The skeleton and the style sheet of all HTML pages. A page is one file, which loads no other."""

from __future__ import annotations

import html
from functools import cache
from pathlib import Path

STYLE_SHEET = Path(__file__).with_name("page.css")


@cache
def _style() -> str:
    return STYLE_SHEET.read_text("utf-8")


def document(
    title: str, body: str, *, script: str = "", style: str = "", policy: str = "", body_class: str = ""
) -> str:
    """Return a whole page. `title` is plain text, `body` HTML, `script` JavaScript that runs before the body, `style`
    CSS before the shared one, `policy` a Content-Security-Policy.
    """
    before = f"<script>{script}</script>" if script else ""
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n' if policy else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
{meta}<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<link rel="icon" href="data:,">
<style>
{style}{_style()}</style>{before}
</head>
<body{f' class="{body_class}"' if body_class else ""}>
{body}
</body>
</html>
"""
