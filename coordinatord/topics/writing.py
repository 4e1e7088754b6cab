"""A small file that another thread replaces, while the event loop does other work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Writing(Generic[T]):
    """The write of `content` by `write`, `error` is what that raised, once it has ended."""

    def __init__(self, content: T, write: Callable[[], object]) -> None:
        self.content = content
        self.error: Exception | None = None
        self._write = write
        self._lock = threading.Lock()
        self._is_done = False

    def write(self) -> None:
        """Write, unless that is done already."""
        with self._lock:
            if not self._is_done:
                self._is_done = True
                try:
                    self._write()
                except Exception as error:
                    self.error = error

    def is_written(self) -> bool:
        """Whether the write has succeeded; waits for it, and makes it if nobody has begun."""
        self.write()
        return self.error is None
