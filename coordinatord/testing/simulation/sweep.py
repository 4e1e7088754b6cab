"""Sweep: runs of the same scenario with different settings, a table, and one line of advice.

Random events are the same in each run: the same members crash and pause at the same times, so differences come from the
settings.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from coordinatord.testing.simulation.report import Report, partition_seconds, report
from coordinatord.testing.simulation.scenario import Scenario, changed, written
from coordinatord.testing.simulation.units import BadScenario, duration_text
from coordinatord.testing.simulation.world import Tell, World

MAX_RUNS = 200

FEW = 20
"""Number of random events below which another seed may well lead to other advice."""

RATES = ("crashes", "pauses", "slow")

ALIKE = 0.05
"""Relative difference below which costs count as equal: another seed changes them as much."""


@dataclass(frozen=True, slots=True)
class Run:
    """One cell: the swept options as written, and the resulting report."""

    settings: tuple[tuple[str, str], ...]
    report: Report

    @property
    def name(self) -> str:
        """Swept options as text: session 10s, heartbeat 3s."""
        return ", ".join(f"{option} {value}" for option, value in self.settings)


def simulate(scenario: Scenario, tell: Tell | None = None) -> Report:
    """Run one scenario and return its report."""
    world = World(scenario, tell)
    world.run()
    return report(world)


def scenarios(
    scenario: Scenario, sweeps: Sequence[tuple[str, list[Any]]]
) -> list[tuple[tuple[tuple[str, str], ...], Scenario]]:
    """Return all combinations, checked before the first run. Raises BadScenario."""
    names = [name for name, _values in sweeps]
    if len(set(names)) < len(names):
        raise BadScenario(f"{' and '.join(names)}: an option can be swept once")
    combinations = list(itertools.product(*(values for _name, values in sweeps)))
    if len(combinations) > MAX_RUNS:
        raise BadScenario(f"{len(combinations):,} runs are more than {MAX_RUNS}: sweep fewer values")
    made = []
    for values in combinations:
        settings = tuple((name, written(name, value)) for name, value in zip(names, values, strict=True))
        try:
            made.append((settings, changed(scenario, dict(zip(names, values, strict=True)))))
        except BadScenario as error:
            raise BadScenario(f"with {', '.join(map(' '.join, settings))}: {error}") from None
    return made


def cost(it: Report) -> tuple[float, ...]:
    """Return the key, in order of priority, that compares runs with equal time without an owner."""
    return (it.expelled_alive, it.duplicates, it.rebalances)


def best_of(runs: Sequence[Run]) -> tuple[Run, list[Run]]:
    """Return the best run, and all runs with an equal cost: within ALIKE of the least time without an owner."""
    least_ms = min(run.report.unowned_ms for run in runs)
    alike = [run for run in runs if run.report.unowned_ms <= least_ms * (1 + ALIKE)]
    return min(alike, key=lambda run: cost(run.report)), alike


def advice(runs: Sequence[Run]) -> str:
    """Return one line of advice from the figures, with a caveat if there were few events."""
    if not any(run.report.happened or run.report.unowned_ms or run.report.rebalances for run in runs) and not any(
        fault.hits for run in runs for fault in run.report.faults
    ):
        return "Nothing befalls the members here: add --deploy, --crashes, --pauses, --slow, --event or --fault."
    return _comparison(runs) + _migration(runs) + _caveat(runs)


def happened(it: Report) -> str:
    """Return the events of members as text: 3 crashes, 1 pause."""
    singular = {"crashes": "crash", "slow": "slow batch"}
    found = [(count, singular.get(kind, kind)) for kind, count in it.happened.items()]
    return ", ".join(plural(count, kind) for count, kind in found) or "nothing"


def plural(count: int, what: str) -> str:
    """Return a count with its noun: 1 crash, 2 crashes, 1,000 members."""
    ending = "" if count == 1 else "es" if what.endswith(("h", "s")) else "s"
    return f"{count:,} {what}{ending}"


def _caveat(runs: Sequence[Run]) -> str:
    fewest = min((run.report for run in runs), key=lambda it: sum(it.happened.values()))
    by_chance = any(fewest.scenario[name] != "0" for name in RATES)
    if not by_chance or sum(fewest.happened.values()) >= FEW:
        return ""
    return f" It rests on {happened(fewest)}: a longer --duration makes it firmer, another --seed tells how firm it is."


def _comparison(runs: Sequence[Run]) -> str:
    best, alike = best_of(runs)
    worst = max(runs, key=lambda run: run.report.unowned_ms)
    it, other = best.report, worst.report
    if len(runs) == 1:
        return f"There is nothing to compare {best.name} with."
    if len(alike) == len(runs):
        return _all_alike(best, runs)
    saved = 1 - it.unowned_ms / other.unowned_ms
    line = (
        f"Take {best.name}: {partition_seconds(it.unowned_ms)} without an owner, {_percent(saved)} less than the "
        f"{other.unowned_ms / 1000:,.1f} with {worst.name}"
    )
    if len(alike) > 1:
        same = " and ".join(run.name for run in alike if run is not best)
        line += f" ({same} {'does' if len(alike) == 2 else 'do'} as well)"
    against = _price(it, min((run.report for run in runs if run not in alike), key=lambda each: cost(each)))
    return f"{line}{against}."


def _migration(runs: Sequence[Run]) -> str:
    """Return the benefit of a migration to the consumer protocol, if only the protocol was swept."""
    by_protocol = {run.report.scenario["protocol"]: run.report for run in runs}
    if len(runs) != 2 or len(by_protocol) != 2 or runs[0].settings[0][0] != "protocol":
        return ""
    before, after = by_protocol["classic"], by_protocol["consumer"]
    return (
        f" Migrating from classic to consumer: {partition_seconds(after.unowned_ms)} without an owner instead of "
        f"{before.unowned_ms / 1000:,.1f}, {plural(after.moved, 'partition')} moved instead of {before.moved:,}, "
        f"{plural(after.duplicates, 'duplicate')} risked instead of {before.duplicates:,}."
    )


def _percent(share: float) -> str:
    return f"{share:.0%}" if share < 0.995 or share == 1 else f"{share:.1%}"


def _all_alike(best: Run, runs: Sequence[Run]) -> str:
    """Return the advice for equal times without an owner."""
    swept = " and ".join(option for option, _value in best.settings)
    it = best.report
    if not any(run.report.unowned_ms for run in runs):
        line = f"It makes no difference for {swept}: no partition was ever without an owner"
    else:
        line = f"{swept} hardly matters here: about {partition_seconds(it.unowned_ms)} without an owner each time"
    rest = {cost(run.report) for run in runs}
    if len(rest) == 1:
        return f"{line}."
    worst = max((run.report for run in runs), key=lambda each: cost(each))
    return f"{line}; {best.name} has the fewest other costs: {_others(it)}, against up to {_others(worst)} elsewhere."


def _others(it: Report) -> str:
    risked, rebalances = plural(it.duplicates, "duplicate"), plural(it.rebalances, "rebalance")
    return f"{it.expelled_alive:,} expelled alive, {risked} risked, {rebalances}"


def _price(it: Report, other: Report) -> str:
    """Return the extra cost of the best choice over another one."""
    more = []
    if it.expelled_alive > other.expelled_alive:
        more.append(f"{plural(it.expelled_alive, 'member')} expelled alive instead of {other.expelled_alive:,}")
    if it.duplicates > other.duplicates * (1 + ALIKE):
        more.append(f"{plural(it.duplicates, 'duplicate')} risked instead of {other.duplicates:,}")
    if it.rebalances > other.rebalances:
        more.append(f"{plural(it.rebalances, 'rebalance')} instead of {other.rebalances:,}")
    return f"; its price: {', '.join(more)}" if more else ""


COLUMNS: list[tuple[str, Callable[[Report], str]]] = [
    ("rebalances", lambda it: f"{it.rebalances:,}"),
    ("in rebalances", lambda it: duration_text(it.rebalancing_ms)),
    ("unowned p-s", lambda it: f"{it.unowned_ms / 1000:,.1f}"),
    ("p50", lambda it: duration_text(it.unowned_p50_ms)),
    ("p99", lambda it: duration_text(it.unowned_p99_ms)),
    ("worst", lambda it: duration_text(it.unowned_worst_ms)),
    ("longest gap", lambda it: duration_text(it.longest_gap_ms)),
    ("moved", lambda it: f"{it.moved:,}"),
    ("duplicates", lambda it: f"{it.duplicates:,}"),
    ("expelled alive", lambda it: f"{it.expelled_alive:,}"),
]


def table(runs: Sequence[Run]) -> tuple[list[str], list[list[str]]]:
    """Return (header, rows) of the table."""
    head = [option for option, _value in runs[0].settings] + [name for name, _told in COLUMNS]
    rows = [[value for _option, value in run.settings] + [told(run.report) for _name, told in COLUMNS] for run in runs]
    return head, rows


def text(runs: Sequence[Run]) -> str:
    """Return the table and the advice as text."""
    head, rows = table(runs)
    widths = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head))]
    swept = len(runs[0].settings)
    lines = [
        "  ".join(f"{cell:<{width}}" if at < swept else f"{cell:>{width}}" for at, (cell, width) in enumerate(cells))
        for cells in (list(zip(row, widths, strict=True)) for row in [head, *rows])
    ]
    notes = sorted({note for run in runs for note in run.report.notes})
    legend = "unowned p-s: seconds without an owner, of all partitions together; p50, p99, worst: of one partition"
    return "\n".join([*lines, "", legend, *[f"Note: {note}" for note in notes], "", advice(runs)]) + "\n"
