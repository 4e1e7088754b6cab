"""The run as a table on the terminal, and as a Markdown table for the README."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

Json = dict[str, Any]


def figure(value: float) -> str:
    """Three figures that count."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def fraction(limit: float) -> str:
    """1/6 rather than 0.1667."""
    inverse = 1 / limit
    if limit < 1 and abs(inverse - round(inverse)) < 1e-9:
        return f"1/{round(inverse)}"
    return f"{limit:g}"


def target_text(target: Json, unit: str) -> tuple[str, bool | None]:
    """("≤ 1/6 × Kafka: 0.12", whether it is met)."""
    sign = "≥" if target["at_least"] else "≤"
    what = "" if target["what"] == "value" else f"{target['what']} "
    wanted = f"{what}{sign} {fraction(target['limit'])}"
    wanted += f" × {target['of']}" if target["of"] else f" {unit if not what or what[0] != 'p' else 'ms'}"
    if target["met"] is None:
        return f"{wanted}: not measured", None
    return f"{wanted}: {figure(target['reached'])}{between(target.get('spread'))}", target["met"]


def between(spread: list[float] | None) -> str:
    """ " (0.9–1.1)": the least and the greatest of the rounds; nothing where one round was all."""
    return "" if spread is None else f" ({figure(spread[0])}–{figure(spread[1])})"


TITLES = ["server", "value", "rounds", "× ours", "p50 ms", "p99 ms", "p99.9 ms", "per s", "busy"]
WIDTHS = [27, 8, 15, 7, 7, 7, 9, 10, 10]
MARKS = {True: "met   ", False: "MISSED", None: "?     "}
STYLES = {True: "green", False: "bold red", None: "yellow"}


def cells_of(column: Json, first: float) -> list[str]:
    """A server's line: see TITLES."""
    latency = column.get("latency_ms", {})
    rounds = column["rounds"]
    return [
        column["label"],
        figure(column["value"]),
        f"{figure(min(rounds))}–{figure(max(rounds))}" if len(rounds) > 1 else "",
        f"{column['value'] / first:.2f}" if first else "",
        *(figure(latency[name]) if name in latency else "" for name in ("p50", "p99", "p99.9")),
        f"{column['per_s']:,.0f}" if "per_s" in column else "",
        "/".join(f"{column[name]:.0%}" for name in ("server_busy", "generator_busy") if name in column),
    ]


def servers_of(row: Json) -> list[list[str]]:
    columns = list(row["columns"].values())
    return [cells_of(column, columns[0]["value"]) for column in columns]


def others(row: Json) -> list[str]:
    """Figures that have no column of their own, a line for each server that has any."""
    return [
        f"{column['label']}: " + " · ".join(f"{name} {figure(value)}" for name, value in column["also"].items())
        for column in row["columns"].values()
        if "also" in column
    ]


def of_other_commits(run: Json) -> dict[str, list[str]]:
    """Rows that an earlier run has measured (--merge)."""
    found: dict[str, list[str]] = {}
    for row in run["rows"]:
        if row["commit"] != run["commit"]:
            found.setdefault(row["commit"], []).append(row["name"])
    return found


def head_lines(run: Json) -> list[str]:
    machine = run["machine"]
    return [
        f"commit {run['commit']} · {run['date']} · {run['rounds']} rounds of {run['seconds']:g} s",
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB · Linux {machine['kernel']} · "
        f"{machine['python']}, {machine.get('build', 'interpreted')} · {machine['pinned']}",
        *(f"of commit {commit}: {', '.join(names)}" for commit, names in of_other_commits(run).items()),
        *run.get("absent", []),
        *(f"NOT MEASURED: {why}" for row in run["rows"] for why in row["wrong"]),
    ]


def aligned(cells: list[str]) -> str:
    """Names to the left, figures to the right, in lines that fit a terminal of a hundred columns."""
    first = f"  {cells[0]:{WIDTHS[0]}}"
    return first + "".join(f"{cell:>{width}}" for cell, width in zip(cells[1:], WIDTHS[1:], strict=True))


def print_table(run: Json, console: Console | None = None) -> None:
    """Each row's servers and targets, and a last line that counts what was missed."""
    console = console or Console()

    def say(text: str, style: str = "") -> None:
        console.print(Text(text, style), soft_wrap=True)

    for line in head_lines(run):
        say(line)
    say("")
    say(aligned(TITLES), "dim")
    for row in run["rows"]:
        say(f"{row['title']} [{row['unit']}]", "bold")
        for cells in servers_of(row):
            say(aligned(cells))
        for line in others(row):
            say(f"    {line}", "dim")
        for target in row["targets"]:
            text, met = target_text(target, row["unit"])
            say(f"    {MARKS[met]} {text}", STYLES[met])
    say("")
    say(verdict(run))


def verdict(run: Json) -> str:
    judged = [(row, target) for row in run["rows"] for target in row["targets"]]
    missed = [
        f"{row['name']}: {target_text(target, row['unit'])[0]}" for row, target in judged if target["met"] is False
    ]
    unknown = sum(target["met"] is None for _, target in judged)
    text = f"{len(judged) - len(missed) - unknown} of {len(judged)} targets met"
    if unknown:
        text += f", {unknown} not measured"
    return text + ("." if not missed else "; MISSED: " + " · ".join(missed))


def markdown(run: Json) -> str:
    """The table for the README."""
    out = [*(f"{line}  " for line in head_lines(run)), verdict(run), ""]
    out.append("| " + " | ".join(["work", *TITLES, "target: reached"]) + " |")
    out.append("|" + "---|" * 2 + "--:|" * (len(TITLES) - 1) + "---|")
    for row in run["rows"]:
        targets = [target_text(target, row["unit"]) for target in row["targets"]]
        marks = {True: "met", False: "**MISSED**", None: "?"}
        told = "<br>".join([*(f"{marks[met]} {text}" for text, met in targets), *others(row)])
        for number, cells in enumerate(servers_of(row)):
            work = [f"{row['title']} [{row['unit']}]", told] if number == 0 else ["", ""]
            out.append("| " + " | ".join([work[0], *cells, work[1]]) + " |")
    return "\n".join(out) + "\n"
