"""`coordinatord simulate` as it is typed: what it prints, what it refuses, and advice that follows from the figures."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from coordinatord.cli import cli
from coordinatord.testing.simulation import report
from coordinatord.testing.simulation.report import Report
from coordinatord.testing.simulation.scenario import OPTIONS, SEVERAL, Scenario, attribute, build, parse_option, written
from coordinatord.testing.simulation.sweep import Run, advice, simulate, text
from coordinatord.testing.simulation.units import BadScenario, duration_text

SHORT = ("--members", "3", "--partitions", "6", "--duration", "5m")


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, ["simulate", *arguments], prog_name="coordinatord", terminal_width=80)
    assert "Traceback" not in result.output
    return result


def test_the_report_says_what_was_simulated_and_what_it_cost() -> None:
    result = run(*SHORT, "--assignor", "cooperative-sticky", "--deploy", "rolling:30s", "--static")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == (
        "Scenario: members 3, partitions 6, assignor cooperative-sticky, static true, session 45s, heartbeat 3s,"
    )
    assert lines[1] == "  deploy rolling:30s, duration 5m"
    assert re.search("^rebalances +none$", result.output, re.MULTILINE)
    assert "3 × restart" in result.output
    assert max(map(len, lines)) <= 120


def test_json_has_what_the_text_has() -> None:
    arguments = [*SHORT, "--event", "30s:crash:1", "--session", "10s", "--restart", "30s"]
    it = json.loads(run(*arguments, "--json").output)
    assert it["rebalances"] == sum(it["rebalances_by_trigger"].values()) == 2
    assert it["unowned_ms"] == sum(it["unowned_by_cause"].values())
    assert it["scenario"]["events"] == "30s:crash:1"
    assert re.search(r"^rebalances +2 \(", run(*arguments).output, re.MULTILINE)


def test_the_trace_tells_the_story_in_order() -> None:
    lines = run(*SHORT, "--event", "30s:crash:1", "--session", "10s", "--restart", "30s", "--trace").output.splitlines()
    told = lines[: lines.index("")]
    at_crash = next(number for number, line in enumerate(told) if line.startswith("0:00:30.000  member-1: crash"))
    assert any("Stable → PreparingRebalance" in line for line in told[at_crash:])
    after = [line.split()[0] for line in told[at_crash:]]
    assert after == sorted(after)
    assert "takes 3 partitions, generation 2" in "".join(told)


def test_a_file_has_the_same_options_and_the_command_line_wins(tmp_path: Path) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text('members = 2\nsession = "10s"\nduration = "2m"\nstatic = true\nevents = ["10s:crash:1"]\n')
    it = json.loads(run(str(file), "--session", "20s", "--json").output)
    assert it["scenario"]["members"] == "2"
    assert it["scenario"]["session"] == "20s"
    assert it["scenario"]["static"] == "true"
    assert it["happened"] == {"crash": 1}


@pytest.mark.parametrize("name", OPTIONS)
def test_what_is_written_is_read_back(name: str) -> None:
    """Each default, and something else."""
    others = {"deploy": "rolling:30s:5", "crashes": "2/h", "pauses": "1.5/h:10s", "events": "1m:pause:0:20s 1h:stop:2"}
    others["faults"] = "drop:Heartbeat:after:nth=2 blackhole:member-0:at=1m"
    default = getattr(Scenario(), attribute(name))
    assert parse_option(name, written(name, default)) == default
    value = parse_option(name, others.get(name, written(name, default)))
    assert parse_option(name, written(name, value)) == value


@pytest.mark.parametrize(("rate", "told"), [("1/d", "1/d"), ("0.5/h", "12/d"), ("3/h", "3/h"), ("0", "0")])
def test_rates_are_told_in_whole_numbers_where_that_goes(rate: str, told: str) -> None:
    assert written("crashes", parse_option("crashes", rate)) == told


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--session", "45"], "session: 45 has no unit: write 45s, or 45ms"),
        (["--session", "soon"], "session: 'soon' is not a duration: write 300ms, 45s, 10m or 1h30m"),
        (["--session", "3s", "--heartbeat", "3s"], "does not keep a session of 3s alive: take a third of it"),
        (["--members", "0"], "members: '0' is not a whole number from 1 to 10,000"),
        (["--assignor", "stiky"], "there is no assignor 'stiky': use range, roundrobin"),
        (["--deploy", "rolling"], "write none, all, rolling:30s"),
        (["--deploy", "rolling:30s:5:7"], "write none, all, rolling:30s"),
        (["--deploy", "rolling:0"], "would restart no member"),
        (["--crashes", "5"], "crashes: '5' is not a rate per member: write 0.5/h or 2/d"),
        (["--pauses", "5/h"], "write 2/h:10s or 1/d:30s"),
        (["--event", "10s:crash:3"], "members are numbered 0 to 2"),
        (["--event", "10s:explode:1"], "WHAT is one of crash, restart, stop"),
        (["--event", "2h:crash:1"], "comes after the end, at 1h"),
        (["--deploy", "all", "--deploy-at", "2h"], "change --deploy-at or --duration"),
        (["--sweep", "sesion=1s,2s"], "there is no option sesion; did you mean session?\n"),
        (["--sweep", "session"], "write OPTION=VALUE,VALUE, as session=10s,30s,45s"),
        (["--sweep", "session=10s,10s"], "a value is there twice"),
        (["--sweep", "session=2s,10s"], "with session 2s: a heartbeat every 3s does not keep"),
        (["--sweep", "session=10s,20s", "--sweep", "session=10s,20s"], "an option can be swept once"),
        (["--sweep", "session=10s,20s", "--trace"], "leave out --sweep"),
        (["--html", "out.html"], "--html draws a sweep"),
        (["--records", "-1"], "is not a number of records a second"),
        (["nowhere.toml"], "nowhere.toml: No such file or directory"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(arguments: list[str], sentence: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert sentence in result.output
    assert result.output.count("\n") == 1


@pytest.mark.parametrize("toml", ["members = [1]", "memberz = 1", "members = true", "members", "[session]\nx = 1"])
def test_a_file_that_cannot_be_is_refused(toml: str, tmp_path: Path) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text(toml)
    result = run(str(file))
    assert result.exit_code == 2
    assert result.output.count("\n") == 1


# ---- sweeps ----------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def some() -> Report:
    return simulate(build({"members": 2, "partitions": 2, "duration": "1m"}))


def runs_of(some: Report, *figures: dict[str, Any]) -> list[Run]:
    return [
        Run((("session", f"{number}0s"),), dataclasses.replace(some, **changes))
        for number, changes in enumerate(figures, 1)
    ]


@pytest.mark.parametrize(
    ("unfinished", "told"),
    [(0, "rebalances  3 (2 × crash, 1 × join)"), (2, "rebalances  3 (2 × crash, 1 × join); 2 not completed")],
)
def test_rebalances_that_were_not_completed_are_counted(some: Report, unfinished: int, told: str) -> None:
    triggers = {"crash": 2, "join": 1}
    it = dataclasses.replace(some, rebalances=3, rebalances_by_trigger=triggers, unfinished=unfinished)
    assert told in [re.sub(" {2,}", "  ", line) for line in report.text(it).splitlines()]


def test_advice_names_what_costs_least_and_by_how_much(some: Report) -> None:
    assert advice(runs_of(some, {"unowned_ms": 10_000}, {"unowned_ms": 40_000})) == (
        "Take session 10s: 10.0 partition-seconds without an owner, 75% less than the 40.0 with session 20s."
    )
    turned = advice(runs_of(some, {"unowned_ms": 40_000}, {"unowned_ms": 10_000}))
    assert turned.startswith("Take session 20s: ")


def test_advice_names_the_price(some: Report) -> None:
    line = advice(runs_of(some, {"unowned_ms": 10_000, "expelled_alive": 7, "rebalances": 9}, {"unowned_ms": 40_000}))
    assert line.endswith("; its price: 7 members expelled alive instead of 0, 9 rebalances instead of 0.")


def test_advice_among_those_alike_takes_the_one_with_fewer_other_costs(some: Report) -> None:
    figures = [
        {"unowned_ms": 10_000, "expelled_alive": 3},
        {"unowned_ms": 10_300, "expelled_alive": 0},
        {"unowned_ms": 40_000, "expelled_alive": 0},
    ]
    line = advice(runs_of(some, *figures))
    assert line.startswith("Take session 20s: ")
    assert "(session 10s does as well)" in line


def test_advice_says_when_it_does_not_matter(some: Report) -> None:
    alike = runs_of(some, {"unowned_ms": 10_000}, {"unowned_ms": 10_100})
    assert advice(alike).startswith("session hardly matters here: about 10.0 partition-seconds")
    never = runs_of(some, {"unowned_ms": 0, "happened": {"restart": 2}}, {"unowned_ms": 0, "happened": {"restart": 2}})
    assert advice(never) == "It makes no difference for session: no partition was ever without an owner."
    differ = runs_of(some, {"unowned_ms": 10_000, "duplicates": 50}, {"unowned_ms": 10_100, "duplicates": 20})
    assert "session 20s has the fewest other costs" in advice(differ)


def test_advice_says_when_nothing_happens(some: Report) -> None:
    assert advice(runs_of(some, {}, {})).startswith("Nothing befalls the members here: add --deploy, ")


def test_advice_says_when_chance_has_had_little_to_say(some: Report) -> None:
    figures: list[dict[str, Any]] = [
        {"unowned_ms": ms, "happened": {"crash": 2, "pause": 1}, "scenario": some.scenario | {"crashes": "1/d"}}
        for ms in (10_000, 40_000)
    ]
    assert " It rests on 2 crashes, 1 pause: a longer --duration" in advice(runs_of(some, *figures))
    for each in figures:
        each["happened"] = {"crash": 30}
    assert "It rests on" not in advice(runs_of(some, *figures))


def test_a_real_sweep_gives_advice_that_its_own_figures_bear_out() -> None:
    arguments = [*SHORT, "--event", "1m:crash:1", "--restart", "2m", "--sweep", "session=10s,40s"]
    it = json.loads(run(*arguments, "--json").output)
    costs = {each["settings"]["session"]: each["report"]["unowned_ms"] for each in it["runs"]}
    assert costs["10s"] < costs["40s"] / 2
    assert it["advice"].startswith("Take session 10s: ")
    shown = run(*arguments).output
    assert shown.splitlines()[-1] == it["advice"]
    assert f"{costs['40s'] / 1000:,.1f}" in shown


def test_two_sweeps_are_a_grid_in_one_file_that_needs_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "grid.html"
    sweeps = ["--sweep", "session=10s,20s", "--sweep", "static=true,false"]
    result = run(*SHORT, "--event", "1m:crash:1", *sweeps, "--html", str(out))
    assert result.exit_code == 0, result.output
    assert len([line for line in result.output.splitlines() if line.startswith(("10s", "20s"))]) == 4
    html = out.read_text()
    own = html.split("<body>")[1]
    assert result.output.splitlines()[-1] in own.replace("&#x27;", "'")
    assert "src=" not in own, "nothing is loaded from elsewhere"
    assert "http" not in own
    assert own.count("<figure") == 6
    assert own.count("<tr class=best>") == 1


def test_a_group_that_cannot_form_is_a_sentence_too() -> None:
    with pytest.raises(BadScenario, match="the group has not formed within 1 h"):
        simulate(build({"members": 3, "session": "100ms", "heartbeat": "50ms", "latency": "10s"}))


@pytest.mark.parametrize(
    ("ms", "told"), [(0, "0 ms"), (4_200, "4.2 s"), (45_000, "45 s"), (5_400_000, "1 h 30 m"), (59_999, "60 s")]
)
def test_times_are_told_as_people_do(ms: int, told: str) -> None:
    assert duration_text(ms) == told


def test_the_table_names_its_columns(some: Report) -> None:
    head = text(runs_of(some, {}, {})).splitlines()[0].split()
    assert head[0] == "session"
    assert "duplicates" in head


def test_help_names_every_option() -> None:
    shown = run("--help").output
    for name in OPTIONS:
        assert f"--{SEVERAL.get(name, name)} " in shown
