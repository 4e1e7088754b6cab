"""Tables for a terminal, and for a pipe: the same lines, which only a terminal's width folds."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence

from coordinatord.cli.terminal import echo
from coordinatord.observe.printable import printable

PIPE_WIDTH = 1_000
"""Nothing is folded for grep and awk."""
NARROW = 40
NARROWEST = 8
"""Characters of a column of names that are not folded."""


def show(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print `lines`."""
    for line in lines(heads, rows):
        echo(line)


def lines(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table; nothing if it has no rows. A head that begins with > is a column of numbers, which is never folded."""
    texts = [[printable(cell) for cell in row] for row in rows]
    if not texts:
        return
    is_terminal = sys.stdout.isatty()
    if not is_terminal:
        plain = _plain(heads, texts)
        if plain is not None:
            yield from plain
            return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [[Text(text) for text in row] for row in texts]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for position, head in enumerate(heads):
        is_number, title = head.startswith(">"), head.lstrip(">")
        widest = max(row[position].cell_len for row in cells)
        table.add_column(
            title,
            justify="right" if is_number else "left",
            no_wrap=is_number,
            overflow="fold",
            min_width=max(len(title), widest if is_number else min(widest, NARROWEST)),
        )
    for row in cells:
        table.add_row(*row)
    width = max(NARROW, shutil.get_terminal_size().columns) if is_terminal else PIPE_WIDTH
    console = Console(file=sys.stdout, width=width, highlight=False)
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        yield line.rstrip()


def _plain(heads: Sequence[str], texts: Sequence[Sequence[str]]) -> Iterator[str] | None:
    """The lines for a pipe as rich makes them, in a thirtieth of its time; None if they are too wide for that."""
    from rich.cells import cell_len

    rows = [[head.lstrip(">") for head in heads], *texts]
    sizes = [[cell_len(text) for text in row] for row in rows]
    widest = [max(column) for column in zip(*sizes, strict=True)]
    if sum(widest) + 2 * len(widest) > PIPE_WIDTH:
        return None
    numbers = [head.startswith(">") for head in heads]
    return (
        "  ".join(
            " " * (wide - size) + text if is_number else text + " " * (wide - size)
            for text, size, wide, is_number in zip(row, row_sizes, widest, numbers, strict=True)
        ).rstrip()
        for row, row_sizes in zip(rows, sizes, strict=True)
    )


def number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def ranges(numbers: Sequence[int]) -> str:
    """`0-3,7`."""
    parts: list[list[int]] = []
    for each in sorted(numbers):
        if parts and parts[-1][-1] == each - 1:
            parts[-1] = [parts[-1][0], each]
        else:
            parts.append([each])
    return ",".join("-".join(map(str, part)) for part in parts)


def assigned(partitions: dict[str, list[int]]) -> str:
    """`orders:0-3 payments:0`; - for nothing."""
    return " ".join(f"{topic}:{ranges(numbers)}" for topic, numbers in sorted(partitions.items()) if numbers) or "-"
