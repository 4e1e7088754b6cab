"""Time limits of connections to a broker, and the message to the user meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from coordinatord.monitoring.offsets_log.source.options import PATIENCE_S
from coordinatord.monitoring.offsets_log.source.segments import Refused, SourceError

QUICKLY_S = 3
"""Seconds within which a reachable broker responds. For a slower one, the user gets a message about the wait."""

Answer = TypeVar("Answer")


def patiently(ask: Callable[[int], Answer], tell: Callable[[str], object]) -> Answer:
    """Return the result of `ask`, which gets the number of seconds to wait. If the first attempt times out, `tell` gets
    the reason before a second, longer one. Raises SourceError, without a second attempt if the port refuses
    connections.
    """
    began_s = time.monotonic()
    try:
        return ask(QUICKLY_S)
    except Refused:
        raise
    except SourceError as error:
        if time.monotonic() - began_s < QUICKLY_S / 2:
            raise  # it failed without waiting: another attempt would not help
        tell(f"{error}; asking again for {PATIENCE_S} s")
        return ask(PATIENCE_S)


def reach(bootstrap: str, settings: Mapping[str, Any], tell: Callable[[str], object]) -> None:
    """Return when a broker responds. Raises SourceError."""
    from coordinatord.monitoring.offsets_log.source.connecting import AtAPrompt, connected

    def connect(patience_s: int) -> None:
        with connected(bootstrap, settings, patience_s, AtAPrompt):
            """A broker responds: nothing else is needed."""

    patiently(connect, tell)
