"""What all workers of a daemon see at once: a few numbers in memory that they share, and a lock.

The supervisor makes it before it forks. The numbers tell everybody how far the catalogue has been changed, and
everybody how far each worker has followed; one that is started anew has followed nothing yet. Each is a machine word
with one writer at a time, so reading needs no lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from collections.abc import Callable, Iterator

_CHANGE = 0
_FIRST_WORKER = 1
_WORD_BYTES = 8


class Shared:
    """One object in the supervisor, of which the workers have copies. `lock_path` is a file of no other use."""

    def __init__(self, workers: int, lock_path: str) -> None:
        self.workers = workers
        self._lock_path = lock_path
        self._lock_file: int | None = None
        self._depth = 0
        memory = mmap.mmap(-1, (_FIRST_WORKER + workers) * _WORD_BYTES)
        self._words = memoryview(memory).cast("q")
        self.on_change: Callable[[], object] = lambda: None
        """Tells the other workers; a worker sets it for itself."""

    @property
    def change(self) -> int:
        """The catalogue's last change."""
        return int(self._words[_CHANGE])

    def changed(self, change: int) -> None:
        """The catalogue has been changed, by whoever holds the lock."""
        self._words[_CHANGE] = change
        self.on_change()

    def begin(self, change: int) -> None:
        """What the supervisor has found. Nobody has followed anything yet."""
        self._words[_CHANGE] = change

    def follow(self, worker: int, change: int) -> None:
        """A worker has nothing left to do for the changes up to this one."""
        self._words[_FIRST_WORKER + worker] = change

    @property
    def followed_by_all(self) -> int:
        """The last change that no worker has anything left to do for."""
        return min(self._words[_FIRST_WORKER:])

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """One process at a time. Whoever has it keeps it for as long as a small file takes to be replaced."""
        if self._lock_file is None:
            # Opened here and not by the supervisor: those who share an open file share its lock.
            self._lock_file = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        if self._depth == 0:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                fcntl.flock(self._lock_file, fcntl.LOCK_UN)
