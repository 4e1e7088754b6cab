"""`coordinatord import` and `coordinatord export`: data directories to and from a Kafka broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coordinatord.cli.options import fail
from coordinatord.cli.settings_options import load_or_exit
from coordinatord.cli.terminal import echo

if TYPE_CHECKING:
    from coordinatord.server.exchange.files import Report

DIRECTORY = click.Path(path_type=Path)

_data_dir = click.option("--data-dir", metavar="DIR", help="The daemon's data directory. [log.dirs, default ./data]")
_config = click.option(
    "-c", "--config", metavar="FILE", type=DIRECTORY, envvar="COORDINATORD_CONFIG", help="The daemon's settings file."
)
_set = click.option("--set", "assignments", metavar="NAME=VALUE", multiple=True, help="One setting. Can be repeated.")
_dry_run = click.option("--dry-run", is_flag=True, help="Read and check everything, write nothing.")


@click.command(
    name="import",
    epilog="""Stop the broker first; a killed one works too. Its directories are only read. deploy/MIGRATION.md has all
    steps, in both directions.""",
)
@click.argument("sources", metavar="LOG_DIR...", nargs=-1, required=True, type=DIRECTORY)
@_data_dir
@_config
@_set
@_dry_run
def import_(
    sources: tuple[Path, ...], data_dir: str | None, config: Path | None, assignments: tuple[str, ...], dry_run: bool
) -> None:
    """Import a Kafka broker's data directory.

    LOG_DIR is each directory of the broker's log.dirs, and metadata.log.dir if it differs: all of one broker. The
    import takes over topics with their records, groups, offsets, transactions and producer ids. DIR must be empty or
    not exist yet. Then `coordinatord serve --data-dir DIR` continues where the broker stopped.
    """
    from coordinatord.server.exchange.importing import import_ as run

    settings = load_or_exit(config, assignments, {"data-dir": data_dir}).settings
    target = settings.data_dir
    _show(lambda: run(sources, target, settings, dry_run=dry_run))
    if dry_run:
        echo("Nothing was written.")
    else:
        echo(f"{target} is ready: coordinatord serve --data-dir {target}")


@click.command(
    epilog="""Kafka's own `kafka-storage.sh format` prepares a broker's directory. The broker must never have been
    started: a cluster accepts topics with their ids only at its first start. deploy/MIGRATION.md has all steps, in both
    directions."""
)
@click.argument("target", metavar="LOG_DIR", type=DIRECTORY)
@_data_dir
@_config
@_set
@click.option(
    "--controller",
    "controllers",
    metavar="DIR",
    multiple=True,
    type=DIRECTORY,
    help="A controller's formatted directory, if LOG_DIR's broker is not a controller. Give each of them.",
)
@_dry_run
def export(
    target: Path,
    data_dir: str | None,
    config: Path | None,
    assignments: tuple[str, ...],
    controllers: tuple[Path, ...],
    dry_run: bool,
) -> None:
    """Export everything into the data directory of a new Kafka broker.

    LOG_DIR is the broker's log.dirs, formatted and not yet started. Topics keep their ids and records; groups, offsets,
    transactions and producer ids are exported with them. Stop the daemon first; its DIR is only read.
    """
    from coordinatord.server.exchange.exporting import export as run

    settings = load_or_exit(config, assignments, {"data-dir": data_dir}).settings
    _show(lambda: run(settings.data_dir, target, controllers, dry_run=dry_run))
    if dry_run:
        echo("Nothing was written.")
    else:
        echo(f"{target} is ready: start Kafka on it. Its first start reads and checks every batch.")


def _show(work: Callable[[], Report]) -> None:
    """Run the job and print its table, or the reason of its failure."""
    from coordinatord.broker.log.errors import LogError
    from coordinatord.server.exchange.files import ExchangeError

    try:
        report = work()
    except (ExchangeError, LogError) as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename or 'a file'}: {error.strerror}. Nothing was left behind.")
    width = max([len(row.topic) for row in report.rows] + [len("topic")])
    echo(f"{'topic':<{width}}  partitions       records         bytes")
    for row in report.rows:
        echo(f"{row.topic:<{width}}  {row.partitions:>10}  {row.records:>12}  {row.bytes:>12}")
    for remark in report.remarks:
        echo(remark)
