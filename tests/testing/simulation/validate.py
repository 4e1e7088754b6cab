"""Predicted and seen: the stories on virtual time, and with real consumers against brokers in real time.

python -m tests.testing.simulation.validate [ours] [kafka]     writes the table into
coordinatord/testing/simulation/README.md python -m tests.testing.simulation.validate sweep              the same of a
crash with three session timeouts, in a minute

Five minutes for both brokers: each is asked with kafka-python and with the Java client, one after the other.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click

from coordinatord.testing.simulation.scenario import written
from tests.daemon import running
from tests.reference.broker import kafka_libs, running_broker
from tests.testing.simulation.accounts import Seen, simulated
from tests.testing.simulation.reality import Command, java, kafka_python, live
from tests.testing.simulation.stories import STORIES, SWEEP, happenings, story

README = Path(__file__).parents[3] / "coordinatord" / "testing" / "simulation" / "README.md"
BEGIN, END = "<!-- python -m tests.testing.simulation.validate -->", "<!-- end of the table -->"
BEGIN_SWEEP, END_SWEEP = "<!-- python -m tests.testing.simulation.validate sweep -->", "<!-- end of the sweep -->"

TOLERANCE = 0.2
FLOOR_MS = 250
"""What is shorter than that is the work of clients, not waiting: milliseconds in Java, tens of them in Python."""
SUM_FLOOR_MS = 600
"""The same of sums over six partitions: a tenth of a second for each."""

BROKERS = {"ours": "coordinatord", "kafka": "Apache Kafka 4.3"}
CLIENTS: dict[str, Command] = {"kafka-python": kafka_python, "Java": java}


@contextmanager
def broker(which: str, directory: Path) -> Iterator[str]:
    """Our daemon, or Kafka; where it listens."""
    if which == "ours":
        with running(directory) as daemon:
            yield daemon.bootstrap
    else:
        with running_broker(kafka_libs(), directory, {"group.initial.rebalance.delay.ms": "3000"}) as kafka:
            yield kafka.bootstrap


def is_close(seen_ms: int | None, predicted_ms: int | None, floor_ms: int = FLOOR_MS) -> bool:
    """Within a fifth, or too short to tell; None is something that did not happen."""
    if seen_ms is None or predicted_ms is None:
        return seen_ms is predicted_ms
    if 0 < predicted_ms < floor_ms:
        return True
    return abs(seen_ms - predicted_ms) <= max(floor_ms, TOLERANCE * predicted_ms)


def differences(predicted: Seen, seen: Seen) -> list[str]:
    """In what reality is not as it was predicted; a sentence each."""
    found = []
    if seen.rebalances != predicted.rebalances:
        found.append(f"rebalances: {predicted.rebalances} predicted, {seen.rebalances} seen")
    for name, floor_ms in (
        ("unowned_ms", SUM_FLOOR_MS),
        ("longest_gap_ms", FLOOR_MS),
        ("owned_twice_ms", SUM_FLOOR_MS),
    ):
        expected, value = getattr(predicted, name), getattr(seen, name)
        if not is_close(value, expected, floor_ms):
            found.append(f"{name}: {expected} predicted, {value} seen")
    for number, (expected, value) in enumerate(zip(predicted.settled_ms, seen.settled_ms, strict=True)):
        if not is_close(value, expected):
            found.append(f"settled after happening {number}: {expected} ms predicted, {value} seen")
    return found


def told_s(ms: int | None) -> str:
    return "–" if ms is None else f"{ms / 1000:.1f}"


def compared(seen_ms: int, predicted_ms: int) -> str:
    """41.2 (+8%)"""
    if seen_ms == predicted_ms == 0:
        return "0"
    percent = f" ({seen_ms / predicted_ms - 1:+.0%})" if predicted_ms >= SUM_FLOOR_MS else ""
    return told_s(seen_ms) + percent


def rows(name: str, predicted: Seen, seen: list[Seen]) -> list[str]:
    """One story, as rows of a table."""
    scenario = story(name)
    what = "; ".join(f"{kind} at {told_s(at_ms)}" for at_ms, kind, _number in happenings(scenario))
    [assignor] = scenario.assignor
    about = f"{assignor}{', static' if scenario.static else ''}, session {written('session', scenario.session)}"
    all_ = [predicted, *seen]
    lines = [f"| **{name}** ({about}): {what} |" + " |" * len(all_)]
    lines.append(f"| rebalances | {' | '.join(str(each.rebalances) for each in all_)} |")
    settled = [", ".join(map(told_s, each.settled_ms)) for each in all_]
    lines.append(f"| settled after each, s | {' | '.join(settled)} |")
    for field, title in (
        ("unowned_ms", "without an owner, partition-s"),
        ("longest_gap_ms", "longest gap, s"),
        ("owned_twice_ms", "owned twice, partition-s"),
    ):
        expected = getattr(predicted, field)
        if expected:
            cells = [compared(getattr(each, field), expected) for each in seen]
            lines.append(f"| {title} | {told_s(expected)} | {' | '.join(cells)} |")
    return lines


def table(predicted: Mapping[str, Seen], columns: Mapping[str, Mapping[str, Seen]]) -> str:
    """Markdown."""
    lines = [f"| | predicted | {' | '.join(columns)} |", "|---|---|" + "---|" * len(columns)]
    for name, expected in predicted.items():
        lines += rows(name, expected, [column[name] for column in columns.values()])
    return "\n".join(lines)


def sweep() -> str:
    """Markdown: seconds without an owner by session.timeout.ms, predicted and seen with kafka-python here."""
    with tempfile.TemporaryDirectory() as directory, broker("ours", Path(directory)) as bootstrap:
        seen = live([(name, scenario, kafka_python) for name, scenario in SWEEP.items()], bootstrap)
    lines = ["| session | predicted, partition-s | seen | longest gap predicted, s | seen |", "|---|---|---|---|---|"]
    for name, scenario in SWEEP.items():
        expected, it = simulated(scenario), seen[name]
        sums = f"{told_s(expected.unowned_ms)} | {compared(it.unowned_ms, expected.unowned_ms)}"
        gaps = f"{told_s(expected.longest_gap_ms)} | {compared(it.longest_gap_ms, expected.longest_gap_ms)}"
        lines.append(f"| {name} | {sums} | {gaps} |")
    return "\n".join(lines)


def write(told: str, begin: str, end: str) -> None:
    """Between its marks in the README."""
    before, rest = README.read_text("utf-8").split(begin)
    _old, after = rest.split(end)
    README.write_text(f"{before}{begin}\n{told}\n{end}{after}", "utf-8")
    click.echo(told)


def main() -> None:
    if sys.argv[1:] == ["sweep"]:
        write(sweep(), BEGIN_SWEEP, END_SWEEP)
        return
    wanted = sys.argv[1:] or list(BROKERS)
    stories = {name: story(name) for name in STORIES}
    columns = {}
    for which in wanted:
        for client, command in CLIENTS.items():
            with tempfile.TemporaryDirectory() as directory, broker(which, Path(directory)) as bootstrap:
                columns[f"{client}, {BROKERS[which]}"] = live([(*each, command) for each in stories.items()], bootstrap)
    predicted = {name: simulated(scenario) for name, scenario in stories.items()}
    write(table(predicted, columns), BEGIN, END)
    for column, seen in columns.items():
        for name, each in seen.items():
            for difference in differences(predicted[name], each):
                click.echo(f"{column}, {name}: {difference}", err=True)


if __name__ == "__main__":
    main()
