"""Measurements of a member, as plain counters: Kafka's sensors, without a registry and without windows of time.

| sensor              | what is recorded                                           | Kafka's metrics                   |
|---------------------|------------------------------------------------------------|-----------------------------------|
| fetch_latency       | milliseconds from a Fetch request to its response          | fetch-latency, fetch-total        |
| fetch_throttle_time | milliseconds that the broker throttled that response       | fetch-throttle-time               |
| join_latency        | milliseconds of a JoinGroup that succeeded                 | join-time, join-total             |
| heartbeat_latency   | milliseconds to a heartbeat's response, an error or not    | heartbeat-response-time, -total   |
| records_lag         | records between the position and the high watermark        | records-lag, records-lag-max      |

Latencies run until the member reads the response, as in Kafka: while no call or thread reads the network, responses
wait.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Sensor:
    """Counter of values. `last` and `max` are None before the first value."""

    count: int = 0
    total: int = 0
    last: int | None = None
    max: int | None = None

    def record(self, value: int) -> None:
        """Count one value."""
        self.count += 1
        self.total += value
        self.last = value
        if self.max is None or value > self.max:
            self.max = value

    @property
    def average(self) -> float | None:
        """Mean of all values; None before the first."""
        return self.total / self.count if self.count else None


@dataclass(slots=True)
class Metrics:
    """Sensors of one member; see the module's docstring. Milliseconds, and records."""

    fetch_latency: Sensor = field(default_factory=Sensor)
    fetch_throttle_time: Sensor = field(default_factory=Sensor)
    join_latency: Sensor = field(default_factory=Sensor)
    heartbeat_latency: Sensor = field(default_factory=Sensor)
    records_lag: Sensor = field(default_factory=Sensor)
