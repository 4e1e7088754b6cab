"""The rows of the table, by what they look at. Importing this package fills `registry.ROWS`, in this order."""

# isort: off
from tests.bench.rows import (
    day,
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
    "pipeline",
    "process",
    "records",
    "scale",
    "secured",
    "steady",
    "stored",
    "whole",
]
