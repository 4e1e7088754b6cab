"""Reports the log's recovery after an unclean stop to the operator."""

from __future__ import annotations

from collections.abc import Sequence

from coordinatord.log.recovery import PartitionRecovery
from coordinatord.observe.logger import get_logger


def tell_of_recovery(recovered: Sequence[PartitionRecovery]) -> int:
    """Log one line, and one for each truncated tail; returns the truncated bytes."""
    log = get_logger("coordinatord.daemon")
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
