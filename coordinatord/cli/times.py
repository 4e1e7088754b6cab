"""Times in the output of commands: always with their date, always in UTC and marked as UTC."""

from __future__ import annotations

import time


def utc(at_ms: int) -> str:
    """Return a time in milliseconds since 1970 as `2026-11-28 13:52:00Z`."""
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(at_ms / 1000))


def now_ms() -> int:
    """Return the present time in milliseconds since 1970."""
    return int(time.time() * 1000)
