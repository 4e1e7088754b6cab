"""Rates and buckets: Kafka's own examples, and twenty series whose throttle times Kafka's classes computed."""

from __future__ import annotations

from typing import Any

import pytest

from coordinatord.server.access.rates import MOST_MS, Rate, TokenBucket
from tests.server.access.record_rates import recorded_series


def test_a_burst_counts_as_if_it_had_come_over_all_windows() -> None:
    """ClientQuotaManagerTest.testQuotaViolation: 400 bytes a second for 10.5 s are no violation of 500; 2600 more are
    one, of (6600 - 10500 * 0.5) / 500 s.
    """
    rate, now_ms = Rate(11, 1000), 0
    for _ in range(10):
        rate.record(400, now_ms)
        assert rate.throttle_ms(500, now_ms) == 0
        now_ms += 1000
    now_ms += 500
    rate.record(2300, now_ms)
    assert rate.throttle_ms(500, now_ms) == 2100


def test_an_idle_rate_begins_again() -> None:
    rate = Rate(11, 1000)
    rate.record(1_000_000, 0)
    assert rate.throttle_ms(1, 10_999) > 0
    assert rate.measure(11_000) == 0
    assert rate.throttle_ms(1, 11_000) == 0


@pytest.mark.parametrize(
    "series", recorded_series(), ids=lambda series: f"{series['samples']} of {series['window_ms']}"
)
def test_throttle_times_are_kafkas_to_the_millisecond(series: dict[str, Any]) -> None:
    bound = series["bound"]
    rate = Rate(series["samples"], series["window_ms"])
    bucket = TokenBucket(series["samples"], series["window_ms"])
    for now_ms, value, of_rate, of_bucket in series["steps"]:
        rate.record(value, now_ms)
        bucket.take(value, bound, now_ms)
        assert (rate.throttle_ms(bound, now_ms), bucket.throttle_ms(bound, now_ms)) == (of_rate, of_bucket)


@pytest.mark.parametrize("bound", [0, 5e-324, 1e-300, 1e-9, 1.0, 1e308, float("inf"), float("nan")])
def test_any_bound_gives_a_time_that_a_response_can_have(bound: float) -> None:
    """NaN throttles nobody, as in Kafka."""
    rate, bucket = Rate(11, 1000), TokenBucket(11, 1000)
    for now_ms in (0, 0, 1, 2**41, 2**41):
        rate.record(100, now_ms)
        bucket.take(100, bound or 1e-300, now_ms)
        times = rate.throttle_ms(bound, now_ms), bucket.throttle_ms(bound or 1e-300, now_ms)
        assert all(type(time) is int for time in times)
        if bound < 1e-6:
            assert times == (MOST_MS, MOST_MS)
        elif bound != 1.0:
            assert times == (0, 0)
    bucket.take(1, 1.0, 2**42)
    assert bucket.tokens(1.0, 2**42) == 10, "a later quota finds a bucket that it can use"


def test_a_bucket_owes_what_was_taken_beyond_it() -> None:
    """ControllerMutationQuotaManagerTest: a quota of 10 over 11 s of 1 s gives 110 tokens at most."""
    bucket = TokenBucket(11, 1000)
    assert bucket.tokens(10, 1_000_000) == 110
    bucket.take(160, 10, 1_000_000)
    assert bucket.tokens(10, 1_000_000) == -50
    assert bucket.throttle_ms(10, 1_000_000) == 5000
    assert bucket.throttle_ms(10, 1_004_999) == 1
    assert bucket.throttle_ms(10, 1_005_000) == 0
    assert bucket.tokens(10, 1_100_000) == 110
