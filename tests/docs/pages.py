"""Pages of docs/ that are made from the code: APIs, settings, commands."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable, Iterator

import click

from coordinatord.base.config import TABLE
from coordinatord.base.config.setting_types import written
from coordinatord.base.config.table import HEADINGS
from coordinatord.cli import cli
from coordinatord.transport.net.api_versions import OFFERED_FROM
from kafka_wire import registry
from kafka_wire.api_key import ApiKey
from tests.structure.sources import ROOT, functions, modules

MADE = "<!-- Made from the code: pytest tests/docs --rewrite -->"
DIFFERENCES = ROOT / "tests" / "reference" / "DIFFERENCES.md"
HELP_COLUMNS = 100
NO_HANDLERS = ("coordinatord.server.postgresql.not_leader_responses",)  # serves no API, but names the leader


def handlers() -> dict[int, tuple[str, str]]:
    """API key -> the path of the module and the name of the function that handles its requests.

    Read from the dictionaries that the methods called `handlers` return.
    """
    found = {int(ApiKey.API_VERSIONS): ("coordinatord/transport/net/api_versions.py", "ApiVersions.answer")}
    for module, path in modules().items():
        if module in NO_HANDLERS:
            continue
        for name, function in functions(path):
            if name.endswith(".handlers"):
                for node in ast.walk(function):
                    if isinstance(node, ast.Dict):
                        for key, value in zip(node.keys, node.values, strict=True):
                            if isinstance(key, ast.Attribute) and isinstance(value, ast.Attribute):
                                where = f"{name.rpartition('.')[0]}.{value.attr}"
                                found[int(ApiKey[key.attr])] = str(path.relative_to(ROOT)), where
    return found


def version_notes(api_key: int) -> tuple[str, str]:
    """The subject of an API and the notes on its versions, from the docstring of its declaration."""
    request, _ = registry.messages(api_key)
    title, _, notes = (importlib.import_module(request.__module__).__doc__ or "").partition("\n\n")
    subject = " ".join(title.split()).partition(": ")[2]
    noted = [part for part in notes.split("\n\n") if re.match(r"v\d", part)]
    return subject[:1].upper() + subject[1:], " ".join(" ".join(noted).split()).rstrip(".")


def differences(name: str) -> list[str]:
    """The titles of deliberate differences from Kafka that name an API."""
    titles = re.findall(r"^- \*\*(.+?)\*\*", DIFFERENCES.read_text(), re.M)
    return [title.rstrip(".") for title in titles if re.search(rf"\b{name}\b", title)]


def apis() -> str:
    """docs/apis.md."""
    lines = [
        "# APIs", "", MADE, "",
        "Every API that `coordinatord` serves, with the function that handles its requests. Produce is offered from",
        "version 0, as in Kafka, although versions 0 to 2 are not served. The last column names deliberate differences",
        "from Apache Kafka, which [DIFFERENCES.md](../tests/reference/DIFFERENCES.md) explains.", "",
        "| key | API | versions | handler | notes | differences |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for key, (path, function) in sorted(handlers().items()):
        name, versions = registry.API_NAMES[key], registry.versions_of(key)
        subject, notes = version_notes(key)
        first = OFFERED_FROM.get(key, versions.first)
        cells = [
            str(key), name, f"{first}–{versions.last}" if versions.last > first else str(first),
            f"[{function}](../{path})", f"{subject}{' ' if subject and notes else ''}{notes}".replace("|", "\\|"),
            " · ".join(differences(name)),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def settings() -> str:
    """docs/settings.md."""
    lines = [
        "# Settings", "", MADE, "",
        "Names, meanings and defaults are Kafka's where Kafka has the setting; *differs* says where not. Sources, the",
        "later before the earlier: a file (`--config`), environment variables (`COORDINATORD_GROUP_MAX_SIZE` for",
        "`group.max.size`), flags (`--set group.max.size=100`). `coordinatord settings` prints the values in effect.",
    ]  # fmt: skip
    for row in TABLE.values():
        if row.name in HEADINGS:
            lines += ["", f"## {HEADINGS[row.name]}"]
        default = written(row.default)
        lines += ["", f"### `{row.name}`", "", " ".join(row.doc.split()), ""]
        lines.append(f"- kind: {row.kind}")
        lines.append(f"- default: {f'`{default}`' if default else 'unset'}")
        if row.aliases:
            lines.append(f"- also: {', '.join(f'`{each}`' for each in row.aliases)}")
        if row.ours:
            lines.append(f"- differs: {row.ours}")
    return "\n".join(lines) + "\n"


def commands() -> str:
    """docs/commands.md."""
    lines = ["# Commands", "", MADE]
    for depth, path, context in _walk(cli, "coordinatord", None):
        text = context.command.get_help(context)
        lines += ["", f"{'#' * (depth + 2)} `{path}`", "", "```text", text.rstrip(), "```"]
    return "\n".join(lines) + "\n"


def _walk(command: click.Command, path: str, parent: click.Context | None) -> Iterator[tuple[int, str, click.Context]]:
    # A command keeps the help option of its first context: settings of the command line, such as -h, belong to it.
    settings = {**command.context_settings, "terminal_width": HELP_COLUMNS, "max_content_width": HELP_COLUMNS}
    context = click.Context(command, info_name=path.rpartition(" ")[2], parent=parent, **settings)
    yield path.count(" "), path, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from _walk(below, f"{path} {name}", context)


PAGES: dict[str, Callable[[], str]] = {"apis.md": apis, "settings.md": settings, "commands.md": commands}
