"""HTML page of the outcomes of all stories, which loads no other file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from coordinatord.base.html_page import document, table, tr
from coordinatord.testing.conform.outcome import Outcome, Verdict, difference, request_text
from coordinatord.testing.conform.report import Tally, by_api, by_chapter, reference, tally


def page(outcomes: Sequence[Outcome], broker: str, when: str) -> str:
    """Return the file's content. `broker` is the address or name of the broker, `when` the time of the run."""
    whole = tally("all", "", outcomes)
    differing = [outcome for outcome in outcomes if outcome.verdict is Verdict.DIFFERS]
    skipped = [outcome for outcome in outcomes if outcome.verdict is Verdict.NOT_PLAYED]
    parts = [
        "<main>",
        f"<h1>Group protocol of {escape(broker)}</h1>",
        f'<p class="lead">{whole.same} of {whole.played} stories have the answers of {reference(outcomes)}; '
        f"{whole.differs} {'differs' if whole.differs == 1 else 'differ'}, {whole.not_played} could not be played.</p>",
        f'<p class="soft small">{escape(when)}</p>',
        "<h2>By subject</h2>",
        _table("subject", by_chapter(outcomes)),
        "<h2>By API</h2>",
        _table("API", by_api(outcomes)),
    ]
    if differing:
        parts += ["<h2>Different answers</h2>", *(_story(outcome) for outcome in differing)]
    if skipped:
        rows = (tr([(escape(outcome.story.name), ""), (escape(outcome.why), "")]) for outcome in skipped)
        parts += ["<h2>Not played</h2>", table("Stories that were not played", ["story", "why"], rows)]
    return document(f"Group protocol: {broker}", "\n".join([*parts, "</main>"]))


def _table(head: str, tallies: Sequence[Tally]) -> str:
    with_kip = any(each.kip for each in tallies)
    rows = []
    for each in tallies:
        counts = [(str(number or "·"), "n") for number in (each.same, each.differs, each.not_played)]
        kip = [(escape(each.kip), "w")] if with_kip else []
        rows.append(tr([(escape(each.name), ""), *kip, (_bar(each), ""), *counts]))
    heads = [head, *(["KIP"] if with_kip else []), "share", "n:same", "n:differ", "n:not played"]
    return table(f"Stories by {head}", heads, rows)


def _bar(each: Tally) -> str:
    total = each.played + each.not_played
    pieces = (("same", each.same), ("differs", each.differs), ("none", each.not_played))
    spans = "".join(f'<span class="{name}" style="width:{100 * n / total:.1f}%"></span>' for name, n in pieces if n)
    told = f"{each.same} same, {each.differs} differ, {each.not_played} not played"
    return f'<span class="share" role="img" aria-label="{told}">{spans}</span>'


def _story(outcome: Outcome) -> str:
    out = [
        f"<details><summary><b>{escape(outcome.story.name)}</b>: {escape(outcome.summary())}</summary>",
        f'<p class="soft small">{escape(outcome.chapter)}{f" ({outcome.kip})" if outcome.kip else ""}</p>',
    ]
    for answered in outcome.differing:
        lines = "\n".join(_line(line) for line in difference(answered))
        out.append(
            f"<p>{escape(request_text(answered.step))}</p>"
            f"<pre tabindex=0>{escape(answered.step.source)}\n\n{lines}</pre>"
        )
        if answered.is_like_coordinatord:
            out.append(f'<p class="soft small">coordinatord gives this answer, too: {escape(answered.step.reason)}</p>')
    if outcome.why:
        out.append(f"<p>It ends early. {escape(outcome.ending())}</p>")
    return "\n".join([*out, "</details>"])


def _line(line: str) -> str:
    kind = {"-": "was", "+": "is"}.get(line[:1])
    return f'<span class="{kind}">{escape(line)}</span>' if kind else escape(line)
