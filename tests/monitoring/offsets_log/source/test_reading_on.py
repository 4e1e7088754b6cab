"""A broker's log that is cleaned while it is read: no group may lose its only record to one that is not read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

import pytest

from coordinatord.monitoring.offsets_log.lag import lag_scan
from coordinatord.monitoring.offsets_log.lag.fold import KINDS
from coordinatord.monitoring.offsets_log.lag.lag_scan import Looks, Snapshot
from coordinatord.monitoring.offsets_log.source import broker
from coordinatord.monitoring.offsets_log.source.broker import BrokerTail
from coordinatord.monitoring.offsets_log.source.end_offsets import Ending
from coordinatord.monitoring.offsets_log.source.options import read_options
from kafka_wire.records.batch import build_batch
from kafka_wire.records.offsets import OffsetCommitKey, OffsetCommitValue
from tests.monitoring.pipeline.logs import START_MS, encoded

Log = dict[int, str]
"""Groups by the offset in the log of their commit, which is also the committed offset."""


class Cluster:
    """Stands for a broker with one partition of the log. `happens` has what befalls
    the log before each fetch.
    """

    def __init__(self, *happens: Callable[[Log], None]) -> None:
        self.log = {0: "kept", 1: "overtaken", 2: "kept", 3: "last"}
        self.happens = list(happens)
        self.fetches: list[int] = []
        self.looked_up: list[Collection[tuple[str, int]]] = []

    def bounds(self, tail: BrokerTail) -> None:
        tail._bounds = {"__consumer_offsets-0": (0, max(self.log) + 1)}

    def refresh(self) -> None:
        """Its leader does not change."""

    def log_bounds(self, numbers: list[int]) -> dict[int, tuple[int, int]]:
        return dict.fromkeys(numbers, (0, max(self.log) + 1))

    def fetch(self, _cluster: object, _options: object, _partition: int, offset: int) -> tuple[bytes, int]:
        self.fetches.append(offset)
        if self.happens:
            self.happens.pop(0)(self.log)
        return b"".join(_batch(at, self.log[at]) for at in sorted(self.log) if at >= offset), 0

    def topic_ends(self, _bootstrap: str, now_ms: int, places: Collection[tuple[str, int]], *_: object) -> list[Ending]:
        assert self.fetches, "the log was read before"
        self.looked_up.append(places)
        return [Ending("t", 0, now_ms, 0, 100 * len(self.looked_up))]

    def look(self, monkeypatch: pytest.MonkeyPatch, *last: bool) -> Iterator[Snapshot]:
        """A look for each of `last`."""

        @contextmanager
        def connected(_options: object) -> Iterator[Cluster]:
            yield self

        monkeypatch.setattr(broker, "connected", connected)
        monkeypatch.setattr(BrokerTail, "_look", lambda tail: self.bounds(tail))
        monkeypatch.setattr(broker, "fetch", self.fetch)
        monkeypatch.setattr(lag_scan, "from_broker", self.topic_ends)
        options = read_options({"bootstrap": "broker:9092", "kinds": ",".join(sorted(KINDS))})
        found = Looks(options, "broker:9092", {})
        for each in last:
            yield found.look(START_MS + 60_000, last=each)


def _batch(at: int, group: str) -> bytes:
    record = encoded(1, 3, OffsetCommitKey(group, "t", 0), OffsetCommitValue(at, 0, "", START_MS))
    return bytes(build_batch([record], START_MS, at))


def moved(*steps: tuple[int, int]) -> Callable[[Log], None]:
    """The group of one offset commits at another, and the cleaner removes what it had committed before."""

    def happen(log: Log) -> None:
        for before, after in steps:
            log[after] = log.pop(before)

    return happen


def committed(look: Snapshot) -> dict[str, int | None]:
    return {row.group_id: row.committed_offset for row in look.rows}


def test_a_commit_that_the_cleaner_removed_for_a_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(moved((1, 4)))
    [look] = cluster.look(monkeypatch, True)
    assert committed(look) == {"kept": 2, "overtaken": 4, "last": 3}
    assert cluster.fetches == [0, 4], "nothing is missing in what was read last"
    assert cluster.looked_up == [{("t", 0)}], "what is asked for alone, and no earlier than the commits"


def test_a_commit_that_the_cleaner_overtook_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a further commit, so that there is something to fetch between the two."""

    def first(log: Log) -> None:
        moved((1, 4))(log)
        log[5] = "new"

    cluster = Cluster(first, moved((4, 6)))
    [look] = cluster.look(monkeypatch, True)
    assert committed(look)["overtaken"] == 6
    assert cluster.fetches == [0, 4, 6]


def test_a_cleaner_that_never_rests_is_not_followed_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [moved((1 if number == 0 else 4 + 2 * (number - 1), 4 + 2 * number)) for number in range(50)]
    cluster = Cluster(*steps)
    [look] = cluster.look(monkeypatch, True)
    assert len(cluster.fetches) <= 1 + broker.READS_ON
    assert "kept" in committed(look)


def test_a_log_that_did_not_grow_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    [look] = cluster.look(monkeypatch, True)
    assert committed(look) == {"kept": 2, "overtaken": 1, "last": 3}
    assert cluster.fetches == [0]
    assert (cluster.looked_up, {row.end_offset for row in look.rows}) == ([{("t", 0)}], {100})


def test_who_looks_again_reads_it_then(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(moved((1, 4)))
    first, second = cluster.look(monkeypatch, False, False)
    assert (committed(first).get("overtaken"), committed(second)["overtaken"]) == (None, 4)
    assert cluster.fetches == [0, 4]
