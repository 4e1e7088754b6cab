"""Log lines about the data directory at a start: recovery after an unclean stop, and unknown entries."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from coordinatord.base.observe.logger import get_logger
from coordinatord.broker.log.ownership import Foreign
from coordinatord.broker.log.recovery import PartitionRecovery

SAY_EVERY_S = 5.0


def opening_progress(clock_s: Callable[[], float] = time.monotonic) -> Callable[[int, int], None]:
    """Return a function to call after each partition that a start has opened, with the number of opened partitions and
    their total. The function logs a line at most every SAY_EVERY_S seconds, because clients cannot connect in the
    meantime. Repairing thousands of partitions on a busy disk takes a minute and more.
    """
    log = get_logger("coordinatord.server.daemon")
    told_s = clock_s()

    def opened(count: int, of: int) -> None:
        nonlocal told_s
        if count < of and clock_s() - told_s >= SAY_EVERY_S:
            told_s = clock_s()
            log.info("opening the log before listening", partitions=count, of=of)

    return opened


def copying_progress(clock_s: Callable[[], float] = time.monotonic) -> Callable[[int], None]:
    """Return a function like that of `opening_progress`, to be called with the bytes that a start has copied from a
    database; their total is unknown until the end.
    """
    log = get_logger("coordinatord.server.daemon")
    told_s = clock_s()

    def copied(size: int) -> None:
        nonlocal told_s
        if clock_s() - told_s >= SAY_EVERY_S:
            told_s = clock_s()
            log.info("copying the log from the database before listening", bytes=size)

    return copied


def log_recovery(recovered: Sequence[PartitionRecovery]) -> int:
    """Log one line, and one for each truncated tail; return the truncated bytes."""
    log = get_logger("coordinatord.server.daemon")
    if recovered:
        log.info("log recovered after an unclean stop", partitions=len(recovered))
    for recovery in recovered:
        if recovery.truncated_bytes:
            log.warning(
                "torn tail cut off",
                partition=f"{recovery.topic}-{recovery.partition}",
                truncated_bytes=recovery.truncated_bytes,
                truncated_records=recovery.truncated_records,
                reason=recovery.reason,
            )
    return sum(recovery.truncated_bytes for recovery in recovered)


def log_unknown_files(foreign: Foreign) -> None:
    """Log one unknown entry. Thread-safe."""
    log = get_logger("coordinatord.broker.log")
    if foreign.renamed_to is None:
        log.info("left alone: it is not ours", entry=foreign.name, reason=foreign.reason)
    else:
        log.warning(
            "stray partition set aside", entry=foreign.name, renamed_to=foreign.renamed_to, reason=foreign.reason
        )
