"""Progress of long jobs on standard error: a bar on a terminal, a line for each stage anywhere else."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self

import click

from coordinatord.cli.terminal import echo
from coordinatord.monitoring.pipeline.run.progress import Progress

REDRAW_S = 0.1


class Shown(Progress):
    """A context manager: on a terminal, each stage has a bar, which is completed when the next stage begins."""

    def __init__(self) -> None:
        self.is_terminal = sys.stderr.isatty()
        self._bar: Any = None
        self._drawn_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(is_done=kind is None)

    def stage(self, text: str, done: int = 0, total: int = 0) -> None:
        if not self.is_terminal:
            of = f" ({done + 1} of {total})" if total else ""
            echo(f"  {text}{of} …", err=True)
        elif total and self._bar is not None and self._bar.length == total and done:
            self._bar.label = f"{text:<34}"  # one bar for all stages with the same text
            self._move(done)
        else:
            self._close(is_done=True)
            self._open(text, total)

    def amount(self, done: int, total: int, unit: str) -> None:
        if self.is_terminal and self._bar is not None and total > 0:
            self._bar.length = total
            self._bar.item_show_func = lambda _: f"{_figure(done, unit)} of {_figure(total, unit)} {unit}".strip()
            if time.monotonic() - self._drawn_s >= REDRAW_S or done >= total:
                self._drawn_s = time.monotonic()
                self._move(done)

    def _open(self, text: str, total: int) -> None:
        self._bar = click.progressbar(length=max(1, total), label=f"{text:<34}", file=sys.stderr, show_pos=False)
        self._bar.__enter__()

    def _move(self, done: int) -> None:
        self._bar.update(max(0, min(done, self._bar.length) - self._bar.pos))
        self._bar.render_progress()

    def _close(self, *, is_done: bool) -> None:
        if self._bar is not None:
            if is_done:
                self._move(self._bar.length)
            self._bar.__exit__(None, None, None)
            self._bar = None


def _figure(value: int, unit: str) -> str:
    return f"{value / 1e6:,.1f}" if unit == "MB" else f"{value:,}"
