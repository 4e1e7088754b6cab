"""Records throttle times that Kafka's own Rate, TokenBucket and QuotaUtils compute for random series of values:
`python -m tests.server.access.record_rates`. Needs Java 17 and Maven.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.reference.broker import kafka_libs

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-rates.json"

PROGRAM = """\
import org.apache.kafka.common.metrics.*;
import org.apache.kafka.common.metrics.stats.*;
import org.apache.kafka.server.quota.QuotaUtils;
import java.util.*;
import java.util.concurrent.TimeUnit;

public class Rates {
    public static void main(String[] arguments) {
        List<String> series = new ArrayList<>();
        int[][] configs = {{11, 1, 500}, {11, 1, 1000}, {3, 2, 100}, {1, 1, 50}, {6, 5, 20}};
        for (int c = 0; c < configs.length; c++) {
            for (int seed = 0; seed < 4; seed++) {
                int bound = configs[c][2];
                Random random = new Random(seed * 31 + c);
                Metrics metrics = new Metrics();
                MetricConfig config = new MetricConfig().samples(configs[c][0])
                    .timeWindow(configs[c][1], TimeUnit.SECONDS).quota(new Quota(bound, true));
                Sensor rate = metrics.sensor("rate");
                rate.add(metrics.metricName("byte-rate", "group"), new Rate(), config);
                Sensor bucket = metrics.sensor("bucket");
                bucket.add(metrics.metricName("tokens", "group"), new TokenBucket(), config);
                long now = 1000000;
                List<String> steps = new ArrayList<>();
                for (int i = 0; i < 60; i++) {
                    now += random.nextInt(4) == 0 ? random.nextInt(30000) : random.nextInt(1500);
                    int value = random.nextInt(5) == 0 ? random.nextInt(bound * 40) : random.nextInt(bound * 2);
                    long ofRate = 0, ofBucket = 0;
                    try {
                        rate.record(value, now, true);
                    } catch (QuotaViolationException e) {
                        ofRate = QuotaUtils.throttleTime(e, now);
                    }
                    try {
                        bucket.record(value, now, true);
                    } catch (QuotaViolationException e) {
                        ofBucket = Math.round(-e.value() / e.bound() * 1000);
                    }
                    steps.add(String.format("[%d,%d,%d,%d]", now, value, ofRate, ofBucket));
                }
                series.add(String.format("{'samples':%d,'window_ms':%d,'bound':%d,'steps':[%s]}",
                    configs[c][0], configs[c][1] * 1000, bound, String.join(",", steps)).replace((char) 39, (char) 34));
            }
        }
        System.out.println("[\\n" + String.join(",\\n", series) + "\\n]");
    }
}
"""


def recorded_series() -> list[dict[str, Any]]:
    """Series of steps: (time in ms, value, throttle time of a rate in ms, throttle time of a token bucket in ms)."""
    series: list[dict[str, Any]] = json.loads(GOLDEN.read_text())
    return series


def main() -> None:
    """Write the golden file."""
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "Rates.java"
        source.write_text(PROGRAM)
        command = ["java", "-cp", f"{kafka_libs()}/*", str(source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    GOLDEN.write_text(done.stdout)


if __name__ == "__main__":
    main()
