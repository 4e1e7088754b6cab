"""Queries that tests begin themselves, on a machine that may be busy."""

from __future__ import annotations

import threading
import time
from typing import Any

IS_SLOW = "Python worker failed to connect back"
TIMES = 6
LOOK_S = 0.2


class Query:
    """A streaming query that is begun again when Python was too slow for Spark, which waits ten seconds for a source's
    process, whatever is set. That is before its first batch, and it goes on from its checkpoint.
    """

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self._lock = threading.Lock()
        self._begun = 1
        self._is_stopped = False
        self._query = writer.start()
        threading.Thread(target=self._watch, daemon=True).start()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._query, name)

    def stop(self) -> None:
        with self._lock:
            self._is_stopped = True
            self._query.stop()

    def exception(self) -> Any:
        self._goes_on()
        return self._query.exception()

    def awaitTermination(self, timeout: float) -> bool:  # noqa: N802 - Spark calls it so
        """As Spark's."""
        ends_s = time.monotonic() + timeout
        while (left_s := ends_s - time.monotonic()) > 0:
            try:
                return bool(self._query.awaitTermination(left_s))
            except Exception:
                if not self._goes_on():
                    raise
        return False

    def _goes_on(self) -> bool:
        """Whether it runs, if need be again."""
        with self._lock:
            error = self._query.exception()
            if error is None:
                return True
            if IS_SLOW not in str(error) or self._is_stopped or self._begun == TIMES:
                return False
            self._begun += 1
            self._query = self._writer.start()
            return True

    def _watch(self) -> None:
        """Somebody may wait for what the query does, and never ask how it is."""
        while self._query.isActive or (self._query.exception() is not None and self._goes_on()):
            time.sleep(LOOK_S)
