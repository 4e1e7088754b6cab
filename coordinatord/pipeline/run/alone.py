"""One run at a time brings the tables of a directory up to date: two would take each other's files away."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coordinatord.pipeline.source.segments import SourceError


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Keeps others out, also those of other processes; it ends with the process, however that ends. SourceError."""
    with (out / "_lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SourceError(f"another run is at work in {out}: wait for its end, or stop it") from None
        yield
