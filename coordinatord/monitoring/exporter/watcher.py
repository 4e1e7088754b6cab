"""Thread that samples a cluster periodically: new records of the offsets log, then the ends of partitions, then the
share groups, whose lag is in no log. Each sample replaces the view. While the cluster cannot be read, the last view
stays, and its age grows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from coordinatord.base.observe.health import Health
from coordinatord.base.observe.logger import get_logger
from coordinatord.monitoring.admin import connection
from coordinatord.monitoring.admin.connection import AdminError, Unreachable
from coordinatord.monitoring.admin.groups import SHARE
from coordinatord.monitoring.admin.share_looks import ShareGroupRows, ShareLooks
from coordinatord.monitoring.analysis.ends import Tail
from coordinatord.monitoring.analysis.generations import TopicPartition
from coordinatord.monitoring.analysis.groups import group_now
from coordinatord.monitoring.analysis.share_state import Replayed
from coordinatord.monitoring.dashboard.trends import Trends
from coordinatord.monitoring.dashboard.view import GroupView, View
from coordinatord.monitoring.exporter.reading import Reading
from coordinatord.monitoring.offsets_log.source.cluster import Cluster
from coordinatord.monitoring.offsets_log.source.options import read_options
from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.offsets_log.source.share_state_topic import SharePartition, ShareStates
from coordinatord.monitoring.offsets_log.source.tails import (
    earlier,
    offsets_retention,
    retention,
    sessions_from_broker,
    tails,
)
from coordinatord.monitoring.offsets_log.source.topic_names import names_from_broker

PATIENCE_S = 10.0
AGAIN_S = (1.0, 30.0)
"""The shortest and the longest pause after a failure, in seconds; each pause is twice the one before."""
DESCRIBE_S = 600.0
"""Interval in seconds at which the configurations of topics are requested."""
REFRESH_S = 30.0
"""Interval in seconds at which metadata is requested again: for new partitions, and recreated topics."""

log = get_logger("coordinatord.monitoring.exporter")


def wall_ms() -> int:
    """Return the milliseconds since 1970."""
    return int(time.time() * 1000)


class Watcher:
    """The watcher of one cluster, between `start` and `stop`. All other attributes may be read by any thread."""

    def __init__(
        self,
        bootstrap: str,
        settings: Mapping[str, Any],
        reading: Reading,
        health: Health,
        *,
        interval_s: float,
        now_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self.bootstrap = bootstrap
        self.view: View | None = None
        self.trends = Trends()
        self.cluster_id: str | None = None
        self.is_up = False
        self.looks = 0
        self.failures = 0
        self.cuts = 0
        """Number of times that a partition of the log was truncated or recreated, and read again from its start."""
        self.lost = 0
        """Records that the cluster deleted before they were read."""
        self.look_s = 0.0
        self.why: str | None = None
        self._settings = settings
        self._reading = reading
        reading.histories.topic_names = lambda: names_from_broker(bootstrap, settings)
        reading.histories.sessions = lambda groups: sessions_from_broker(bootstrap, settings, groups)
        self._health = health
        self._interval_s = interval_s
        self._now_ms = now_ms
        self._next: dict[int, int] = {}
        self._has_read_all = False
        self._ends: dict[TopicPartition, int] = {}
        """End offsets in the last sample."""
        self._tails: dict[TopicPartition, Tail] = {}
        """Tails of partitions whose end has not moved since the tail was read."""
        self._topics: set[str] = set()
        self._shares = ShareLooks(reading.rules)
        options = replace(read_options({"bootstrap": bootstrap}), broker=dict(settings))
        self._states = ShareStates(options, reading.groups.__contains__)
        self._shares_refused: str | None = None
        """The reason why share groups could not be read by the last sample."""
        self._states_refused: str | None = None
        """The reason why their stored states could not be read by the last sample."""
        self._retention: dict[str, int] = {}
        """retention.ms at the time when the configurations of `_topics` were described."""
        self._described_s = 0.0
        self._refreshed_s = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    @property
    def records(self) -> int:
        return self._reading.records

    def start(self) -> None:
        self._health.loading(f"the offsets log of {self.bootstrap} is being read")
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(timeout=PATIENCE_S)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        pause_s = AGAIN_S[0]
        while not self._stopping.is_set():
            try:
                with (
                    Cluster(self.bootstrap, self._settings, PATIENCE_S) as cluster,
                    connection.cluster(self.bootstrap, self._settings, PATIENCE_S) as admin,
                ):
                    while not self._stopping.is_set():
                        began_s = time.monotonic()
                        self._look(cluster, admin)
                        pause_s = AGAIN_S[0]
                        self.look_s = time.monotonic() - began_s
                        self._stopping.wait(max(0.0, self._interval_s - self.look_s))
            except (SourceError, Unreachable) as error:
                self._failed(str(error))
            except Exception as error:  # from kafka-python, for example: it must not end the series of all groups
                log.exception("look failed")
                self._failed(f"{type(error).__name__}: {error}")
            self._stopping.wait(pause_s)
            pause_s = min(2 * pause_s, AGAIN_S[1])

    def _failed(self, why: str) -> None:
        self.failures += 1
        if self.is_up or self.why != why:
            log.warning("the cluster cannot be read", bootstrap=self.bootstrap, reason=why)
        self.is_up, self.why = False, why

    def _look(self, cluster: Cluster, admin: connection.Cluster) -> None:
        self._check_cluster(cluster.id)
        if time.monotonic() - self._refreshed_s > REFRESH_S:
            cluster.refresh()
            self._refreshed_s = time.monotonic()
        read_ms = self._now_ms()
        self._read(cluster)
        places = self._reading.places()
        bounds = cluster.bounds(places)
        now_ms = self._now_ms()
        new = {place: bounds[place] for place in self._reading.unknown(bounds)}
        points = earlier(cluster, new, now_ms, self._reading.rules.window_ms) if new else {}
        if time.monotonic() - self._described_s > DESCRIBE_S or not {topic for topic, _ in new} <= self._topics:
            self._topics = {topic for topic, _ in bounds}
            self._retention = retention(cluster, self._topics)
            self._reading.offsets_retention_ms = offsets_retention(cluster)
            self._described_s = time.monotonic()
        self._reading.ended(bounds, now_ms, self._look_at_tails(cluster, bounds), self._retention, points)
        view = self._reading.view(read_ms)  # later commits may be unknown
        self.view = replace(view, groups={**view.groups, **self._look_at_shares(admin)})
        self.trends.add(self.view)
        self.looks += 1
        if not self.is_up:
            log.info("the cluster is read", bootstrap=self.bootstrap, groups=len(self.view.groups))
        self.is_up, self.why = True, None
        if not self._has_read_all:
            self._has_read_all = self._reading.histories.is_counting = True
            self._health.ready()

    def _look_at_shares(self, admin: connection.Cluster) -> dict[str, GroupView]:
        """Return the share groups; none, with one line in the log, if the cluster refuses to describe them."""
        try:
            found = self._shares.look(admin, self._now_ms(), self._reading.groups.__contains__, self._stored)
        except AdminError as error:
            if self._shares_refused != str(error):
                self._shares_refused = str(error)
                log.warning("share groups cannot be read", bootstrap=self.bootstrap, reason=str(error))
            return {}
        self._shares_refused = None
        return {each.group_id: _share_view(each, self._states) for each in found}

    def _stored(self) -> Mapping[SharePartition, Replayed]:
        """Return the stored states of share partitions; none, with one line in the log, if they cannot be read: the lag
        is known without them.
        """
        try:
            found = self._states.read()
        except SourceError as error:
            if self._states_refused != str(error):
                self._states_refused = str(error)
                log.warning("deliveries of share groups cannot be read", bootstrap=self.bootstrap, reason=str(error))
            return {}
        self._states_refused = None
        return found

    def _look_at_tails(
        self, cluster: Cluster, bounds: Mapping[TopicPartition, tuple[int, int]]
    ) -> dict[TopicPartition, Tail]:
        """Return the tails. A tail is read once, when a partition has the same end offset in two samples: no verdict on
        a group depends on it while producers write.
        """
        ends = {place: end for place, (_start, end) in bounds.items()}
        same = {place for place, end in ends.items() if self._ends.get(place) == end}
        known = {place: tail for place, tail in self._tails.items() if place in same}
        found = tails(cluster, bounds, same - known.keys())
        merged: dict[TopicPartition, Tail] = {}
        for place, tail in found.items():
            before = known.get(place)
            merged[place] = tail if before is None or before.stable_offset != tail.stable_offset else before
        # The tail of a partition whose transaction has ended is read again by the next sample.
        self._tails = {
            place: tail
            for place, tail in merged.items()
            if place in same and (place not in known or known[place].stable_offset == tail.stable_offset)
        }
        self._ends = ends
        return merged

    def _check_cluster(self, cluster_id: str | None) -> None:
        if self.cluster_id is not None and cluster_id is not None and cluster_id != self.cluster_id:
            log.warning("another cluster answers; it is read from the begin", before=self.cluster_id, now=cluster_id)
            for number in self._next:
                self._reading.begin(number)
            self._next.clear()
        self.cluster_id = cluster_id or self.cluster_id

    def _read(self, cluster: Cluster) -> None:
        """Read up to the ends that the log has when this begins; the first sample reads all of it."""
        numbers = cluster.log_partitions()
        fresh = [number for number in numbers if number not in self._next]
        for number, (start, _end) in cluster.log_bounds(fresh).items():
            self._next[number] = start
        goals: dict[int, int] = {}
        left = [number for number in numbers if number in self._next]
        empty = 0
        while left and not self._stopping.is_set():
            found = cluster.fetch({number: self._next[number] for number in left})
            moved = False
            for number, fetched in found.items():
                goals.setdefault(number, fetched.end)
                moved = (
                    self._take(number, fetched.data, fetched.log_start, fetched.end, fetched.is_out_of_range) or moved
                )
            left = [n for n in left if n not in goals or self._next[n] < goals[n]]
            left = [*left[1:], *left[:1]]  # a batch larger than the response limit is only returned as its first one
            empty = 0 if moved else empty + 1
            if left and empty:
                if empty > 50:
                    raise SourceError(f"{self.bootstrap}: {len(left)} partitions of the offsets log cannot be read")
                self._stopping.wait(0.2)

    def _take(self, number: int, data: bytes, log_start: int, end: int, is_out: bool) -> bool:
        """Fold fetched data. Return whether anything has changed."""
        offset = self._next[number]
        if is_out:
            if offset < log_start:
                self.lost += log_start - offset
            else:  # the log ends before the offset: it was truncated, or recreated
                self.cuts += 1
                self._reading.begin(number)
            self._next[number] = max(log_start, 0)
            return True
        self._next[number] = self._reading.take(number, data, offset)
        return self._next[number] > offset


def _share_view(found: ShareGroupRows, states: ShareStates) -> GroupView:
    return GroupView(
        group_id=found.group_id,
        group_type=SHARE,
        now=group_now(found.rows) if found.rows else None,
        rows=found.rows,
        members=found.members,
        commits=None,
        causes={},
        deliveries=found.deliveries,
        state_changes_ms=found.changes_ms,
        redelivered=states.redelivered[found.group_id],
        archived=states.archived[found.group_id],
    )
