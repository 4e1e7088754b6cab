"""The tests' own queries: what begins one again, and what does not. Without Spark."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("pyspark")  # it is not started

from coordinatord.monitoring.pipeline.run.ingest import IS_SLOW
from tests.monitoring.pipeline.spark.queries import TIMES, Query

pytestmark = pytest.mark.spark


class Run:
    """A query as Spark's, that has ended with `error`, or in order."""

    def __init__(self, error: str | None) -> None:
        self.error = error
        self.isActive = False

    def exception(self) -> str | None:
        return self.error

    def awaitTermination(self, timeout: float) -> bool:  # noqa: N802 - Spark calls it so
        if self.error:
            raise RuntimeError(self.error)
        return True


class Writer:
    """Its queries end one after the other as `errors` says, and then in order."""

    def __init__(self, *errors: str) -> None:
        self.errors = list(errors)
        self.started = 0

    def start(self) -> Run:
        self.started += 1
        return Run(self.errors.pop(0) if self.errors else None)


def test_a_query_that_found_python_slow_is_begun_again() -> None:
    writer = Writer(f"{IS_SLOW}.", f"... {IS_SLOW}.")
    query = Query(writer)
    assert query.awaitTermination(5)
    assert query.exception() is None
    assert writer.started == 3


def test_one_that_nobody_asks_is_begun_again() -> None:
    writer = Writer(f"{IS_SLOW}.")
    assert Query(writer)
    ends_s = time.monotonic() + 60
    while writer.started < 2:
        assert time.monotonic() < ends_s
        time.sleep(0.01)


def test_others_are_not_begun_again_nor_for_ever() -> None:
    writer = Writer("a defect")
    with pytest.raises(RuntimeError, match="a defect"):
        Query(writer).awaitTermination(5)
    assert writer.started == 1
    writer = Writer(*[IS_SLOW] * TIMES)
    with pytest.raises(RuntimeError, match=IS_SLOW):
        Query(writer).awaitTermination(5)
    assert writer.started == TIMES
