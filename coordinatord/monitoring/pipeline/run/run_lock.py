"""A lock that permits one run at a time to update a directory's tables: two would remove each other's files."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coordinatord.monitoring.offsets_log.source.segments import SourceError


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Lock the directory, against other processes, too; the lock ends with the process in any case. Raises SourceError
    if another run holds it.
    """
    with (out / "_lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SourceError(f"another run is at work in {out}: wait for its end, or stop it") from None
        yield
