"""The steps of share groups, imported by the first event of one: a start without share groups does not import them."""

from __future__ import annotations

from typing import Any

from coordinatord.coordination.group.result import NOTHING, Result
from coordinatord.coordination.group.state import Group


def share_event(group: Group, event: Any, now_ms: int) -> Result:
    """Handle an event of a share group, or one of share/events.py."""
    from coordinatord.coordination.group.share.step import share_step

    return share_step(group, event, now_ms)


def restore_share(group: Group, now_ms: int) -> Result:
    """Start sessions anew when a share group has been loaded."""
    from coordinatord.coordination.group.share.step import restore

    if group.share is None or group.surroundings is None:
        return NOTHING
    return restore(group, group.share, group.surroundings, now_ms)
