"""The rows of the table, by what they look at. Importing this package fills `registry.ROWS`, in this order."""

# isort: off
from tests.bench.rows import (
    day,
    real,
    rates,
    paced,
    steady,
    secured,
    membership,
    consumer,
    assignment,
    process,
    crowd,
    overload,
    records,
    log,
    stored,
    whole,
    pipeline,
    scale,
)

__all__ = [
    "assignment",
    "consumer",
    "crowd",
    "day",
    "log",
    "membership",
    "overload",
    "paced",
    "pipeline",
    "process",
    "rates",
    "real",
    "records",
    "scale",
    "secured",
    "steady",
    "stored",
    "whole",
]
