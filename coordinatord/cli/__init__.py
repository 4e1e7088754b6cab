"""The commands of `coordinatord`.

Each command has its own module, which is imported only when the command runs, so that `serve` does not load the
dependencies of the other commands. To add a command, add a module with a click command, and a line in COMMANDS.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any

import click

COMMANDS = {
    "serve": ("coordinatord.cli.serve", "serve", "Run the coordinator until it is stopped."),
    "log": ("coordinatord.cli.log", "log", "Show, check and repair the files of a log."),
    "groups": ("coordinatord.cli.groups", "groups", "Groups of any Kafka cluster: members and offsets."),
    "topics": ("coordinatord.cli.topics", "topics", "List, describe, create and delete topics of any Kafka cluster."),
    "import": ("coordinatord.cli.exchange", "import_", "Import a Kafka broker's data directory."),
    "export": (
        "coordinatord.cli.exchange",
        "export",
        "Export everything into the data directory of a new Kafka broker.",
    ),
    "store": ("coordinatord.cli.store", "store", "Copy the log on PostgreSQL, or load one."),
    "cluster": ("coordinatord.cli.store", "cluster", "Nodes that share a log on PostgreSQL: leaders and standbys."),
    "lag": ("coordinatord.cli.lag", "lag", "Show which groups of any Kafka cluster are behind."),
    "exporter": (
        "coordinatord.cli.exporter",
        "exporter",
        "Serve metrics of any Kafka cluster's groups, and a live page.",
    ),
    "pipeline": (
        "coordinatord.cli.pipeline",
        "pipeline",
        "Tables and reports from the offsets log of any Kafka cluster.",
    ),
    "simulate": ("coordinatord.cli.simulate", "simulate", "Predict what timeouts cost a deployment."),
    "conform": ("coordinatord.cli.conform", "conform", "Compare a broker's responses with Apache Kafka's."),
    "settings": (
        "coordinatord.cli.settings",
        "settings",
        "List settings with their values, defaults, origins and meanings.",
    ),
    "completion": ("coordinatord.cli.completion", "completion", "Print the completion of a shell."),
}
"""Command name -> (module, attribute, description in the list of commands)."""


class LazyGroup(click.Group):
    """A click group that imports only the command that is run. `known` is a table in the form of COMMANDS."""

    def __init__(self, *arguments: Any, known: Mapping[str, tuple[str, str, str]], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._known = known

    def list_commands(self, _context: click.Context) -> list[str]:
        return list(self._known)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in self._known:
            return None
        module, attribute, _line = self._known[name]
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self._known:
            import difflib

            near = difflib.get_close_matches(name, self._known, n=1)
            context.fail(f"No such command {name!r}." + (f" Did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(context, args)

    def invoke(self, context: click.Context) -> Any:
        """Run the command. An unhandled OSError with a path ends it with one sentence instead of a traceback."""
        try:
            return super().invoke(context)
        except click.NoSuchOption as error:
            raise _with_dashes(error, context) from None
        except OSError as error:
            if error.filename is None:
                raise
            from coordinatord.cli.options import fail

            name = error.filename.decode("utf-8", "replace") if isinstance(error.filename, bytes) else error.filename
            fail(f"{name}: {error.strerror or error}.")

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table, without importing the commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_module, _attribute, line) in self._known.items()])


def _with_dashes(error: click.NoSuchOption, context: click.Context) -> click.NoSuchOption:
    """Add to the error of a subcommand that takes names how to write a name that begins with a dash."""
    command = error.ctx
    if command is None or command.parent is not context or error.possibilities:
        return error
    names = [each.make_metavar(command) for each in command.command.params if isinstance(each, click.Argument)]
    if not names:
        return error
    line = " ".join([command.command_path, "[OPTIONS]", "--", *names])
    advice = f"A name that begins with a dash comes after --, and options before it: {line}"
    return click.NoSuchOption(error.option_name, f"{error.message} {advice}", ctx=command)


def _show_version(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from coordinatord.base.observe.compiled import is_compiled

    try:
        number = version("coordinatord")
    except PackageNotFoundError:
        number = "(not installed)"
    build = ", compiled" if is_compiled() else ""
    from coordinatord.cli.terminal import echo

    echo(f"coordinatord {number}{build}, Python {platform.python_version()}")
    context.exit()


@click.group(
    cls=LazyGroup,
    known=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`coordinatord COMMAND --help` describes a command.",
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Show the version."
)
def cli() -> None:
    """A Kafka group coordinator: real Kafka consumers join groups, poll and commit on it, as they would on Kafka."""


def main(*args: Any) -> None:
    """Run the command line: the entry point of `coordinatord` and `python -m coordinatord`."""
    from coordinatord.cli.terminal import echo, escape_errors

    escape_errors()
    if sys.platform == "win32":
        echo("coordinatord: this runs on Linux and macOS. On Windows, use WSL 2 or a container.", err=True)
        raise SystemExit(1)
    try:
        cli(*args, prog_name="coordinatord")
    except ImportError as error:
        from coordinatord.cli.options import fail
        from kafka_wire.fresh import NotGenerated

        if not isinstance(error, NotGenerated):
            raise
        fail(str(error))
