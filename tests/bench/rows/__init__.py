"""The rows of the table, by what they look at. Importing this package fills `registry.ROWS`, in this order."""

from tests.bench.rows import steady, membership  # isort: skip

__all__ = ["membership", "steady"]
