"""`coordinatord simulate`: the cost of timeouts in a deployment."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from coordinatord.cli.options import BAD_SETTINGS, fail
from coordinatord.cli.terminal import echo, echo_text
from coordinatord.testing.simulation import page
from coordinatord.testing.simulation import report as reports
from coordinatord.testing.simulation import sweep as sweeps
from coordinatord.testing.simulation.scenario import (
    OPTIONS,
    SEVERAL,
    Scenario,
    attribute,
    build,
    parse_sweep,
    read_file,
    written,
)
from coordinatord.testing.simulation.units import BadScenario

PARTS = {
    "group": "The group",
    "timeouts": "Settings of the members",
    "work": "The members' work",
    "what happens": "Events",
    "world": "The world",
}


class Command(click.Command):
    """A command whose --help groups the options."""

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        rest: list[tuple[str, str]] = []
        parts: dict[str, list[tuple[str, str]]] = {part: [] for part in PARTS}
        for param in self.get_params(context):
            record = param.get_help_record(context)
            if record is None or isinstance(param, click.Argument):
                continue
            name = (param.name or "").replace("_", "-")
            (parts[OPTIONS[name].part] if name in OPTIONS else rest).append(record)
        for part, title in PARTS.items():
            with formatter.section(title):
                formatter.write_dl(parts[part])
        with formatter.section("Output"):
            formatter.write_dl(rest)


def scenario_options(command: Any) -> Any:
    """Add one option for each row of OPTIONS."""
    for name, option in reversed(list(OPTIONS.items())):
        default = written(name, getattr(Scenario(), attribute(name)))
        text = f"{option.help} [{default}]" if default and name != "static" else option.help
        if name == "static":
            command = click.option("--static/--dynamic", name, default=None, help=text)(command)
        elif name in SEVERAL:
            command = click.option(f"--{SEVERAL[name]}", name, multiple=True, metavar=option.metavar, help=text)(
                command
            )
        else:
            command = click.option(f"--{name}", metavar=option.metavar, help=text)(command)
    return command


@click.command(cls=Command)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@scenario_options
@click.option(
    "--sweep",
    "swept",
    multiple=True,
    metavar="OPTION=A,B,C",
    help="Compare values of any option: session=10s,30s,45s. Repeated: all combinations.",
)
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write the sweep as a page with plots.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.option("--trace", is_flag=True, help="Print each event before the report.")
def simulate(
    file: Path | None, swept: tuple[str, ...], html: Path | None, as_json: bool, trace: bool, **given: Any
) -> None:
    """Predict what timeouts cost a deployment.

    Takes seconds, on virtual time. The real coordinator and modelled consumers (by the Java client's rules) run a
    scenario of deployments, crashes and pauses. The report has rebalances, how long partitions had no owner, how many
    partitions moved, and how much work may be done twice.

    FILE is a scenario in TOML with the same options (session = "45s"); options on the command line win.

    \b
    coordinatord simulate --members 40 --partitions 400 --deploy rolling:30s
    coordinatord simulate --crashes 6/d --sweep session=10s,30s --html out.html
    coordinatord simulate --deploy rolling:30s --sweep protocol=classic,consumer
    """
    try:
        values: dict[str, object] = {} if file is None else read_file(file)
        values |= {name.replace("_", "-"): value for name, value in given.items() if value not in (None, ())}
        scenario = build(values)
        if swept:
            _sweep(scenario, swept, html, as_json, trace)
            return
        if html is not None:
            raise BadScenario("--html draws a sweep: add --sweep OPTION=A,B,C")
        found = sweeps.simulate(scenario, _print_event if trace else None)
    except BadScenario as error:
        fail(str(error) if str(error).endswith("?") else f"{error}.", status=BAD_SETTINGS)
    if trace:
        echo()
    echo_text(json.dumps(found.as_json(), indent=2) if as_json else reports.text(found))


def _print_event(at_ms: int | None, text: str) -> None:
    if at_ms is None:
        echo(f"{'forming':<11}  {text}")
        return
    minutes, ms = divmod(at_ms, 60_000)
    hours, minutes = divmod(minutes, 60)
    echo(f"{hours:d}:{minutes:02d}:{ms / 1000:06.3f}  {text}")


def _sweep(scenario: Scenario, swept: tuple[str, ...], html: Path | None, as_json: bool, trace: bool) -> None:
    if trace:
        raise BadScenario("--trace shows a single run: leave out --sweep")
    wanted = sweeps.scenarios(scenario, [parse_sweep(text) for text in swept])
    runs: list[sweeps.Run] = []
    for number, (settings, each) in enumerate(wanted, 1):
        told = ", ".join(" ".join(setting) for setting in settings)
        if not as_json and sys.stderr.isatty():
            echo(f"  {number} of {len(wanted)}: {told} …", err=True)
        runs.append(sweeps.Run(settings, sweeps.simulate(each)))
    if html is not None:
        try:
            html.write_text(page.page(scenario, runs), "utf-8")
        except OSError as error:
            raise BadScenario(f"{html} cannot be written: {error.strerror or error}") from None
    if as_json:
        told_runs = [{"settings": dict(run.settings), "report": run.report.as_json()} for run in runs]
        echo_text(json.dumps({"runs": told_runs, "advice": sweeps.advice(runs)}, indent=2))
    else:
        echo_text(sweeps.text(runs))
