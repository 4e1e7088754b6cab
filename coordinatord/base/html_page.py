"""The skeleton, the style sheet, tables and bars of all HTML pages. A page is one file, which loads no other."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

STYLE_SHEET = Path(__file__).with_name("page.css")


Cell = tuple[str, str]
"""HTML and its CSS class."""
Piece = tuple[str, float, str]
"""A part of a bar: its name, its value, and its colour or CSS class."""


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


def table(caption: str, head: Sequence[str], rows: Iterable[str], name: str = "") -> str:
    """Return a table, which scrolls by itself where it is wider than the page. `rows` are those of `tr`; `caption`,
    which is not visible, and `head` are plain text. `n:` before a column's name right-aligns it.
    """
    heads = "".join(
        f"<th scope=col{' class=n' if each.startswith('n:') else ''}>{html.escape(each.removeprefix('n:'))}</th>"
        for each in head
    )
    label = html.escape(caption)
    return (
        f'<div class=table tabindex=0 role=region aria-label="{label}"><table{f" id={name}" if name else ""}>'
        f"<caption class=skip>{label}</caption>\n<tr>{heads}</tr>\n{chr(10).join(rows)}\n</table></div>"
    )


def tr(cells: Iterable[Cell], kind: str = "") -> str:
    """Return a row of a table, with a CSS class."""
    inner = "".join(f"<td class='{css}'>{text}</td>" if css else f"<td>{text}</td>" for text, css in cells)
    return f"<tr{f' class={kind}' if kind else ''}>{inner}</tr>"


def bars(title: str, rows: Sequence[tuple[str, Sequence[Piece], str]]) -> str:
    """Return a plot of horizontal bars: of each its name, its pieces, and its value in words. All texts are plain."""
    most = max((sum(value for _, value, _ in pieces) for _, pieces, _ in rows), default=0)
    named = {name: colour for _, pieces, _ in rows for name, value, colour in pieces if name and value}
    legend = "".join(
        f'<span><i style="background:{colour}"></i>{html.escape(name)}</span>' for name, colour in named.items()
    )
    lines = "\n".join(
        f'<tr><th scope=row title="{html.escape(label)}">{html.escape(label)}</th><td><div class=track>'
        + "".join(
            f'<i style="width:{100 * value / most:.2f}%;background:{colour}"></i>'
            for _, value, colour in pieces
            if value
        )
        + f"</div></td><td class=n>{html.escape(shown)}</td></tr>"
        for label, pieces, shown in rows
    )
    return (
        f"<figure><table class=bars><caption>{html.escape(title)}</caption>\n{lines}\n</table>"
        f"{f'<p class=legend>{legend}</p>' if legend else ''}</figure>"
    )
