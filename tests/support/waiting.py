"""Waiting for something to come true, with an end."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 110.0
"""The time that tests wait for anything that another process or thread does: it ends a hang, and measures nothing."""
INTERVAL_S = 0.02


def wait_until(
    condition: Callable[[], object],
    what: str = "it to come true",
    *,
    timeout_s: float = PATIENCE_S,
    seen: Callable[[], object] = lambda: "",
) -> float:
    """Look until `condition()` is true, and return how many seconds that took; `seen()` says what was there instead."""
    began_s = time.monotonic()
    while not condition():
        waited_s = time.monotonic() - began_s
        assert waited_s < timeout_s, f"waited {timeout_s:g} s for {what}; {seen()}"
        time.sleep(INTERVAL_S)
    return time.monotonic() - began_s
