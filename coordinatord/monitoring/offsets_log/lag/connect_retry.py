"""How long a broker is waited for, and what the user is told meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from coordinatord.monitoring.offsets_log.source.options import PATIENCE_S
from coordinatord.monitoring.offsets_log.source.segments import Refused, SourceError

QUICKLY_S = 3
"""A reachable broker answers within this time. For a slower one, the user is told of the wait."""

Answer = TypeVar("Answer")


def patiently(ask: Callable[[int], Answer], tell: Callable[[str], object]) -> Answer:
    """What `ask` returns, which gets how many seconds to wait. If it fails within the first few, `tell` says why before
    it is asked again. Raises SourceError, without a second attempt where a port refuses.
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
    """Return when a broker answers. Raises SourceError."""
    from coordinatord.monitoring.offsets_log.source.connecting import AtAPrompt, connected

    def connect(patience_s: int) -> None:
        with connected(bootstrap, settings, patience_s, AtAPrompt):
            """It answers."""

    patiently(connect, tell)
