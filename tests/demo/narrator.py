"""How the demo talks: a line per step with the time since the start, details below, and what the daemon logs."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

MARGIN = " " * 10
FOLLOW_INTERVAL_S = 0.03
# The random part of a member id: "A-7c9e6679-7425-40de-944b-e07fc1f90ae7" is "A" to people.
RANDOM_PART = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Narrator:
    """Prints; colours on a terminal, plain text everywhere else."""

    def __init__(self) -> None:
        self.began_s = time.monotonic()
        self._coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self._lock = threading.Lock()

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.began_s

    def step(self, text: str) -> None:
        """Something the demo does or finds."""
        self._print(f"{self._style('1', f'{self.elapsed_s:6.1f} s')}  {text}")

    def detail(self, text: str) -> None:
        self._print(f"{MARGIN}{text}")

    def aside(self, text: str) -> None:
        """Something the daemon says."""
        self._print(f"{self._style('2', f'{self.elapsed_s:6.1f} s    {text}')}")

    def verdict(self, good: bool, text: str) -> None:
        self._print(f"\n{self._style('1;32' if good else '1;31', text)}")

    def blank(self) -> None:
        self._print("")

    def table(self, rows: Sequence[Sequence[object]]) -> None:
        """The first column to the left, numbers to the right."""
        cells = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for first, *rest in cells:
            self.detail(
                f"{first:<{widths[0]}}"
                + "".join(f"  {cell:>{width}}" for cell, width in zip(rest, widths[1:], strict=True))
            )

    def _style(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._coloured else text

    def _print(self, text: str) -> None:
        with self._lock:
            print(text, flush=True)


class Follower:
    """Repeats what the daemon logs about a group, while it happens."""

    def __init__(self, narrator: Narrator, log_file: Path, group: str) -> None:
        self.narrator = narrator
        self.log_file = log_file
        self.group = group
        self._position = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(5)

    def _follow(self) -> None:
        while not self._stopping.wait(FOLLOW_INTERVAL_S):
            if self.log_file.exists():
                with self.log_file.open("rb") as log:
                    log.seek(self._position)
                    new = log.read()
                whole = new[: new.rfind(b"\n") + 1]
                self._position += len(whole)
                for line in whole.decode(errors="replace").splitlines():
                    self._tell(line)

    def _tell(self, line: str) -> None:
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            return
        if event.get("event") == "group transition" and event.get("group") == self.group:
            reason = RANDOM_PART.sub("", str(event["reason"]))
            self.narrator.aside(f"daemon: {event['old']} → {event['new']}  ({reason})")
