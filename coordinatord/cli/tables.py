"""Tables for a terminal, and for a pipe: both get the same lines, which are folded only to a terminal's width."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from coordinatord.base.observe.printable import printable
from coordinatord.cli.terminal import echo

PIPE_WIDTH = 1_000
"""Width of output to a pipe: nothing is folded, for grep and awk."""
NARROW = 40
NARROWEST = 8
"""Minimum width of a column of names, in characters."""
GAP = "  "
"""Text between two columns."""


def show(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table: see `lines`."""
    for line in lines(heads, rows):
        echo(line)


def lines(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Return the lines of a table; none if it has no rows. No text of a cell is lost, however narrow the terminal is.

    A head that begins with > is a column of numbers, which is never folded. A last head that begins with / is a column
    of sentences: if the table is wider than the terminal, each sentence has its own lines below its row. If even folded
    columns do not fit, each cell has a line.
    """
    from rich.cells import cell_len

    table = [[head.lstrip(">/") for head in heads], *([printable(cell) for cell in row] for row in rows)]
    if len(table) == 1:
        return
    width = max(NARROW, shutil.get_terminal_size().columns) if sys.stdout.isatty() else PIPE_WIDTH
    sizes = [[cell_len(text) for text in row] for row in table]
    widest = [max(column) for column in zip(*sizes, strict=True)]
    if heads[-1].startswith("/") and _total(widest) > width:
        sentences: list[str] | None = [row.pop() for row in table]
        heads, widest = heads[:-1], widest[:-1]
    else:
        sentences = None
    widths = _fitting(heads, sizes[0], widest, width)
    for position, (row, row_sizes) in enumerate(zip(table, sizes, strict=True)):
        if widths is not None:
            yield from _folded(heads, row, row_sizes, widths)
        elif position:
            yield from (f"{title}: {cell}" for title, cell in zip(table[0], row, strict=True))
        if sentences is not None and position:
            yield from wrap(sentences[position], width, initial_indent="  ", subsequent_indent="  ")


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _fitting(heads: Sequence[str], titles: Sequence[int], widest: Sequence[int], width: int) -> list[int] | None:
    """Return the widths of the columns: the widest columns of names are folded as far as needed. None if they do not
    fit.
    """
    widths = list(widest)
    while (excess := _total(widths) - width) > 0:
        names = [
            at for at, head in enumerate(heads) if not head.startswith(">") and widths[at] > max(NARROWEST, titles[at])
        ]
        if not names:
            return None
        first = max(names, key=lambda at: widths[at])
        others = [widths[at] for at in names if widths[at] < widths[first]]
        least = max(NARROWEST, titles[first], *(others and [max(others)]))
        widths[first] = max(least, widths[first] - excess) if least < widths[first] else widths[first] - 1
    return widths


def _folded(heads: Sequence[str], row: Sequence[str], sizes: Sequence[int], widths: Sequence[int]) -> Iterator[str]:
    """Return the lines of a row: one line, unless a cell is wider than its column."""
    from rich.cells import cell_len, chop_cells

    if all(size <= width for size, width in zip(sizes, widths, strict=False)):
        parts = [[text] for text in row]
    else:
        parts = [chop_cells(text, width) or [""] for text, width in zip(row, widths, strict=True)]
        sizes = []
    for number in range(max(map(len, parts))):
        texts = [part[number] if number < len(part) else "" for part in parts]
        gaps = [
            " " * (width - size)
            for width, size in zip(widths, sizes or [cell_len(text) for text in texts], strict=False)
        ]
        yield GAP.join(
            gap + text if head.startswith(">") else text + gap
            for head, text, gap in zip(heads, texts, gaps, strict=True)
        ).rstrip()


def number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def ranges(numbers: Sequence[int]) -> str:
    """Return numbers as ranges, such as `0-3,7`."""
    parts: list[list[int]] = []
    for each in sorted(numbers):
        if parts and parts[-1][-1] == each - 1:
            parts[-1] = [parts[-1][0], each]
        else:
            parts.append([each])
    return ",".join("-".join(map(str, part)) for part in parts)


def assigned(partitions: dict[str, list[int]]) -> str:
    """Return an assignment as `orders:0-3 payments:0`; - for nothing."""
    return " ".join(f"{topic}:{ranges(numbers)}" for topic, numbers in sorted(partitions.items()) if numbers) or "-"


def duration(ms: int | None, after: str = "") -> str:
    """Return a time in the largest fitting unit, with `after` behind it; `-` if it is not known."""
    if ms is None:
        return "-"
    seconds = max(0, ms) // 1000
    if seconds < 120:
        return f"{seconds} s{after}"
    if seconds < 7_200:
        return f"{seconds // 60} min{after}"
    return f"{seconds // 3_600} h{after}" if seconds < 172_800 else f"{seconds // 86_400} d{after}"
