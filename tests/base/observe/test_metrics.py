"""Counters, and what a scrape makes of them."""

from __future__ import annotations

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from coordinatord.base.observe.exposition import (
    EXPORTED_BOUNDS,
    KAFKA,
    WINDOW_SECONDS,
    ShellCollector,
    quantile,
    registry,
)
from coordinatord.base.observe.health import Health
from coordinatord.base.observe.metrics import BOUNDS_SECONDS, WATCHES, Histogram, Metrics

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Scraped:
    """A collector on a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.metrics = Metrics()
        self.health = Health()
        self.collector = ShellCollector(
            self.metrics,
            self.health,
            version="1.2.3",
            api_name={11: "JoinGroup", 12: "Heartbeat"}.__getitem__,
            error_name={25: "UNKNOWN_MEMBER_ID"}.__getitem__,
            clock=lambda: self.now,
        )

    def scrape(self) -> Samples:
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in self.collector.collect()
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float:
        return self.scrape()[name, tuple(sorted(labels.items()))]


@pytest.fixture
def scraped() -> Scraped:
    return Scraped()


# ---- histograms ------------------------------------------------------------------------------------------------------
def test_bounds_rise_from_a_microsecond_to_beyond_the_longest_rebalance() -> None:
    assert list(BOUNDS_SECONDS) == sorted(set(BOUNDS_SECONDS))
    assert BOUNDS_SECONDS[0] == 1e-6
    assert BOUNDS_SECONDS[-1] > 300
    assert [bound for _index, bound in EXPORTED_BOUNDS][:4] == [1e-05, 2e-05, 5e-05, 0.0001]
    assert all(BOUNDS_SECONDS[index] == bound for index, bound in EXPORTED_BOUNDS)


def test_an_event_is_counted_at_the_first_bound_that_is_not_below_it() -> None:
    histogram = Histogram()
    histogram.observe(0.001)
    histogram.observe(0.0011, times=3)
    histogram.observe(1e9)
    counted = {index: count for index, count in enumerate(histogram.counts) if count}
    assert counted == {
        BOUNDS_SECONDS.index(0.001): 1,
        BOUNDS_SECONDS.index(0.0015): 3,
        len(BOUNDS_SECONDS): 1,
    }
    assert histogram.total_seconds == pytest.approx(1e9 + 0.0043)
    assert histogram.maximum_seconds == 1e9


def test_a_quantile_is_never_below_the_truth_and_at_most_half_as_high_again() -> None:
    times = [0.000_3 * 1.07**step for step in range(100)]
    histogram = Histogram()
    for seconds in times:
        histogram.observe(seconds)
    for share in (0.5, 0.95, 0.99, 1.0):
        truth = times[round(share * len(times)) - 1]
        read = quantile(histogram.counts, share, histogram.maximum_seconds)
        assert truth <= read <= truth * 1.5 + 1e-12
    assert quantile([0] * len(histogram.counts), 0.99, 0.0) == 0.0


# ---- what is exported ------------------------------------------------------------------------------------------------
def test_requests_errors_and_times_are_exported_by_api(scraped: Scraped) -> None:
    metrics = scraped.metrics
    metrics.requests[12] += 40
    metrics.error(11, 25)
    metrics.error(11, 25)
    metrics.request_seconds[12].observe(0.0004, times=40)
    samples = scraped.scrape()
    assert samples["coordinatord_requests_total", (("api", "Heartbeat"),)] == 40
    assert ("coordinatord_requests_total", (("api", "JoinGroup"),)) not in samples
    assert samples["coordinatord_request_errors_total", (("api", "JoinGroup"), ("error", "UNKNOWN_MEMBER_ID"))] == 2
    bucket = "coordinatord_request_duration_seconds_bucket"
    assert samples[bucket, (("api", "Heartbeat"), ("le", "0.0002"))] == 0
    assert samples[bucket, (("api", "Heartbeat"), ("le", "0.0005"))] == 40
    assert samples[bucket, (("api", "Heartbeat"), ("le", "+Inf"))] == 40
    assert samples["coordinatord_request_duration_seconds_sum", (("api", "Heartbeat"),)] == pytest.approx(0.016)


def test_what_kafka_measures_too_has_the_names_of_its_dashboards(scraped: Scraped) -> None:
    metrics = scraped.metrics
    metrics.watch("classic_group_count", lambda: {"Stable": 3, "Empty": 1})
    metrics.watch("group_count", lambda: {"classic": 4})
    metrics.watch("offset_count", lambda: 17)
    metrics.watch("num_partitions", lambda: {"active": 49, "loading": 1, "failed": 0})
    metrics.watch("event_queue_size", lambda: 2)
    metrics.watch("connections", lambda: 5)
    metrics.load_seconds.observe(0.2)
    metrics.load_seconds.observe(0.4)
    samples = scraped.scrape()

    def kafka(name: str, **labels: str) -> float:
        return samples["kafka_server_group_coordinator_metrics_" + name, tuple(sorted(labels.items()))]

    assert kafka("classic_group_count", state="Stable") == 3
    assert kafka("group_count", protocol="classic") == 4
    assert kafka("offset_count") == 17
    assert kafka("num_partitions", state="loading") == 1
    assert kafka("event_queue_size") == 2
    assert kafka("partition_load_time_max") == pytest.approx(400)
    assert kafka("partition_load_time_avg") == pytest.approx(300)
    assert samples["coordinatord_connections", ()] == 5
    assert samples["kafka_coordinator_group_groupmetadatamanager_numgroups", ()] == 4
    assert samples["kafka_coordinator_group_groupmetadatamanager_numgroupsstable", ()] == 3
    assert samples["kafka_coordinator_group_groupmetadatamanager_numoffsets", ()] == 17
    for name in (
        "offset_commit",
        "offset_expiration",
        "offset_deletion",
        "group_completed_rebalance",
        "consumer_group_rebalance",
    ):
        assert kafka(f"{name}_count") == kafka(f"{name}_rate") == 0
    for name in ("event_processing", "event_purgatory", "batch_flush"):
        for suffix in ("max", "p50", "p95", "p99", "p999"):
            assert kafka(f"{name}_time_ms_{suffix}") == 0


def test_a_rate_covers_the_window_whatever_the_rhythm_of_scrapes(scraped: Scraped) -> None:
    metrics = scraped.metrics
    rate = KAFKA + "offset_commit_rate"
    metrics.offset_commits = 60
    scraped.now += 1
    # So shortly after the start Kafka too divides by a whole window.
    assert scraped.value(rate) == pytest.approx(60 / WINDOW_SECONDS)
    for _ in range(20):
        scraped.now += 15
        metrics.offset_commits += 150
        last = scraped.value(rate)
    assert last == pytest.approx(10)
    scraped.now += 600
    assert scraped.value(rate) == 0
    # Two who scrape, one of them all the time, read the same.
    for _ in range(1000):
        scraped.now += 0.1
        metrics.offset_commits += 1
        last = scraped.value(rate)
    assert last == pytest.approx(10, rel=0.05)
    assert len(scraped.collector._snapshots) < 50


def test_quantiles_forget_what_is_older_than_the_window(scraped: Scraped) -> None:
    flush = scraped.metrics.log_flush_seconds
    flush.observe(2.0)
    scraped.now += 10
    assert scraped.value(KAFKA + "batch_flush_time_ms_max") == pytest.approx(2000)
    for _ in range(4):
        scraped.now += 15
        flush.observe(0.0009, times=100)
        samples = scraped.scrape()
    assert samples[KAFKA + "batch_flush_time_ms_max", ()] == pytest.approx(1.0)
    assert samples[KAFKA + "batch_flush_time_ms_p99", ()] == pytest.approx(1.0)
    assert samples["coordinatord_log_flush_seconds_count", ()] == 401


def test_one_broken_reading_costs_nobody_the_others(scraped: Scraped) -> None:
    def breaks() -> float:
        raise KeyError("x")

    scraped.metrics.watch("timers", breaks)
    scraped.metrics.watch("topics", lambda: 3)
    assert scraped.value("coordinatord_topics") == 3
    samples = scraped.scrape()
    assert ("coordinatord_timers", ()) not in samples
    assert samples["coordinatord_watch_failures_total", (("watch", "timers"),)] == 2


def test_a_dictionary_that_changed_under_the_reader_is_read_again(scraped: Scraped) -> None:
    attempts = iter([RuntimeError("dictionary changed size during iteration"), {"Stable": 1.0}])

    def read() -> dict[str, float]:
        outcome = next(attempts)
        if isinstance(outcome, RuntimeError):
            raise outcome
        return outcome

    scraped.metrics.watch("classic_group_count", read)
    assert scraped.value(KAFKA + "classic_group_count", state="Stable") == 1


def test_what_is_watched_must_be_known() -> None:
    with pytest.raises(AssertionError):
        Metrics().watch("group_names", lambda: 1)
    assert all(doc.endswith(".") for _label, doc in WATCHES.values())


def test_health_is_exported(scraped: Scraped) -> None:
    scraped.health.loading("0 of 50 partitions")
    assert scraped.value("coordinatord_state", coordinatord_state="loading") == 1
    assert scraped.value("coordinatord_ready") == 0
    scraped.health.ready()
    assert scraped.value("coordinatord_state", coordinatord_state="loading") == 0
    assert scraped.value("coordinatord_ready") == 1


def test_reasons_and_transitions_are_counted_by_our_words(scraped: Scraped) -> None:
    scraped.metrics.connections_closed["idle"] += 1
    scraped.metrics.rejected["oversized"] += 2
    scraped.metrics.members_removed["session_timeout"] += 3
    for _ in range(2):
        scraped.metrics.rebalance("consumer", "topics changed")
    scraped.metrics.transition("Stable", "PreparingRebalance")
    samples = scraped.scrape()
    assert samples["coordinatord_connections_closed_total", (("reason", "idle"),)] == 1
    assert samples["coordinatord_rejected_input_total", (("reason", "oversized"),)] == 2
    assert samples["coordinatord_members_removed_total", (("reason", "session_timeout"),)] == 3
    assert samples["coordinatord_group_transitions_total", (("from", "Stable"), ("to", "PreparingRebalance"))] == 1
    assert samples["coordinatord_rebalances_total", (("protocol", "consumer"), ("trigger", "topics changed"))] == 2


def test_both_formats_are_well_formed_and_no_name_comes_twice(scraped: Scraped) -> None:
    for name, (label, _doc) in WATCHES.items():
        scraped.metrics.watch(name, (lambda: {"Stable": 1.0, 'b"\n': 2.0}) if label else (lambda: 1.0))
    scraped.metrics.requests[12] = 1
    scraped.metrics.request_seconds[12].observe(0.1)
    scraped.metrics.error(11, 25)
    served = registry(scraped.collector)
    openmetrics = list(parse_openmetrics(generate_openmetrics(served).decode()))
    text = list(parse_text(generate_latest(served).decode()))
    names = [family.name for family in openmetrics]
    assert len(names) == len(set(names))
    assert {"process_resident_memory_bytes", "python_info", "coordinatord_build"} <= set(names)
    assert {sample.name for family in text for sample in family.samples} >= {"coordinatord_requests_total"}
