"""Rates and token buckets as Kafka measures them (org.apache.kafka.common.metrics.stats), pure: time is an argument.

A `Rate` keeps samples of one window each. Its value is the sum of all samples divided by the time since the oldest one
began, or by the length of all windows but one if that is longer: a burst at the beginning counts as if it were spread
over the whole time. A sample is reset if nothing was added to it for the length of all windows together.

A bound is any double that Kafka accepts as a quota: also 5e-324, which makes times infinite; infinity; NaN, which
throttles no client; and 0, to which Kafka cuts a rate of connections below 1.
"""

from __future__ import annotations

from math import inf, isnan
from typing import Final

MOST_MS: Final = 2**31 - 1
"""Longest throttle time in ms: responses carry an int32. Kafka's times overflow, and may then throttle no client."""


class _Sample:
    __slots__ = ("began_ms", "last_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.began_ms = self.last_ms = now_ms
        self.value = 0.0


class Rate:
    """Units per second: Kafka's Rate over a WindowedSum. `samples` and `window_ms` are quota.window.num and .size."""

    __slots__ = ("_at", "_samples", "samples", "window_ms")

    def __init__(self, samples: int, window_ms: int) -> None:
        self.samples = samples
        self.window_ms = window_ms
        self._samples: list[_Sample] = []
        self._at = 0

    def record(self, value: float, now_ms: int) -> None:
        """Add to the current sample, or begin the next one."""
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        sample = self._samples[self._at]
        if now_ms - sample.began_ms >= self.window_ms:
            # One sample more than windows is kept: the measured time overlaps the oldest sample in part.
            self._at = (self._at + 1) % (self.samples + 1)
            if self._at >= len(self._samples):
                sample = _Sample(now_ms)
                self._samples.append(sample)
            else:
                sample = self._samples[self._at]
                sample.reset(now_ms)
        sample.value += value
        sample.last_ms = now_ms

    def measure(self, now_ms: int) -> float:
        """Return the current rate."""
        size_ms = self.window_size_ms(now_ms)
        return sum(sample.value for sample in self._samples) / (size_ms / 1000)

    def window_size_ms(self, now_ms: int) -> int:
        """Return the time in ms that the rate is measured over."""
        for sample in self._samples:
            if now_ms - sample.last_ms >= self.samples * self.window_ms:
                sample.reset(now_ms)
        oldest_ms = min((sample.began_ms for sample in self._samples), default=now_ms)
        elapsed_ms = now_ms - oldest_ms
        missing = self.samples - 1 - elapsed_ms // self.window_ms
        return max(elapsed_ms + max(0, missing) * self.window_ms, 1)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """Return the time in ms until the rate is `bound` if nothing is added; 0 if the rate is not above
        (QuotaUtils).
        """
        rate = self.measure(now_ms)
        if rate <= bound:
            return 0
        return _rounded((rate - bound) / bound * self.window_size_ms(now_ms) if bound else inf)


class TokenBucket:
    """A token bucket (KIP-599). Tokens are added at the quota's rate, up to the number for all windows together. The
    number of tokens may be negative.
    """

    __slots__ = ("_last_ms", "_tokens", "seconds")

    def __init__(self, samples: int, window_ms: int) -> None:
        self.seconds = samples * window_ms / 1000
        self._tokens = 0.0
        self._last_ms = 0

    def tokens(self, bound: float, now_ms: int) -> float:
        """Return the number of tokens."""
        elapsed_s = (now_ms - self._last_ms) / 1000
        self._tokens = min(self.seconds * bound, self._tokens + bound * elapsed_s)
        self._last_ms = now_ms
        return self._tokens

    def take(self, count: float, bound: float, now_ms: int) -> None:
        """Take `count` tokens, also if there are fewer."""
        self._tokens = min(self.seconds * bound, self.tokens(bound, now_ms) - count)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """Return the time in ms until the number of tokens is not negative."""
        tokens = self.tokens(bound, now_ms)
        return _rounded(-tokens / bound * 1000) if tokens < 0 else 0


def _rounded(value: float) -> int:
    """Return Java's Math.round of `value`, at most `MOST_MS`; 0 for NaN."""
    return 0 if isnan(value) else int(min(value, MOST_MS) + 0.5)
