"""How the exporter reads the offsets log up to its ends, beside a cluster whose answers the test gives."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from coordinatord.base.observe.health import Health
from coordinatord.monitoring.analysis.burrow import Commit
from coordinatord.monitoring.analysis.commit_window import Trail
from coordinatord.monitoring.analysis.offset_timeline import Point
from coordinatord.monitoring.analysis.status import Rules
from coordinatord.monitoring.dashboard.view import Limits
from coordinatord.monitoring.exporter import watcher as watching
from coordinatord.monitoring.exporter.choice import Choice
from coordinatord.monitoring.exporter.reading import Reading
from coordinatord.monitoring.exporter.watcher import Watcher
from coordinatord.monitoring.offsets_log.lag.fold import Fold
from coordinatord.monitoring.offsets_log.lag.lag_scan import Scene
from coordinatord.monitoring.offsets_log.source.end_offsets import Ending
from coordinatord.monitoring.offsets_log.source.options import read_options
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


def regular(until_ms: int) -> Fold:
    """A group that has read all at each of its commits, one a second."""
    fold = Fold(Rules().window_ms)
    commits = [Commit(100 - ago_s, until_ms - ago_s * 1000, None) for ago_s in range(60, -1, -1)]
    fold.trails["g", "t", 0] = Trail(Rules().window_ms, commits)
    return fold


def points(until_ms: int) -> list[Point]:
    return [Point(100 - ago_s, until_ms - ago_s * 1000) for ago_s in (60, 30, 0)]


def test_a_group_is_not_silent_because_the_log_takes_long_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred seconds, in which a thousand records come, and a commit for each that is not read yet."""
    clock = [5_000_000]
    reading = Reading(Choice(), Choice())
    reading._folds[7] = regular(clock[0])
    watcher = Watcher("here:1", {}, reading, Health(), interval_s=1, now_ms=lambda: clock[0])

    def read(_cluster: object) -> None:
        clock[0] += 200_000

    monkeypatch.setattr(watcher, "_read", read)
    monkeypatch.setattr(watching, "earlier", lambda *_: {("t", 0): points(5_000_000)})
    monkeypatch.setattr(watching, "retention", lambda *_: {})
    monkeypatch.setattr(watching, "offsets_retention", lambda *_: None)
    monkeypatch.setattr(watching, "tails", lambda *_: {})
    cluster: Any = SimpleNamespace(id="c", refresh=lambda: None, bounds=lambda _: {("t", 0): (0, 1_100)})
    shares: Any = SimpleNamespace(newest=lambda _request: 0)  # too old for share groups
    watcher._look(cluster, shares)
    assert watcher.view is not None
    (row,) = watcher.view.groups["g"].rows
    assert (row.status, row.lag, row.end_offset_ms) == ("behind", 1_000, 5_200_000)


def test_nor_does_the_command_lag_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [1_000.0]
    monkeypatch.setattr("time.monotonic", lambda: seconds[0])
    wanted = read_options({"bootstrap": "here:1"}).wanted

    def look_up(now_ms: int, _places: object) -> list[Ending]:
        return [Ending("t", 0, now_ms, 0, 1_100, points=points(5_000_000))]

    scene = Scene(wanted, {}, 5_000_000, Rules(), None, look_up, began_s=seconds[0])
    seconds[0] += 200
    (row,) = scene.with_ends([("t", 0)]).verdict(regular(5_000_000), {}).rows
    assert (row.status, row.lag, row.end_offset_ms) == ("behind", 1_000, 5_200_000)


def test_each_reason_why_the_cluster_cannot_be_read_is_logged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    watcher, _ = watcher_of()
    logged: list[tuple[str, str]] = []
    lines = SimpleNamespace(warning=lambda _event, bootstrap, reason: logged.append((bootstrap, reason)))
    monkeypatch.setattr("coordinatord.monitoring.exporter.watcher.log", lines)
    for reason in ("refused", "refused", "timed out"):
        watcher._failed(reason)
    watcher.is_up = True
    watcher._failed("timed out")
    assert logged == [("here:1", reason) for reason in ("refused", "timed out", "timed out")]
    assert (watcher.failures, watcher.is_up, watcher.why) == (4, False, "timed out")
