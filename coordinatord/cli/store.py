"""`coordinatord store`: the log on PostgreSQL, copied and loaded; `coordinatord cluster`: the nodes that use it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from coordinatord.base.config.storage import MAX_LEADERS
from coordinatord.cli.options import fail
from coordinatord.cli.terminal import echo, echo_text

T = TypeVar("T")

DIRECTORY = click.Path(path_type=Path)


@click.group()
def store() -> None:
    """Copy the log on PostgreSQL, or load one.

    URL is the setting `storage` (postgresql://…). A password comes from PGPASSWORD or a file (?passfile=PATH).
    """


@click.group()
def cluster() -> None:
    """Nodes that share a log on PostgreSQL: leaders and standbys.

    URL is the setting `storage` (postgresql://…). A password comes from PGPASSWORD or a file (?passfile=PATH).
    """


@store.command()
@click.argument("url")
@click.argument("directory", type=DIRECTORY)
@click.option("--node-id", type=click.IntRange(min=0), default=0, help="The setting node.id. [default: 0]")
def copy(url: str, directory: Path, node_id: int) -> None:
    """Make a data directory of the log, beside a running node or without one.

    DIRECTORY must be empty or not exist. `coordinatord log verify`, `export`, `lag`, `pipeline` and `serve --data-dir`
    read it.
    """
    from coordinatord.server.postgresql.transfer import copy as run

    moved = _errors_as_sentence(lambda: run(url, directory, node_id=node_id))
    echo(f"{directory}: {moved.partitions} partitions, {moved.bytes} bytes")


@store.command()
@click.argument("directory", type=DIRECTORY)
@click.argument("url")
@click.option(
    "--leaders",
    type=click.IntRange(min=1, max=MAX_LEADERS),
    default=1,
    help="Number of nodes that will lead a share each: the setting storage.leaders. [default: 1]",
)
def load(directory: Path, url: str, leaders: int) -> None:
    """Put a data directory into a database that has no log yet. No daemon may run on either."""
    from coordinatord.server.postgresql.transfer import load as run

    moved = _errors_as_sentence(lambda: run(directory, url, leaders=leaders))
    more = f" --set storage.leaders={leaders}" if leaders > 1 else ""
    echo(f"{moved.partitions} partitions, {moved.bytes} bytes: coordinatord serve --set storage={url}{more}")


@cluster.command()
@click.argument("url")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def status(url: str, as_json: bool) -> None:
    """Show the leaders, their partitions and the standbys.

    Also the latest moves of the lead, the log's size, how far standbys are behind, and what could be lost. The nodes
    need not run: the database is asked.
    """
    from coordinatord.server.postgresql.status import read_status, status_lines

    found = _errors_as_sentence(lambda: read_status(url))
    if as_json:
        echo(json.dumps(found.as_json()))
    else:
        for line in status_lines(found):
            echo(line)


@store.command()
def ddl() -> None:
    """Print the SQL statements that create the tables, for review."""
    from coordinatord.server.postgresql.schema import MIGRATIONS

    echo_text("\n".join(each.strip() for each in MIGRATIONS))


def _errors_as_sentence(work: Callable[[], T]) -> T:
    """Run `work`; an error becomes a sentence."""
    from coordinatord.broker.log.errors import LogError

    try:
        return work()
    except (LogError, OSError) as error:
        fail(str(error))
