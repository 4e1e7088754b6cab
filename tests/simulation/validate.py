"""Predicted and seen: one scenario on virtual time, and with kafka-python consumers against a broker in real time.

python -m tests.simulation.validate [ours] [kafka]     writes the table into coordinatord/simulation/README.md
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import click

from coordinatord.simulation.scenario import Scenario, build, changed
from coordinatord.simulation.sweep import simulate
from tests.daemon import running
from tests.reference.broker import kafka_libs, running_broker
from tests.simulation.reality import Seen, live

README = Path(__file__).parents[2] / "coordinatord" / "simulation" / "README.md"
BEGIN, END = "<!-- python -m tests.simulation.validate -->", "<!-- end of the table -->"

SEEDS = 20
"""When heartbeats fall is left to chance, and it is chance in reality, too: predicted is the mean."""

TOLERANCE = 0.2

STORY: dict[str, object] = {
    "members": 4,
    "partitions": 8,
    "assignor": "range",
    "session": "20s",
    "heartbeat": "500ms",  # short, so that little is left to chance
    "processing": 0,
    "latency": "1ms",
    "restart": "26s",
    "duration": "47s",
    "events": ["4200ms:stop:1", "8100ms:start:1", "12300ms:crash:2", "43400ms:stop:3"],
}
"""One leaves and comes back, one dies and comes back after it has expired, one leaves for good."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """Of some seeds: (least, mean, most)."""

    rebalances: tuple[int, float, int]
    unowned_ms: tuple[int, float, int]
    longest_gap_ms: tuple[int, float, int]


def scenario() -> Scenario:
    return build(STORY)


def predict() -> Predicted:
    reports = [simulate(changed(scenario(), {"seed": seed})) for seed in range(SEEDS)]

    def of(name: str) -> tuple[int, float, int]:
        values = [getattr(report, name) for report in reports]
        return min(values), mean(values), max(values)

    assert all(report.rebalances == report.generations for report in reports)
    return Predicted(*(of(name) for name in Predicted.__dataclass_fields__))


def see(which: str, directory: Path) -> Seen:
    """Against our daemon, or Kafka."""
    if which == "ours":
        with running(directory) as daemon:
            return live(scenario(), daemon.bootstrap, "validated")
    with running_broker(kafka_libs(), directory, {"group.initial.rebalance.delay.ms": "3000"}) as kafka:
        return live(scenario(), kafka.bootstrap, "validated")


def is_close(seen_ms: float, predicted: tuple[int, float, int]) -> bool:
    return abs(seen_ms - predicted[1]) <= TOLERANCE * predicted[1]


def table(predicted: Predicted, seen: dict[str, Seen]) -> str:
    """Markdown."""
    names = {"ours": "seen, coordinatord", "kafka": "seen, Apache Kafka 4.3"}
    lines = [
        f"| | predicted (mean of {SEEDS} seeds, least–most) | {' | '.join(names[each] for each in seen)} |",
        f"|---|---|{'---|' * len(seen)}",
    ]
    low, _usual, high = predicted.rebalances
    counts = " | ".join(str(each.rebalances) for each in seen.values())
    lines.append(f"| rebalances | {low if low == high else f'{low}–{high}'} | {counts} |")
    for name, title in (("unowned_ms", "partition-seconds without an owner"), ("longest_gap_ms", "longest gap, s")):
        low, usual, high = getattr(predicted, name)
        cells = []
        for each in seen.values():
            value = getattr(each, name)
            cells.append(f"{value / 1000:.1f} ({value / usual - 1:+.0%})")
        told = f"{usual / 1000:.1f} ({low / 1000:.1f}–{high / 1000:.1f})"
        lines.append(f"| {title} | {told} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    wanted = sys.argv[1:] or ["ours", "kafka"]
    seen = {}
    for which in wanted:
        with tempfile.TemporaryDirectory() as directory:
            seen[which] = see(which, Path(directory))
    told = table(predict(), seen)
    before, rest = README.read_text("utf-8").split(BEGIN)
    _old, after = rest.split(END)
    README.write_text(f"{before}{BEGIN}\n{told}\n{END}{after}", "utf-8")
    click.echo(told)


if __name__ == "__main__":
    main()
