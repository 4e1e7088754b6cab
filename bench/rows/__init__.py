"""The rows of the table, by what they look at. Importing this package fills `registry.ROWS`, in this order."""

# isort: off
from bench.rows import (
    suite,
    latency,
    day,
    real,
    steady,
    secured,
    membership,
    consumer,
    process,
    crowd,
    records,
    share,
    log,
    stored,
    pipeline,
)

__all__ = [
    "consumer",
    "crowd",
    "day",
    "latency",
    "log",
    "membership",
    "pipeline",
    "process",
    "real",
    "records",
    "secured",
    "share",
    "steady",
    "stored",
    "suite",
]
