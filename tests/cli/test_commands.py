"""The commands as a user types them, in this process and without a daemon."""

from __future__ import annotations

import dataclasses
import errno
import importlib
import json
import os
import socket
import sys
import tomllib
import types
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from coordinatord.base.config import TABLE, Settings, load
from coordinatord.base.observe import logs
from coordinatord.base.observe.admin import AdminError
from coordinatord.base.observe.logger import captured
from coordinatord.broker.log.errors import LogDamaged
from coordinatord.cli import COMMANDS, cli, main
from coordinatord.cli.serve import sentence

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run("settings", "--changed", NAME="value")`: arguments, and environment variables."""
    for name in list(os.environ):
        if name.startswith("COORDINATORD_"):
            monkeypatch.delenv(name)

    def invoke(*arguments: str, **environment: str) -> Result:
        result = CliRunner().invoke(cli, arguments, env=environment, prog_name="coordinatord", terminal_width=80)
        assert "Traceback" not in result.output
        return result

    return invoke


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    """A server that only takes note; `outcome` is what its run does."""
    seen = types.SimpleNamespace(settings=None, logging=None, outcome=lambda: 0)

    def run_server(settings: Settings, _on_listening: object) -> int:
        seen.settings = settings
        return int(seen.outcome())

    module = types.ModuleType("coordinatord.server.daemon.process")
    module.run = run_server  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "coordinatord.server.daemon.process", module)
    monkeypatch.setattr("coordinatord.server.daemon.process", module, raising=False)
    monkeypatch.setattr(logs, "configure", lambda *asked: setattr(seen, "logging", asked))
    return seen


def raising(error: BaseException) -> Callable[[], int]:
    def outcome() -> int:
        raise error

    return outcome


# ---- help ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("arguments", [["--help"], ["-h"], *([name, "--help"] for name in COMMANDS)], ids=" ".join)
def test_help_fits_a_terminal(run: Run, arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code == 0
    assert result.output.startswith("Usage: coordinatord")
    assert max(map(len, result.output.splitlines())) <= 80


def test_the_list_of_commands_says_what_they_say_themselves(run: Run) -> None:
    listed = run("--help").output
    for name, (module, attribute, line) in COMMANDS.items():
        assert f"  {name}" in listed
        assert line in listed
        command = getattr(importlib.import_module(module), attribute)
        assert command.help.splitlines()[0] == line


def test_the_version_is_told(run: Run) -> None:
    result = run("--version")
    assert result.exit_code == 0
    assert result.output.startswith("coordinatord ")
    assert "Python 3." in result.output


def test_a_mistyped_command_gets_a_suggestion(run: Run) -> None:
    result = run("serv")
    assert result.exit_code == 2
    assert "No such command 'serv'. Did you mean 'serve'?" in result.output
    assert "Did you mean" not in run("xyz").output


def test_a_name_that_is_not_utf_8_is_told_in_a_sentence(run: Run) -> None:
    at = ("pipeline", "at", "--out", "out", "--time", "03:12", "--group")
    report = ("pipeline", "report", "--out", "out", "--html", "x.html", "--group")
    for command in (("groups", "why"), at, report, ("pipeline", "run", "--out", "out", "--groups")):
        result = run(*command, "caf\udce9")
        assert result.exit_code == 2
        assert r"'caf\udce9' is not UTF-8; names in Kafka are" in result.output


# ---- serve -----------------------------------------------------------------------------------------------------------
def test_serve_runs_with_defaults(run: Run, served: types.SimpleNamespace) -> None:
    result = run("serve")
    assert (result.exit_code, result.output) == (0, "")
    assert dataclasses.asdict(served.settings) == dataclasses.asdict(Settings())
    assert served.logging == ("auto", "info")


def test_serve_takes_its_options(run: Run, served: types.SimpleNamespace, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=3\ngroup.max.size=10\n")
    served.outcome = lambda: 7
    result = run(
        *("serve", "--config", str(file), "--listen", ":0", "--advertise", "kafka:9092", "--data-dir", str(tmp_path)),
        *("--admin", "127.0.0.1:0", "--log-format", "json", "--log-level", "debug"),
        *("--set", "group.max.size=20", "--set", "log.flush=never"),
        COORDINATORD_NUM_PARTITIONS="4",
        COORDINATORD_DATA_DIR="elsewhere",
    )
    assert result.exit_code == 7
    settings = served.settings
    assert (settings.num_partitions, settings.group_max_size, settings.log_flush) == (4, 20, "never")
    assert settings.data_dir == tmp_path
    assert settings.endpoints[0].advertised_host == "kafka"
    assert settings.admin.address == "127.0.0.1:0"
    assert served.logging == ("json", "debug")


def test_serve_takes_its_file_from_the_environment(run: Run, served: types.SimpleNamespace, tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text("num.partitions = 3\n")
    assert run("serve", COORDINATORD_CONFIG=str(file)).exit_code == 0
    assert served.settings.num_partitions == 3


def test_bad_settings_are_told_and_nothing_is_started(run: Run, served: types.SimpleNamespace) -> None:
    result = run("serve", "--set", "group.max.sise=3", "--listen", "9092")
    assert result.exit_code == 2
    assert result.output.splitlines() == [
        "coordinatord: listeners must be HOST:PORT or NAME://HOST:PORT, not '9092' (--listen).",
        "coordinatord: There is no setting 'group.max.sise' (--set). Did you mean group.max.size?",
    ]
    assert served.settings is None
    assert run("serve", "--set", "group.max.size").exit_code == 2
    assert run("serve", "--config", "nowhere.toml").exit_code == 2
    assert run("serve", "extra").exit_code == 2


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (LogDamaged("d/t-0/0.log", 17, "CRC"), "d/t-0/0.log is damaged at byte 17: CRC."),
        (AdminError("The admin address is in use."), "The admin address is in use."),
        (OSError(errno.EADDRINUSE, "Address already in use"), "127.0.0.1:9092 is in use: another program listens"),
    ],
)
def test_what_keeps_the_daemon_from_starting_is_told_in_a_sentence(
    run: Run, served: types.SimpleNamespace, error: Exception, told: str
) -> None:
    served.outcome = raising(error)
    result = run("serve")
    assert result.exit_code == 1
    assert result.output.startswith(f"coordinatord: {told}")
    assert len(result.output.splitlines()) == 1


def test_ctrl_c_before_the_daemon_minds_it_is_quiet(run: Run, served: types.SimpleNamespace) -> None:
    served.outcome = raising(KeyboardInterrupt())
    result = run("serve")
    assert (result.exit_code, result.output) == (130, "")


def test_a_mistake_of_ours_is_logged_with_its_traceback(run: Run, served: types.SimpleNamespace) -> None:
    served.outcome = raising(ZeroDivisionError())
    with captured() as lines:
        assert run("serve").exit_code == 1
    assert [(line["event"], line["exc_info"]) for line in lines] == [("the daemon failed", True)]


def test_warnings_about_settings_are_log_lines(run: Run, served: types.SimpleNamespace) -> None:
    with captured() as lines:
        assert run("serve", "--set", "process.roles=broker").exit_code == 0
    assert [(line["event"], line["log_level"]) for line in lines] == [("process.roles has no effect here.", "warning")]


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (OSError(errno.EADDRNOTAVAIL, "Cannot assign"), "is not an address of this machine"),
        (PermissionError(errno.EACCES, "Permission denied", "/data/x"), "/data/x cannot be written"),
        (PermissionError(errno.EACCES, "Permission denied"), "may not listen on 127.0.0.1:9092"),
        (OSError(errno.EROFS, "Read-only file system", "/data"), "--data-dir"),
        (OSError(errno.ENOSPC, "No space left on device"), "is full"),
        (OSError(errno.EMFILE, "Too many open files"), "ulimit -n"),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory", "data"), "data is not a directory"),
        (socket.gaierror(-2, "Name or service not known"), "cannot be resolved: Name or service not known"),
    ],
)
def test_errors_of_the_system_come_with_advice(error: OSError, advice: str) -> None:
    told = sentence(error, Settings())
    assert told is not None
    assert advice in told
    assert told.endswith(".")


def test_an_error_that_nobody_foresaw_keeps_its_traceback() -> None:
    assert sentence(OSError(errno.EIO, "Input/output error"), Settings()) is None


# ---- settings --------------------------------------------------------------------------------------------------------
def test_settings_are_all_listed_with_default_and_meaning(run: Run) -> None:
    output = run("settings").output
    for name in TABLE:
        assert f"\n{name} = " in output
    long_values = ("listener.security.protocol.map",)
    assert all(len(line) <= 80 or line.startswith(long_values) for line in output.splitlines())


def test_settings_show_where_a_value_comes_from(run: Run) -> None:
    output = run("settings", "group.max.size", "num.part", "--set", "group.max.size=5", COORDINATORD_NUM_PARTITIONS="2")
    assert "group.max.size = 5   (--set; default: 2147483647)" in output.output
    assert "num.partitions = 2   (environment variable COORDINATORD_NUM_PARTITIONS; default: 1)" in output.output
    assert "node.id" not in output.output


def test_settings_are_styled_on_a_terminal() -> None:
    """Bold: headings, and what is not at its default."""
    result = CliRunner().invoke(cli, ["settings", "num.part", "--set", "num.partitions=2"], color=True)
    assert result.output.startswith("\x1b[1m\x1b[4mTopics\x1b[0m\n\n\x1b[1mnum.partitions = 2")
    assert "\x1b" not in CliRunner().invoke(cli, ["settings", "num.part", "--set", "num.partitions=2"]).output
    bold = [line for line in CliRunner().invoke(cli, ["settings"], color=True).output.split("\n") if "\x1b[1m" in line]
    assert [line for line in bold if "\x1b[4m" not in line] == []


def test_settings_that_changed_are_listed_alone(run: Run) -> None:
    assert run("settings", "--changed").output == "All settings are at their defaults.\n"
    output = run("settings", "--changed", "--set", "node.id=0", "--set", "group.max.size=5").output
    assert "group.max.size = 5" in output
    assert "node.id" not in output


def test_settings_as_json(run: Run) -> None:
    listed = json.loads(run("settings", "--format", "json", "--set", "log.dirs=/d").output)
    assert [each["name"] for each in listed] == list(TABLE)
    by_name = {each["name"]: each for each in listed}
    assert by_name["log.dirs"]["value"] == "/d"
    assert by_name["log.dirs"]["origin"] == "--set"
    assert by_name["log.dirs"]["aliases"] == ["log.dir"]
    assert by_name["log.roll.ms"]["value"] is None
    assert by_name["auto.create.topics.enable"]["default"] is True
    assert [each["differs_from_kafka"] for each in listed] == [row.ours or None for row in TABLE.values()]
    assert None in {each["differs_from_kafka"] for each in listed}


def test_settings_as_toml_can_be_read_back(run: Run, tmp_path: Path) -> None:
    awkward = 'a "b" \\ ü'
    changed = ("--set", "num.partitions=7", "--set", f"log.dirs={awkward}", "--set", "log.flush=never")
    text = run("settings", "--format", "toml", *changed).output
    assert tomllib.loads(text) == {"num.partitions": 7, "log.dirs": awkward, "log.flush": "never"}
    # With all comments of values taken away it is every default.
    file = tmp_path / "all.toml"
    lines = [line.removeprefix("# ") if line.startswith('# "') else line for line in text.splitlines()]
    file.write_text("\n".join(line for line in lines if not line.endswith('= ""')))
    assert load(file=file).origins.keys() >= TABLE.keys() - {
        name for name, row in TABLE.items() if row.default in (None, (), "")
    }


@pytest.mark.parametrize(
    "value",
    [
        "a\x7fb",
        "a\x00\x1b[2J\tb\\",
        "\x80\x9b31m",
        "\u202eright to left",
        "\u2028\u2029\ufeff",
        "\U000e0001\U0001f600",
        '"',
    ],
    ids=ascii,
)
def test_unprintable_values_are_escaped_in_toml_as_toml_has_it(run: Run, tmp_path: Path, value: str) -> None:
    text = run("settings", "--format", "toml", "--changed", "--set", f"log.dirs={value}").output
    assert text.replace("\n", "").isprintable()
    assert tomllib.loads(text) == {"log.dirs": value}
    file = tmp_path / "again.toml"
    file.write_text(text, "utf-8")
    assert load(file=file).settings.log_dirs == value


def test_a_value_that_is_no_text_is_not_written_as_toml(run: Run) -> None:
    result = run("settings", "--format", "toml", "--set", "log.dirs=/\udcff")
    assert result.exit_code == 1
    assert "log.dirs has bytes that are not UTF-8, which TOML cannot hold" in result.output


def test_settings_tell_what_is_wrong(run: Run) -> None:
    result = run("settings", "sise")
    assert (result.exit_code, result.output) == (2, "coordinatord: No setting's name contains sise.\n")
    assert run("settings", "--set", "x=1").exit_code == 2
    assert "process.roles has no effect here." in run("settings", "--set", "process.roles=broker").output


def test_windows_gets_a_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert capsys.readouterr().err == (
        "coordinatord: this runs on Linux and macOS. On Windows, use WSL 2 or a container.\n"
    )
