"""The options of commands that ask a cluster: where it is and how to get in; and the way to it, with sentences for what
goes wrong.
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
"""A shell's completion waits no longer for a cluster."""

PLAIN = "@%+=:,./-_"
"""Signs that are nothing special to a shell (shlex.quote leaves them as they are), beside letters and digits."""

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
    """Give a command --bootstrap and --command-config, and a sentence for packages that are not installed."""

    @wraps(command)
    def guarded(*arguments: Any, **given: Any) -> Any:
        try:
            return command(*arguments, **given)
        except ModuleNotFoundError as error:
            fail(f"{NEEDS}: {how_to_install('lag')} ({error}).")

    return BOOTSTRAP(COMMAND_CONFIG(cast(Command, guarded)))


def client_settings(file: Path | None) -> dict[str, str]:
    """kafka-python's settings in a file of Kafka's properties, as text. Tells what of it means nothing here."""
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
    """The cluster; whatever goes wrong there ends the command with a sentence."""
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


KAFKAS_TOOLS = {"share": "kafka-share-groups.sh", "streams": "kafka-streams-groups.sh"}
"""Of Kafka: what shows and changes the groups of a type that these commands do not support."""


def elsewhere(group: str, kind: str) -> str:
    """The sentence for a group of a type that these commands do not support."""
    tool = KAFKAS_TOOLS.get(kind)
    then = f": Kafka's {tool} shows it (--describe --group)" if tool else ""
    return f"group {group} is a {kind} group, which is not supported here{then}."


def is_pattern(name: str) -> bool:
    """Whether a name of groups or topics is a pattern: only * and ? are special."""
    return "*" in name or "?" in name


def chosen(names: Sequence[str], known: Callable[[], list[str]], what: str) -> list[str]:
    """Names, and those that their patterns (* and ?) match; all if none is given. `what` names the kind of thing."""
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
    """A shell's completion of names of groups or topics, from the cluster that the line names. Names of which a shell
    or a terminal would obey a part are not offered: shells put them into the line unquoted.
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
