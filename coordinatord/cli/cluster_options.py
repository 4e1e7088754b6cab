"""Options of commands that send requests to a cluster: its address and the client's configuration; and the connection,
with sentences for errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from coordinatord.cli.install import how_to_install
from coordinatord.cli.options import BAD_SETTINGS, fail, sentence
from coordinatord.cli.terminal import echo

if TYPE_CHECKING:
    from coordinatord.monitoring.admin.connection import Cluster

Command = TypeVar("Command", bound=Callable[..., Any])

NEEDS = "This needs kafka-python and rich"
COMPLETION_S = 2.0
"""Maximum time in seconds that a shell's completion waits for a cluster."""

PLAIN = "@%+=:,./-_"
"""Characters besides letters and digits that have no special meaning for a shell (shlex.quote does not quote them)."""

COMMAND_CONFIG = click.option(
    "--command-config",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Properties of a Kafka client, as Kafka's tools take them: TLS, SASL.",
)
BOOTSTRAP = click.option(
    "--bootstrap", metavar="HOST:PORT", default="127.0.0.1:9092", show_default=True, help="Any node of the cluster."
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
EXECUTE = click.option("--execute", is_flag=True, help="Do it. Without this, only show what would be done.")


def of_a_cluster(command: Command) -> Command:
    """Give a command --bootstrap and --command-config, and an error message for packages that are not installed."""

    @wraps(command)
    def guarded(*arguments: Any, **given: Any) -> Any:
        try:
            return command(*arguments, **given)
        except ModuleNotFoundError as error:
            fail(f"{NEEDS}: {how_to_install('lag')} ({error}).")

    return BOOTSTRAP(COMMAND_CONFIG(cast(Command, guarded)))


def client_settings(file: Path | None) -> dict[str, str]:
    """Return kafka-python's settings for a file of Kafka's properties, as text. Prints the properties that are
    ignored.
    """
    if file is None:
        return {}
    from coordinatord.monitoring.admin.client_config import ClientConfigError, read_client_config

    try:
        settings, unused = read_client_config(file)
    except ClientConfigError as error:
        fail(sentence(error), status=BAD_SETTINGS)
    if unused:
        echo(f"--command-config {file}: not used here: {', '.join(unused)}", err=True)
    return settings


@contextmanager
def reached(bootstrap: str, command_config: Path | None, patience_s: float | None = None) -> Iterator[Cluster]:
    """Connect to the cluster. An error of the connection ends the command with a sentence."""
    from coordinatord.monitoring.admin.connection import CONNECT_S, AdminError, Unreachable, cluster
    from coordinatord.monitoring.admin.reset import ResetError
    from coordinatord.monitoring.offsets_log.source.options import broker_settings, check_address
    from coordinatord.monitoring.offsets_log.source.segments import SourceError

    settings = broker_settings(client_settings(command_config))
    try:
        check_address("--bootstrap", bootstrap)
        with cluster(bootstrap, settings, patience_s or CONNECT_S) as found:
            yield found
    except (SourceError, ResetError, Unreachable) as error:
        fail(sentence(error), status=BAD_SETTINGS)
    except AdminError as error:
        fail(sentence(error))


def is_pattern(name: str) -> bool:
    """Return whether a name of groups or topics is a pattern: only * and ? are special."""
    return "*" in name or "?" in name


def chosen(names: Sequence[str], known: Callable[[], list[str]], what: str) -> list[str]:
    """Return the names, and the known names that match their patterns (* and ?); all known names if none is given.
    `what` is the kind of object, for messages.
    """
    if names and not any(map(is_pattern, names)):
        return list(dict.fromkeys(names))
    there = known()
    if not names:
        return there
    found: dict[str, None] = {}
    for name in names:
        # Brackets are part of the name.
        literal = name.replace("[", "[[]")
        matches = [each for each in there if fnmatchcase(each, literal)] if is_pattern(name) else [name]
        if not matches:
            fail(f"there is no {what} like {name}.")
        found |= dict.fromkeys(matches)
    return list(found)


def completing(kind: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a shell's completion of names of groups or topics, from the cluster that the command line names. Names
    with characters that a shell or a terminal would interpret are left out: shells insert names unquoted.
    """

    def complete(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
        try:
            with _for_completion(context) as cluster:
                names = [each for each in _names(cluster, kind) if each.startswith(incomplete)]
        except (SystemExit, Exception):
            return []
        return [each for each in names if _is_plain(each)]

    return complete


def _is_plain(name: str) -> bool:
    return not name.startswith("-") and bool(name) and all(each.isalnum() or each in PLAIN for each in name)


def _for_completion(context: click.Context) -> Any:
    given = context.params
    return reached(given.get("bootstrap") or "127.0.0.1:9092", given.get("command_config"), COMPLETION_S)


def _names(cluster: Cluster, kind: str) -> list[str]:
    from coordinatord.monitoring.admin.groups import list_groups
    from coordinatord.monitoring.admin.topics import find

    if kind == "groups":
        return [each.group_id for each in list_groups(cluster)]
    return [each.name for each in find(cluster, None)[0]]
