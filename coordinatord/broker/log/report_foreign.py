"""Log lines about unknown entries in the data directory, one for each."""

from __future__ import annotations

from coordinatord.base.observe.logger import get_logger
from coordinatord.broker.log.ownership import Foreign


def log_unknown_files(foreign: Foreign) -> None:
    """Log one unknown entry. Thread-safe."""
    log = get_logger("coordinatord.broker.log")
    if foreign.renamed_to is None:
        log.info("left alone: it is not ours", entry=foreign.name, reason=foreign.reason)
    else:
        log.warning(
            "stray partition set aside", entry=foreign.name, renamed_to=foreign.renamed_to, reason=foreign.reason
        )
