"""State shared by all workers of a daemon: a few numbers in shared memory, and a lock.

The supervisor creates the memory before forking. The numbers are the catalogue's latest change, the end of the
cluster's metadata log, the number of changes of groups' settings, and for each worker the change up to which it has
processed deletions (0 for a restarted worker). Each number is a machine word with one writer at a time, so reading
needs no lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

_CHANGE = 0
_METADATA_END = 1
_GROUPS_CHANGE = 2
_FIRST_WORKER = 3
_WORD_BYTES = 8


class Sharing(Protocol):
    """The shared state that topics and groups' settings need."""

    @property
    def change(self) -> int:
        """Return the number of the catalogue's latest change."""

    def changed(self, change: int) -> None:
        """Publish a change of the catalogue; the caller holds the lock."""

    @property
    def groups_change(self) -> int:
        """Return the number of the latest change of groups' settings."""

    def groups_changed(self) -> None:
        """Publish a change of groups' settings, which is in their file; the caller holds the lock."""

    def follow(self, worker: int, change: int) -> None:
        """Record that a worker has completed all work for changes up to `change`."""

    @property
    def followed_by_all(self) -> int:
        """Return the latest change for which all workers have completed their work."""

    def lock(self) -> AbstractContextManager[object]:
        """Exclude other processes. Raises OSError if they cannot be excluded now."""

    def take(self) -> bool:
        """Take the lock, to be released with `give`. Returns False if another process has it. Raises OSError as
        `lock`.
        """

    def give(self) -> None:
        """Release the lock."""


class Shared:
    """The shared state, created once in the supervisor; the workers inherit copies. `lock_path` is a file used only for
    the lock.
    """

    def __init__(self, workers: int, lock_path: str) -> None:
        self.workers = workers
        self._lock_path = lock_path
        self._lock_file: int | None = None
        self._depth = 0
        memory = mmap.mmap(-1, (_FIRST_WORKER + workers) * _WORD_BYTES)
        self._words = memoryview(memory).cast("q")
        self.on_change: Callable[[], object] = lambda: None
        """Notifies the other workers; each worker sets its own."""

    @property
    def change(self) -> int:
        """Return the number of the catalogue's latest change."""
        return int(self._words[_CHANGE])

    def changed(self, change: int) -> None:
        """Publish a change of the catalogue; the caller holds the lock."""
        self._words[_CHANGE] = change
        self.on_change()

    @property
    def groups_change(self) -> int:
        """Return the number of the latest change of groups' settings."""
        return int(self._words[_GROUPS_CHANGE])

    def groups_changed(self) -> None:
        """Publish a change of groups' settings, which is in their file; the caller holds the lock."""
        self._words[_GROUPS_CHANGE] += 1
        self.on_change()

    def worker_started(self, change: int) -> bool:
        """Publish that a worker has read the shared files, the catalogue with this change: the previous worker may have
        died between a write and its publication. Returns False if another process has the lock: call again.
        """
        if not self.take():
            return False
        self._words[_CHANGE] = max(self.change, change)
        self.groups_changed()
        self.give()
        return True

    @property
    def metadata_end(self) -> int:
        """The offset after the last durable record of the cluster's metadata."""
        return int(self._words[_METADATA_END])

    def metadata_changed(self, end_offset: int) -> None:
        """Publish durable records of the cluster's metadata; only its owner calls this."""
        self._words[_METADATA_END] = end_offset
        self.on_change()

    def begin(self, change: int) -> None:
        """Set the change that the supervisor found. No worker has processed anything yet."""
        self._words[_CHANGE] = change

    def follow(self, worker: int, change: int) -> None:
        """Record that a worker has completed all work for changes up to `change`."""
        self._words[_FIRST_WORKER + worker] = change

    @property
    def followed_by_all(self) -> int:
        """Return the latest change for which all workers have completed their work."""
        return min(self._words[_FIRST_WORKER:])

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Exclude other processes; wait for them. The lock is held only as long as replacing a small file takes."""
        self._take(fcntl.LOCK_EX)
        try:
            yield
        finally:
            self.give()

    def take(self) -> bool:
        """Take the lock, to be released with `give`. Returns False if another process has it."""
        try:
            self._take(fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def give(self) -> None:
        """Release the lock."""
        self._depth -= 1
        if self._depth == 0:
            assert self._lock_file is not None
            fcntl.flock(self._lock_file, fcntl.LOCK_UN)

    def _take(self, how: int) -> None:
        if self._lock_file is None:
            # Opened here and not by the supervisor: processes that inherit an open file share its lock.
            self._lock_file = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        if self._depth == 0:
            fcntl.flock(self._lock_file, how)
        self._depth += 1
