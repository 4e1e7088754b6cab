"""Moments as people write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta

from coordinatord.monitoring.offsets_log.source.segments import SourceError

_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2})?")


def parse_time(text: str, now_ms: int) -> int:
    """Return a moment in epoch ms. `03:12` is the most recent such time (UTC); otherwise ISO 8601, UTC by default, or
    epoch ms. Raises SourceError.
    """
    try:
        at_ms = _time_ms(text, now_ms)
        datetime.fromtimestamp(at_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # a year beyond the calendar
        raise SourceError(f"{text} is no time: 03:12, 2026-11-21T03:12 (UTC) or milliseconds since 1970 are") from None
    return at_ms


def _time_ms(text: str, now_ms: int) -> int:
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    if re.fullmatch(r"\d{11,}", text):
        return int(text)
    if _CLOCK.fullmatch(text):
        then = datetime.combine(now.date(), time.fromisoformat(text.zfill(5 if len(text) < 6 else 8)), UTC)
        return round((then if then <= now else then - timedelta(days=1)).timestamp() * 1000)
    then = datetime.fromisoformat(text)
    return round((then if then.tzinfo is not None else then.replace(tzinfo=UTC)).timestamp() * 1000)
