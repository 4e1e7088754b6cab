"""HTML page of the outcomes of all stories, which loads no other file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from coordinatord.testing.conform.outcome import Outcome, Verdict, asked, difference
from coordinatord.testing.conform.report import REFERENCE, Tally, by_api, by_chapter, tally

_STYLE = """
:root { color-scheme: light dark; --same: #3d8b52; --differs: #c4453b; --none: #9a9a9a; --line: #8884; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.lead { font-size: 1.05rem; margin-top: 0; } .small { opacity: .75; font-size: .85rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .5rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; } td.kip, th.kip { text-align: left; }
.bar { display: inline-flex; width: 9rem; height: .7rem; border-radius: 3px; overflow: hidden; }
.bar { background: var(--soft); }
.bar span { display: block; } .same { background: var(--same); } .differs { background: var(--differs); }
.none { background: var(--none); }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; padding: .4rem .8rem; }
summary { cursor: pointer; overflow-wrap: anywhere; } summary b { color: var(--differs); }
pre { overflow-x: auto; font-size: .82rem; line-height: 1.4; background: var(--soft); padding: .6rem; }
pre .was { color: var(--same); } pre .is { color: var(--differs); }
@media (max-width: 40rem) { .bar { width: 4rem; } body { margin-top: 1rem; } }
"""


def page(outcomes: Sequence[Outcome], broker: str, when: str) -> str:
    """Return the file's content. `broker` is the address or name of the broker, `when` the time of the run."""
    whole = tally("all", "", outcomes)
    differing = [outcome for outcome in outcomes if outcome.verdict is Verdict.DIFFERS]
    skipped = [outcome for outcome in outcomes if outcome.verdict is Verdict.NOT_PLAYED]
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        f"<title>Group protocol: {escape(broker)}</title><style>{_STYLE}</style></head><body><main>",
        f"<h1>Group protocol of {escape(broker)}</h1>",
        f'<p class="lead">{whole.same} of {whole.played} stories have the answers of {REFERENCE}; '
        f"{whole.differs} differ, {whole.not_played} could not be played.</p>",
        f'<p class="small">{escape(when)}</p>',
        "<h2>By subject</h2>",
        _table("Subject", by_chapter(outcomes)),
        "<h2>By API</h2>",
        _table("API", by_api(outcomes)),
    ]
    if differing:
        parts += ["<h2>Different answers</h2>", *(_story(outcome) for outcome in differing)]
    if skipped:
        parts += ["<h2>Not played</h2>", '<div class="wide"><table><tr><th>Story</th><th class="kip">Why</th></tr>']
        parts += [
            f'<tr><td>{escape(outcome.story.name)}</td><td class="kip">{escape(outcome.why)}</td></tr>'
            for outcome in skipped
        ]
        parts.append("</table></div>")
    return "\n".join([*parts, "</main></body></html>"]) + "\n"


def _table(head: str, rows: Sequence[Tally]) -> str:
    with_kip = any(row.kip for row in rows)
    kip = '<th class="kip">KIP</th>' if with_kip else ""
    out = [
        '<div class="wide"><table>',
        f"<tr><th>{head}</th>{kip}<th></th><th>same</th><th>differ</th><th>not played</th></tr>",
    ]
    for row in rows:
        number = f'<td class="kip">{escape(row.kip)}</td>' if with_kip else ""
        counts = "".join(f"<td>{count or '·'}</td>" for count in (row.same, row.differs, row.not_played))
        out.append(f"<tr><td>{escape(row.name)}</td>{number}<td>{_bar(row)}</td>{counts}</tr>")
    return "\n".join([*out, "</table></div>"])


def _bar(row: Tally) -> str:
    total = row.played + row.not_played
    pieces = (("same", row.same), ("differs", row.differs), ("none", row.not_played))
    spans = "".join(f'<span class="{name}" style="width:{100 * n / total:.1f}%"></span>' for name, n in pieces if n)
    told = f"{row.same} same, {row.differs} differ, {row.not_played} not played"
    return f'<span class="bar" role="img" aria-label="{told}">{spans}</span>'


def _story(outcome: Outcome) -> str:
    out = [
        f"<details><summary><b>{escape(outcome.story.name)}</b>: {escape(outcome.summary())}</summary>",
        f'<p class="small">{escape(outcome.chapter)}{f" ({outcome.kip})" if outcome.kip else ""}</p>',
    ]
    for answered in outcome.differing:
        lines = "\n".join(_line(line) for line in difference(answered))
        out.append(f"<p>{escape(asked(answered.step))}</p><pre>{escape(answered.step.source)}\n\n{lines}</pre>")
        if answered.is_like_coordinatord:
            out.append(f'<p class="small">coordinatord gives this answer, too: {escape(answered.step.reason)}</p>')
    if outcome.why:
        out.append(f"<p>It ends early. {escape(outcome.ending())}</p>")
    return "\n".join([*out, "</details>"])


def _line(line: str) -> str:
    kind = {"-": "was", "+": "is"}.get(line[:1])
    return f'<span class="{kind}">{escape(line)}</span>' if kind else escape(line)
