"""How the exporter reads the offsets log up to its ends, beside a cluster whose answers the test gives."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from coordinatord.base.observe.health import Health
from coordinatord.monitoring.dashboard.view import Limits
from coordinatord.monitoring.exporter.choice import Choice
from coordinatord.monitoring.exporter.reading import Reading
from coordinatord.monitoring.exporter.watcher import Watcher
from coordinatord.monitoring.offsets_log.source.segments import SourceError
from kafka_wire.records.batch import build_batch

BATCH = bytes(build_batch([(b"k", b"v")], 1))


class Cluster:
    """One partition of the offsets log. Its record comes after so many empty responses; None: never."""

    def __init__(self, comes_after: int | None = None) -> None:
        self.fetches = 0
        self.comes_after = comes_after

    def log_partitions(self) -> list[int]:
        return [7]

    def log_bounds(self, numbers: list[int]) -> dict[int, tuple[int, int]]:
        return dict.fromkeys(numbers, (0, 1))

    def fetch(self, _offsets: dict[int, int]) -> dict[int, Any]:
        self.fetches += 1
        is_there = self.comes_after is not None and self.fetches > self.comes_after
        return {
            7: SimpleNamespace(data=BATCH if is_there else b"", log_start=0, end=1, is_out_of_range=False),
        }


def watcher_of() -> tuple[Watcher, list[float]]:
    """A watcher, and its pauses, which end at once."""
    limits = Limits(10, 10)
    made = Watcher("here:1", {}, Reading(Choice(), Choice(), limits), Health(), interval_s=1)
    pauses: list[float] = []
    made._stopping = SimpleNamespace(is_set=lambda: False, wait=pauses.append)  # type: ignore[assignment]
    return made, pauses


@pytest.mark.parametrize("comes_after", [0, 1, 50])
def test_a_partition_may_be_slow(comes_after: int) -> None:
    watcher, pauses = watcher_of()
    cluster: Any = Cluster(comes_after)
    watcher._read(cluster)
    assert watcher._next == {7: 1}
    assert (cluster.fetches, len(pauses)) == (comes_after + 1, comes_after)


def test_a_partition_that_returns_nothing_fifty_one_times_is_an_error() -> None:
    watcher, pauses = watcher_of()
    cluster: Any = Cluster()
    with pytest.raises(SourceError, match="here:1: 1 partitions of the offsets log cannot be read"):
        watcher._read(cluster)
    assert (cluster.fetches, len(pauses)) == (51, 50)
