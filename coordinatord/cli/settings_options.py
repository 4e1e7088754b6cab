"""Options for settings: a file, short names for the common settings, and --set for all settings."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from coordinatord.base.config import ConfigError, Entry, Loaded, load
from coordinatord.base.config.load import SHORTHANDS, assignment
from coordinatord.cli.options import BAD_SETTINGS, fail

Command = TypeVar("Command", bound=Callable[..., Any])

HELP = {
    "listen": ("HOST:PORT", "Address to listen on. :9092 is every interface, port 0 any free port."),
    "advertise": ("HOST:PORT", "The address that clients connect to, if it differs."),
    "data-dir": ("DIR", "The data directory."),
    "admin": ("HOST:PORT", "Serve /metrics, /healthz, /readyz and /rebalances over HTTP."),
    "workers": (
        "N",
        "Processes that share the work. Each is a node with its own port: the first port and the next N-1.",
    ),
    "as-version": ("RELEASE", "Offer clients the API versions of an older Kafka, such as 3.9."),
    "log-format": ("auto|console|json", "Format of log lines, for people or for programs."),
    "log-level": ("LEVEL", "debug, info, warning or error."),
}


def settings_options(command: Command) -> Command:
    """Give a command --config, --listen … and --set; it receives them as `config`, `short` values by name, and
    `assignments`.
    """
    options = [
        click.option(
            "-c",
            "--config",
            "config",
            metavar="FILE",
            type=click.Path(path_type=Path),
            envvar="COORDINATORD_CONFIG",
            help="A TOML file, or a broker's server.properties.",
        )
    ]
    for name, (metavar, text) in HELP.items():
        options.append(click.option(f"--{name}", metavar=metavar, help=f"{text} [{SHORTHANDS[name]}]"))
    options.append(
        click.option(
            "--set",
            "assignments",
            metavar="NAME=VALUE",
            multiple=True,
            help="Any setting, by Kafka's name. Can be repeated.",
        )
    )
    for option in reversed(options):
        command = option(command)
    return command


def load_or_exit(config: Path | None, assignments: tuple[str, ...], short: dict[str, str | None]) -> Loaded:
    """Return settings from all sources. Prints a sentence for each error in them, and exits with status 2."""
    try:
        flags = [
            Entry(SHORTHANDS[name.replace("_", "-")], value, f"--{name.replace('_', '-')}")
            for name, value in short.items()
            if value is not None
        ]
        flags += [assignment(text, "--set") for text in assignments]
        return load(file=config, environment=os.environ, flags=flags)
    except ConfigError as error:
        fail(*error.problems, status=BAD_SETTINGS)
