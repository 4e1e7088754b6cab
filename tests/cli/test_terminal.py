"""Text of peers on a terminal: whatever a command prints goes through one function, and that escapes it."""

from __future__ import annotations

import ast
import json
import logging
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import coordinatord.cli
from coordinatord.base.observe.printable import printable
from coordinatord.cli import cluster_options, groups, terminal
from coordinatord.cli.options import fail
from kafka_wire.api.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions
from kafka_wire.api.describe_groups import DescribedGroup as ClassicGroup
from kafka_wire.records.rebalance_ledger import VERSION, Outcome

EVIL = "a\x1b[2J\x07\x9b31m\u202eb\u2028c\n2026-01-01 forged\rd\x7f\ud800"
ESCAPED = r"a\x1b[2J\x07\x9b31m\u202eb\u2028c\n2026-01-01 forged\rd\x7f\ud800"


def test_what_a_terminal_would_obey_is_escaped_once() -> None:
    assert printable(EVIL) == ESCAPED
    assert printable(ESCAPED) == ESCAPED
    assert printable("grüße 注文 🚀 a b") == "grüße 注文 🚀 a b"


WRITERS = {"echo", "secho", "echo_via_pager", "ClickException", "print", "pprint"}


def test_commands_print_in_one_place_alone() -> None:
    """`click.UsageError` and the like show what the user has typed."""
    found = []
    for path in sorted(Path(coordinatord.cli.__file__).parent.glob("*.py")):
        if path.name == "terminal.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and (
                (isinstance(node.value, ast.Name) and node.value.id == "click" and node.attr in WRITERS)
                or (node.attr in ("write", "writelines") and "std" in ast.unparse(node.value))
            ):
                found.append(f"{path.name}:{node.lineno}: {ast.unparse(node)}")
            elif isinstance(node, ast.Name) and node.id in ("print", "pprint"):
                found.append(f"{path.name}:{node.lineno}: {node.id}")
    assert not found


def record(**more: Any) -> dict[str, Any]:
    """A record of the ledger whose names are a peer's."""
    return {
        "version": VERSION, "group_id": EVIL, "generation_before": 1, "generation_after": 2, "began_ms": 0,
        "joined_ms": 1, "ended_ms": 2, "outcome": Outcome.COMPLETED, "initial": False, "leader": EVIL,
        "trigger": {"kind": "member left", "text": f"member {EVIL} left: {EVIL}", "member_id": EVIL},
        "members_before": 2, "members_after": 1, "added": 0, "removed": 1,
        "dropped": [{"member_id": EVIL, "cause": "left"}, {"member_id": EVIL + "2", "cause": "left"}],
        "slowest": {"member_id": EVIL, "phase": "join", "after_ms": 5}, **more,
    }  # fmt: skip


def epoch(**more: Any) -> dict[str, Any]:
    """The same of the consumer protocol."""
    who = {"member_id": EVIL, "instance": EVIL, "client_id": EVIL, "after_ms": 3, "revoked_after_ms": 2}
    return record(
        group_type="consumer", assigned_ms=1, members=[{**who, "got": {EVIL: [1]}, "gave_up": {EVIL: [2]}}], got=1,
        gave_up=1, dropped=[], held_up={**who, "phase": "revoke"}, **more,
    )  # fmt: skip


PLACE = Assignment([TopicPartitions(bytes(16), EVIL, [0])])
STATES = (
    ClassicGroup(group_id=EVIL, group_state=EVIL, protocol_type="consumer", protocol_data=EVIL),
    DescribedGroup(0, None, EVIL, EVIL, 2, 2, EVIL, []),
    DescribedGroup(0, None, EVIL, EVIL, 2, 2, EVIL, [Member(EVIL, EVIL, None, 1, EVIL, EVIL, [EVIL], None, PLACE)]),
)


@pytest.mark.parametrize("state", STATES, ids=["classic", "consumer, empty", "consumer"])
@pytest.mark.parametrize(
    "records",
    [[], [record()], [epoch()], [{"version": 99, "group_id": EVIL}]],
    ids=["no record", "rebalance", "epoch", "of another version"],
)
def test_no_names_of_peers_draw_on_the_terminal(
    monkeypatch: pytest.MonkeyPatch, state: Any, records: list[dict[str, Any]]
) -> None:
    monkeypatch.setattr(groups, "look_up", lambda *_: (state, records))
    result = CliRunner().invoke(groups.why, ["g"])
    assert result.exception is None, result.exception
    assert all(line.isprintable() for line in result.output.split("\n"))
    assert ESCAPED in result.output
    assert not any(line.startswith("2026-01-01 forged") for line in result.output.split("\n"))


@pytest.mark.parametrize("records", [[], [record()]], ids=["none", "one"])
def test_it_is_said_when_no_rebalance_is_recorded(monkeypatch: pytest.MonkeyPatch, records: list[Any]) -> None:
    monkeypatch.setattr(groups, "look_up", lambda *_: (STATES[0], records))
    output = CliRunner().invoke(groups.why, ["g"]).output
    assert ("No rebalance of this group is recorded" in output) == (not records)


def test_json_has_nothing_but_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "look_up", lambda *_: (STATES[0], [record()]))
    result = CliRunner().invoke(groups.why, ["g", "--json"])
    [line] = result.output.splitlines()
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["leader"] == EVIL


def test_errors_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        fail(f"broker {EVIL} says no", "twice")
    assert capsys.readouterr().err == f"coordinatord: broker {ESCAPED} says no\ncoordinatord: twice\n"


def test_a_style_is_around_the_escaped_text() -> None:
    @click.command()
    def command() -> None:
        terminal.echo(EVIL, bold=True, underline=True)
        terminal.echo("plain", "", "text")

    plain = "\nplain\n\ntext\n"
    assert CliRunner().invoke(command, color=True).output == f"\x1b[1m\x1b[4m{ESCAPED}\x1b[0m{plain}"
    assert CliRunner().invoke(command).output == f"{ESCAPED}{plain}"


def test_data_for_programs_are_escaped_on_a_terminal_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal.echo_data('"a\x1b[2J",1\n')
    assert capsys.readouterr().out == '"a\x1b[2J",1\n'
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    terminal.echo_data('"a\x1b[2J",1\n')
    assert capsys.readouterr().out == '"a\\x1b[2J",1\n'


PROGRAM = """
import logging, sys
from coordinatord.cli.terminal import escape_errors
escape_errors()
logging.getLogger("library").warning("broker %s", sys.argv[1])
raise ValueError(sys.argv[1])
"""


def test_what_ends_the_program_and_what_libraries_log_are_escaped() -> None:
    text = "a\x1b[2J\x9b31m\u202eb"
    done = subprocess.run([sys.executable, "-c", PROGRAM, text], capture_output=True, text=True, encoding="utf-8")
    first, *others = done.stderr.split("\n")
    assert first == r"broker a\x1b[2J\x9b31m\u202eb"
    assert r"ValueError: a\x1b[2J\x9b31m\u202eb" in others
    assert all(line.isprintable() for line in others)


def test_the_entry_point_escapes_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)  # another test may have called the entry point
    before, handler = sys.excepthook, logging.lastResort
    assert handler is not None
    formatter = handler.formatter
    monkeypatch.setattr(sys, "argv", ["coordinatord", "--version"])
    try:
        with pytest.raises(SystemExit):
            coordinatord.cli.main()
        assert sys.excepthook is not before
    finally:
        sys.excepthook, handler.formatter = before, formatter


def test_shells_are_not_offered_names_that_they_would_obey(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell puts what it completes into the line as it is."""
    names = ["billing", "a.b-c_d:1", "größe", "-x", "$(reboot)", "a b", "a;b", "`a`", "a\x1b[2J", "a\nb", "~", "*", ""]
    monkeypatch.setattr(cluster_options, "_for_completion", lambda _context: nullcontext())
    monkeypatch.setattr(cluster_options, "_names", lambda _cluster, _kind: names)
    complete = cluster_options.completing("groups")
    context, parameter = click.Context(click.Command("describe")), click.Argument(["groups"])
    assert complete(context, parameter, "") == ["billing", "a.b-c_d:1", "größe"]
