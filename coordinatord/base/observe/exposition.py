"""Our counters in Prometheus' format, built at each scrape.

Two kinds of names. Metrics that Kafka also has are exported under the names of its dashboards, as jmx_exporter spells
them (`kafka_server_group_coordinator_metrics_offset_commit_count`): untyped, in Kafka's units, with `_rate` and
quantiles over about the last half minute beside the counts, as Kafka's own meters give them. Our own metrics follow
Prometheus' naming rules (`coordinatord_requests_total`, seconds, bytes, histograms).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
    StateSetMetricFamily,
    UnknownMetricFamily,
)
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from coordinatord.base.observe.health import Health, HealthState
from coordinatord.base.observe.metrics import BOUNDS_SECONDS, WATCHES, Histogram, Metrics, Reading

KAFKA = "kafka_server_group_coordinator_metrics_"
OURS = "coordinatord_"

WINDOW_SECONDS = 30.0
"""Minimum time in seconds that rates and quantiles cover, if scrapes go back that far; Kafka's meters cover 30
to 60 s.
"""

EXPORTED_BOUNDS = tuple(
    (index, bound)
    for index, bound in enumerate(BOUNDS_SECONDS)
    if f"{bound:e}"[0] in "125" and f"{bound:e}"[2] == "0" and bound >= 1e-5
)
"""(bucket, upper bound) of exported histograms: 1, 2, 5 of each decade from 10 µs. The internal buckets would be six
series per decade for every API.
"""

KAFKA_METERS: dict[str, Callable[[Metrics], int]] = {
    "offset_commit": lambda metrics: metrics.offset_commits,
    "offset_expiration": lambda metrics: metrics.offset_expirations,
    "offset_deletion": lambda metrics: metrics.offset_deletions,
    "group_completed_rebalance": lambda metrics: metrics.completed_rebalances,
    "consumer_group_rebalance": lambda metrics: metrics.consumer_group_rebalances,
}
"""Metrics that are exported as `_count` and `_rate`."""

KAFKA_HISTOGRAMS: dict[str, Callable[[Metrics], Histogram]] = {
    "event_processing_time_ms": lambda metrics: metrics.event_processing_seconds,
    "event_purgatory_time_ms": lambda metrics: metrics.event_purgatory_seconds,
    "batch_flush_time_ms": lambda metrics: metrics.log_flush_seconds,
}
"""Metrics that are exported as `_max`, `_p50`, `_p95`, `_p99`, `_p999`."""

QUANTILES = (("p50", 0.50), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999))

KAFKA_WATCHES = frozenset(
    {
        "group_count",
        "classic_group_count",
        "consumer_group_count",
        "offset_count",
        "num_partitions",
        "event_queue_size",
    }
)
"""Watches that Kafka exports under the same name; all other watches get our prefix."""

CLASSIC_STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")

OUR_COUNTERS: tuple[tuple[str, str, Callable[[Metrics], int]], ...] = (
    ("connections_accepted", "Client connections accepted.", lambda metrics: metrics.connections_accepted),
    ("received_bytes", "Bytes received from clients.", lambda metrics: metrics.bytes_received),
    ("sent_bytes", "Bytes sent to clients.", lambda metrics: metrics.bytes_sent),
    ("log_appends", "Record batches appended to the log.", lambda metrics: metrics.log_appends),
    ("log_appended_bytes", "Bytes appended to the log.", lambda metrics: metrics.log_appended_bytes),
    ("log_cleanings", "Cleanings of compacted logs.", lambda metrics: metrics.log_cleanings),
    ("log_cleaned_bytes", "Bytes read by the log cleaner.", lambda metrics: metrics.log_cleaned_bytes),
    ("log_rewritten_bytes", "Bytes written by the log cleaner.", lambda metrics: metrics.log_rewritten_bytes),
    ("log_cleaning_failures", "Cleanings that failed.", lambda metrics: metrics.log_cleaning_failures),
    ("loaded_records", "Records read while loading groups.", lambda metrics: metrics.loaded_records),
    ("loaded_bytes", "Bytes read while loading groups.", lambda metrics: metrics.loaded_bytes),
    ("truncated_bytes", "Bytes of torn tails cut off at start.", lambda metrics: metrics.truncated_bytes),
)

OUR_HISTOGRAMS: tuple[tuple[str, str, Callable[[Metrics], Histogram]], ...] = (
    ("event_loop_lag_seconds", "How late the event loop runs timers.", lambda metrics: metrics.loop_lag_seconds),
    ("event_processing_seconds", "Duration of a step.", lambda metrics: metrics.event_processing_seconds),
    ("held_reply_seconds", "Wait of a reply for the log.", lambda metrics: metrics.event_purgatory_seconds),
    ("log_flush_seconds", "Writing and flushing what was pending.", lambda metrics: metrics.log_flush_seconds),
    ("partition_load_seconds", "Loading of an offsets partition.", lambda metrics: metrics.load_seconds),
)

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """Counter values at one time, for computing differences."""

    at: float
    counts: dict[str, int]
    buckets: dict[str, list[int]]


class ShellCollector(Collector):
    """Turns `Metrics` and `Health` into metric families. Used by one registry; scrapes may come from several
    threads.
    """

    def __init__(
        self,
        metrics: Metrics,
        health: Health,
        *,
        version: str,
        api_name: Callable[[int], str],
        error_name: Callable[[int], str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metrics = metrics
        self._health = health
        self._version = version
        self._api_name = api_name
        self._error_name = error_name
        self._clock = clock
        self._failed_watches: dict[str, int] = {}
        nothing = {name: [0] * (len(BOUNDS_SECONDS) + 1) for name in KAFKA_HISTOGRAMS}
        self._lock = threading.Lock()
        self._snapshots = deque([_Snapshot(clock(), dict.fromkeys(KAFKA_METERS, 0), nothing)])

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the registry only uses the result to detect duplicate names."""
        return ()

    def collect(self) -> Iterator[Metric]:
        yield from self._state()
        yield from self._watched()
        yield from self._kafka_meters()
        yield from self._requests()
        yield from self._happenings()
        for name, doc, count in OUR_COUNTERS:
            yield CounterMetricFamily(OURS + name, doc, value=count(self._metrics))
        for name, doc, histogram in OUR_HISTOGRAMS:
            family = HistogramMetricFamily(OURS + name, doc)
            _add_histogram(family, (), histogram(self._metrics))
            yield family

    # ---- state of the daemon
    def _state(self) -> Iterator[Metric]:
        yield InfoMetricFamily(OURS + "build", "What is running.", value={"version": self._version})
        state = self._health.state
        states = {each.value: each is state for each in HealthState}
        yield StateSetMetricFamily(OURS + "state", "What the daemon is doing.", value=states)
        yield GaugeMetricFamily(OURS + "ready", "1 when clients are welcome.", value=float(self._health.readiness()[0]))

    def _watched(self) -> Iterator[Metric]:
        for name, read in _items(self._metrics.watches):
            label, doc = WATCHES[name]
            reading = self._read(name, read)
            if reading is None:
                continue
            labels = (label,) if label else ()
            prefix = KAFKA if name in KAFKA_WATCHES else "" if name.startswith("kafka_") else OURS
            family = GaugeMetricFamily(prefix + name, doc, labels=labels)
            readings = reading if isinstance(reading, Mapping) else {"": reading}
            if name == "classic_group_count":
                # A state without groups is exported as 0, not as a gap in the graph.
                readings = dict.fromkeys(CLASSIC_STATES, 0.0) | dict(readings)
            for value, number in readings.items():
                family.add_metric((value,) if label else (), number)
            yield family
            if name == "classic_group_count":
                yield from _yammer_group_counts(readings)
            elif name == "offset_count":
                yield GaugeMetricFamily(
                    "kafka_coordinator_group_groupmetadatamanager_numoffsets", doc, value=readings[""]
                )
        failures = CounterMetricFamily(OURS + "watch_failures", "Readings that failed.", labels=("watch",))
        for name, count in _items(self._failed_watches):
            failures.add_metric((name,), count)
        yield failures

    def _read(self, name: str, read: Callable[[], Reading]) -> Reading | None:
        """Return one reading. The event loop runs meanwhile, so a dictionary may change size during iteration; then the
        reading is retried.
        """
        for _attempt in range(3):
            try:
                reading = read()
                return dict(reading) if isinstance(reading, Mapping) else reading
            except RuntimeError:
                continue
            except Exception:
                break
        # One failed reading must not cost the operator all other metrics.
        self._failed_watches[name] = self._failed_watches.get(name, 0) + 1
        return None

    # ---- metrics that Kafka also has
    def _kafka_meters(self) -> Iterator[Metric]:
        now = _Snapshot(
            self._clock(),
            {name: count(self._metrics) for name, count in KAFKA_METERS.items()},
            {name: histogram(self._metrics).counts[:] for name, histogram in KAFKA_HISTOGRAMS.items()},
        )
        since = self._reference(now)
        # Shortly after the start a few events would give a huge rate: like Kafka, divide by a whole window.
        elapsed = max(now.at - since.at, WINDOW_SECONDS)
        for name, count in now.counts.items():
            yield UnknownMetricFamily(f"{KAFKA}{name}_count", "Since the start.", value=count)
            rate = (count - since.counts[name]) / elapsed
            yield GaugeMetricFamily(f"{KAFKA}{name}_rate", "Per second, lately.", value=rate)
        for name, buckets in now.buckets.items():
            lately = [new - old for new, old in zip(buckets, since.buckets[name], strict=True)]
            highest = KAFKA_HISTOGRAMS[name](self._metrics).maximum_seconds
            yield GaugeMetricFamily(f"{KAFKA}{name}_max", "Lately.", value=1e3 * quantile(lately, 1.0, highest))
            for suffix, share in QUANTILES:
                value = 1e3 * quantile(lately, share, highest)
                yield GaugeMetricFamily(f"{KAFKA}{name}_{suffix}", "Lately.", value=value)
        loads = self._metrics.load_seconds
        number = sum(loads.counts)
        average = loads.total_seconds / number if number else 0.0
        yield GaugeMetricFamily(KAFKA + "partition_load_time_max", "Milliseconds.", value=1e3 * loads.maximum_seconds)
        yield GaugeMetricFamily(KAFKA + "partition_load_time_avg", "Milliseconds.", value=1e3 * average)

    def _reference(self, now: _Snapshot) -> _Snapshot:
        """Return the newest snapshot that is at least a window old, else the oldest; store `now` for later scrapes."""
        kept = self._snapshots
        with self._lock:
            while len(kept) > 1 and now.at - kept[1].at >= WINDOW_SECONDS:
                kept.popleft()
            since = kept[0]
            # A client that scrapes in a loop must not fill the memory.
            if now.at - kept[-1].at >= 1.0:
                kept.append(now)
        return since

    # ---- what is ours ------------------------------------------------------------------------------------------------
    def _requests(self) -> Iterator[Metric]:
        metrics = self._metrics
        requests = CounterMetricFamily(OURS + "requests", "Requests answered.", labels=("api",))
        for api_key, count in enumerate(metrics.requests):
            if count:
                requests.add_metric((self._api_name(api_key),), count)
        yield requests
        errors = CounterMetricFamily(OURS + "request_errors", "Responses with an error code.", labels=("api", "error"))
        for (api_key, code), count in _items(metrics.errors):
            errors.add_metric((self._api_name(api_key), self._error_name(code)), count)
        yield errors
        seconds = HistogramMetricFamily(
            OURS + "request_duration_seconds", "From a request's last byte to its response, waits too.", labels=("api",)
        )
        for api_key, histogram in _items(metrics.request_seconds):
            _add_histogram(seconds, (self._api_name(api_key),), histogram)
        yield seconds

    def _happenings(self) -> Iterator[Metric]:
        metrics = self._metrics
        transitions = CounterMetricFamily(OURS + "group_transitions", "State changes of groups.", labels=("from", "to"))
        for (old, new), count in _items(metrics.transitions):
            transitions.add_metric((old, new), count)
        yield transitions
        rebalances = CounterMetricFamily(
            OURS + "rebalances",
            "Rebalances of classic groups and epochs of consumer groups that began, by what triggered them.",
            labels=("protocol", "trigger"),
        )
        for (protocol, trigger), count in _items(metrics.rebalances):
            rebalances.add_metric((protocol, trigger), count)
        yield rebalances
        for name, doc, counts in (
            ("connections_closed", "Client connections closed, by our reason.", metrics.connections_closed),
            ("rejected_input", "Input that was no request, by kind.", metrics.rejected),
            ("members_removed", "Members that left a group, by our reason.", metrics.members_removed),
        ):
            family = CounterMetricFamily(OURS + name, doc, labels=("reason",))
            for reason, count in _items(counts):
                family.add_metric((reason,), count)
            yield family


def registry(*collectors: Collector) -> CollectorRegistry:
    """Return a separate registry: our metrics and prometheus-client's metrics of the process and the interpreter."""
    made = CollectorRegistry(auto_describe=False)
    for collector in collectors:
        made.register(collector)
    ProcessCollector(registry=made)
    PlatformCollector(registry=made)
    GCCollector(registry=made)
    return made


def quantile(counts: list[int], share: float, highest: float) -> float:
    """Return the upper bound in seconds of the bucket below which `share` of the counted events lie; 0 without
    events.
    """
    total = sum(counts)
    if total <= 0:
        return 0.0
    wanted = share * total
    for bound, seen in zip(BOUNDS_SECONDS, accumulate(counts), strict=False):
        if seen >= wanted:
            return min(bound, highest)
    return highest


def _add_histogram(family: HistogramMetricFamily, labels: tuple[str, ...], histogram: Histogram) -> None:
    seen = list(accumulate(histogram.counts[:]))
    buckets = [(str(bound), float(seen[index])) for index, bound in EXPORTED_BOUNDS]
    family.add_metric(labels, [*buckets, ("+Inf", float(seen[-1]))], sum_value=histogram.total_seconds)


def _yammer_group_counts(by_state: Mapping[str, float]) -> Iterator[Metric]:
    """Yield the metrics under their older names, which most existing dashboards still use."""
    prefix = "kafka_coordinator_group_groupmetadatamanager_numgroups"
    yield GaugeMetricFamily(prefix, "Groups of the classic protocol.", value=sum(by_state.values()))
    for state, count in by_state.items():
        yield GaugeMetricFamily(f"{prefix}{state.lower()}", f"Classic groups that are {state}.", value=count)


def _items(table: Mapping[_Key, _Value]) -> list[tuple[_Key, _Value]]:
    """Return the entries of a dictionary to which the event loop may be adding."""
    while True:
        try:
            return list(table.items())
        except RuntimeError:
            continue
