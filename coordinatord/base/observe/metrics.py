"""The daemon's counters: plain integers and bucket counts.

The event loop increments them (tens of nanoseconds each; a call into prometheus-client takes a microsecond, more than a
whole heartbeat may cost). Only a scrape, on the admin thread, converts them to Prometheus' format (`exposition.py`).
Reading an integer that another thread increments is safe; dictionaries are copied before iteration.

No counter is keyed by a group, a member, a topic or a client: peers choose those names, so such a label would grow
without bound.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping

API_KEYS = 128
"""Number of slots for API keys; Kafka's highest key is below 100."""

BOUNDS_SECONDS: tuple[float, ...] = tuple(
    float(f"{step}e{exponent}") for exponent in range(-6, 3) for step in (1, 1.5, 2, 3, 5, 7)
)
"""Upper bounds of the buckets, 1 µs to 700 s, six per decade: a quantile computed from them is at most 50% above the
true one.
"""

Reading = float | Mapping[str, float]
"""One value, or one per label value."""


class Histogram:
    """Durations, counted by bucket."""

    __slots__ = ("counts", "maximum_seconds", "total_seconds")

    def __init__(self) -> None:
        self.counts: list[int] = [0] * (len(BOUNDS_SECONDS) + 1)
        self.total_seconds = 0.0
        self.maximum_seconds = 0.0
        """The maximum since the daemon started."""

    def observe(self, seconds: float, times: int = 1) -> None:
        """Count `times` events that took `seconds` each."""
        self.counts[bisect_left(BOUNDS_SECONDS, seconds)] += times
        self.total_seconds += seconds * times
        if seconds > self.maximum_seconds:
            self.maximum_seconds = seconds


class LongestTurn:
    """The longest duration, in this minute (since the last `roll`) and in the minute before. The measuring code first
    compares with `seconds`: `if took > longest.seconds: longest.seconds = took`.
    """

    __slots__ = ("_before", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self._before = 0.0

    def roll(self) -> None:
        """Begin a new minute."""
        self._before, self.seconds = self.seconds, 0.0

    def read(self) -> float:
        """Return the longest duration in seconds."""
        return max(self._before, self.seconds)


class _HistogramByApi(dict[int, Histogram]):
    """API key -> histogram, created at first use."""

    def __missing__(self, api_key: int) -> Histogram:
        histogram = self[api_key] = Histogram()
        return histogram


class _Counts(dict[str, int]):
    """A word from our own code -> count. `counts["idle"] += 1` works without an existing entry."""

    def __missing__(self, _word: str) -> int:
        return 0


WATCHES: dict[str, tuple[str, str]] = {
    # name: (label, or empty for a single value; description)
    "group_count": ("protocol", "Groups by rebalance protocol."),
    "classic_group_count": ("state", "Groups of the classic protocol by state."),
    "consumer_group_count": ("state", "Groups of the consumer protocol by state."),
    "member_count": ("protocol", "Members by rebalance protocol."),
    "offset_count": ("", "Committed offsets held."),
    "unread_records": (
        "kind",
        "Records of __consumer_offsets that were loaded, not understood, and are kept, by kind.",
    ),
    "num_partitions": ("state", "Partitions of __consumer_offsets by state: loading, active or failed."),
    "event_queue_size": ("", "Requests received and not yet looked at."),
    "held_replies": ("", "Replies that wait for the log to be flushed."),
    "parked_replies": ("", "Joins, syncs and fetches that wait for something to happen."),
    "timers": ("", "Timers armed."),
    "event_loop_longest_turn_seconds": (
        "",
        "The longest time that serving a connection, a slice of a request, or a timer held the event loop, in this "
        "minute and the one before.",
    ),
    "connections": ("", "Client connections open."),
    "topics": ("", "Topics, internal ones included."),
    "topic_partitions": ("", "Partitions of all topics."),
    "log_segments": ("", "Segments of all partitions."),
    "log_bytes": ("", "Bytes in all segments."),
    "log_unflushed_bytes": ("", "Bytes appended and not yet flushed."),
    # Metrics of Kafka's LogCleaner and LogCleanerManager, under jmx_exporter's names.
    "kafka_log_logcleaner_cleaner_recopy_percent": ("", "Share of what was read that the last cleaning has kept."),
    "kafka_log_logcleaner_max_buffer_utilization_percent": ("", "Used share of the last cleaning's map of keys."),
    "kafka_log_logcleaner_max_clean_time_secs": ("", "Duration of the last cleaning."),
    "kafka_log_logcleaner_max_compaction_delay_secs": ("", "By how much max.compaction.lag.ms is exceeded."),
    "kafka_log_logcleanermanager_max_dirty_percent": ("", "Cleanable share of the dirtiest compacted log."),
    "kafka_log_logcleanermanager_time_since_last_run_ms": ("", "Milliseconds since the last search for logs to clean."),
    "kafka_log_logcleanermanager_uncleanable_partitions_count": ("", "Logs that could not be cleaned."),
    "kafka_log_logcleanermanager_uncleanable_bytes": ("", "Their bytes."),
    "fetch_sessions": ("", "Incremental fetch sessions."),
    "producers": ("", "Idempotent producers whose sequence numbers are held."),
    "load_progress_ratio": ("", "Share of the coordinators' logs that has been loaded since the start, 0 to 1."),
    "load_duration_seconds": ("", "How long loading them has taken, so far or in all."),
    # Only with storage=postgresql://.
    "store_term": ("", "The term in which this node leads."),
    "store_lease_seconds": ("", "How long this node may answer if its lease is not renewed."),
    "store_nodes": ("", "Nodes that are registered in the database and whose leases last, this one included."),
    "store_appends": ("", "Transactions that have committed records."),
    "store_retries": ("", "Attempts that found the database away."),
    "store_resolved_commits": ("", "Commits whose fate was not known and had to be found out."),
    "load_records_per_second": ("", "How many of their records a second, so far or in all."),
}
"""State that is read at each scrape, through functions that the shell registers with `Metrics.watch`."""


class Metrics:
    """All counters. The shell increments the attributes; the only methods to call are `error`, `rebalance`,
    `transition`, `watch` and `Histogram.observe`.
    """

    __slots__ = (
        "bytes_received",
        "bytes_sent",
        "completed_rebalances",
        "connections_accepted",
        "connections_closed",
        "consumer_group_rebalances",
        "errors",
        "event_processing_seconds",
        "event_purgatory_seconds",
        "load_seconds",
        "loaded_bytes",
        "loaded_records",
        "log_appended_bytes",
        "log_appends",
        "log_cleaned_bytes",
        "log_cleaning_failures",
        "log_cleanings",
        "log_flush_seconds",
        "log_rewritten_bytes",
        "longest_turn",
        "loop_lag_seconds",
        "members_removed",
        "offset_commits",
        "offset_deletions",
        "offset_expirations",
        "rebalances",
        "rejected",
        "request_seconds",
        "requests",
        "transitions",
        "truncated_bytes",
        "watches",
    )

    def __init__(self) -> None:
        self.connections_accepted = 0
        self.connections_closed = _Counts()
        """Closed connections by reason: "peer", "idle", "limit", "malformed", "shutdown" …"""
        self.bytes_received = 0
        self.bytes_sent = 0
        self.requests: list[int] = [0] * API_KEYS
        """Requests with a response by API key: `metrics.requests[12] += 1`."""
        self.errors: dict[tuple[int, int], int] = {}
        """(API key, error code) -> responses that carried it; see `error`."""
        self.rejected = _Counts()
        """Invalid requests by kind: "oversized", "tls", "http", "TruncatedError" …; never keyed by the peer's input."""
        self.request_seconds = _HistogramByApi()
        """API key -> time from the last byte of a request until its response is handed to the socket, including parked
        time.
        """
        self.longest_turn = LongestTurn()
        self.loop_lag_seconds = Histogram()
        """Delay of the event loop's timers."""

        self.offset_commits = 0
        """Committed offsets, one for each partition of a commit."""
        self.offset_expirations = 0
        self.offset_deletions = 0
        self.completed_rebalances = 0
        """Number of times a classic group became Stable."""
        self.consumer_group_rebalances = 0
        """Number of times a consumer group's group epoch rose, except when members left, as in Kafka."""
        self.rebalances: dict[tuple[str, str], int] = {}
        """(protocol, trigger) -> count; see `rebalance`. Triggers are `Why`'s words."""
        self.transitions: dict[tuple[str, str], int] = {}
        """(old state, new state) of groups -> count; see `transition`."""
        self.members_removed = _Counts()
        """Removed members by reason: "session_timeout", "rebalance_timeout", "leave", "replaced" …"""

        self.event_processing_seconds = Histogram()
        """Duration of one step."""
        self.event_purgatory_seconds = Histogram()
        """Time that a response waits until the records before it are durable."""
        self.log_flush_seconds = Histogram()
        """Duration of writing and flushing all pending batches."""

        self.log_appends = 0
        """Appended batches."""
        self.log_appended_bytes = 0

        self.log_cleanings = 0
        self.log_cleaned_bytes = 0
        """Bytes read from compacted logs by the cleaner."""
        self.log_rewritten_bytes = 0
        """Bytes of `log_cleaned_bytes` that the cleaner kept."""
        self.log_cleaning_failures = 0

        self.load_seconds = Histogram()  # of one partition of __consumer_offsets
        self.loaded_records = 0
        self.loaded_bytes = 0
        self.truncated_bytes = 0
        """Bytes truncated from torn tails."""

        self.watches: dict[str, Callable[[], Reading]] = {}

    def error(self, api_key: int, error_code: int) -> None:
        """Count a response with this error code."""
        key = (api_key, error_code)
        self.errors[key] = self.errors.get(key, 0) + 1

    def rebalance(self, protocol: str, trigger: str) -> None:
        """Count a rebalance that began, or a group epoch that rose."""
        key = (protocol, trigger)
        self.rebalances[key] = self.rebalances.get(key, 0) + 1

    def transition(self, old: str, new: str) -> None:
        """Count a group's state transition."""
        key = (old, new)
        self.transitions[key] = self.transitions.get(key, 0) + 1

    def watch(self, name: str, read: Callable[[], Reading]) -> None:
        """Register a function that reads state at each scrape: `watch("offset_count", coordinator.offset_count)`.

        `name` is one of WATCHES; where the watch has a label, `read` returns {label value: number}. It is called on the
        admin thread while the event loop runs, so it must be quick and only read: counters that the shell keeps, or
        `len()`.
        """
        assert name in WATCHES, name
        self.watches[name] = read
