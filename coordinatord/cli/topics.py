"""`coordinatord topics`: list, describe, create and delete topics of any Kafka cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coordinatord.cli import LazyGroup
from coordinatord.cli.cluster_options import AS_JSON, EXECUTE, chosen, completing, of_a_cluster, reached
from coordinatord.cli.group_commands import DRY_RUN
from coordinatord.cli.options import BAD_SETTINGS, fail, utf8
from coordinatord.cli.tables import number, show
from coordinatord.cli.terminal import echo, echo_text

if TYPE_CHECKING:
    from coordinatord.monitoring.admin.connection import Cluster
    from coordinatord.monitoring.admin.topics import Topic

COMMANDS = {
    "list": ("coordinatord.cli.topics", "list_", "List the topics of a cluster."),
    "describe": ("coordinatord.cli.topics", "describe", "Show partitions, replicas, offsets and configs of TOPICS."),
    "create": ("coordinatord.cli.topics", "create", "Create a topic."),
    "delete": ("coordinatord.cli.topics", "delete", "Delete TOPICS with their records."),
}


@click.group(cls=LazyGroup, known=COMMANDS)
def topics() -> None:
    """List, describe, create and delete topics of any Kafka cluster."""


def _described(cluster: Cluster, names: tuple[str, ...]) -> list[Topic]:
    """Return topics with details. If a named topic does not exist, the command ends with an error."""
    from coordinatord.monitoring.admin.topics import add_details, find

    wanted = chosen(names, lambda: [each.name for each in find(cluster, None)[0]], "topic")
    found, missing = find(cluster, wanted)
    if missing:
        fail(*(f"there is no topic {name}." for name in missing))
    add_details(cluster, found)
    return found


def _records(topic: Topic) -> int | None:
    """Return the difference between end and start offsets: an upper bound of the number of records, since compaction
    and transactions leave gaps.
    """
    if any(each.start is None or each.end is None for each in topic.partitions):
        return None
    return sum((each.end or 0) - (each.start or 0) for each in topic.partitions)


@click.command(name="list")
@of_a_cluster
@click.option("--internal", is_flag=True, help="Also the cluster's own topics, like __consumer_offsets.")
@AS_JSON
def list_(bootstrap: str, command_config: Path | None, internal: bool, as_json: bool) -> None:
    """List the topics of a cluster."""
    from coordinatord.monitoring.admin.topics import find

    with reached(bootstrap, command_config) as cluster:
        found = [each for each in find(cluster, None)[0] if internal or not each.is_internal]
    if as_json:
        echo_text(json.dumps([_as_json(each) for each in found], indent=1))
        return
    if not found:
        echo("The cluster has no topics.", err=True)
    show(
        ("TOPIC", ">PARTITIONS", ">REPLICATION", "TROUBLE"),
        ((each.name, str(len(each.partitions)), str(each.replication), each.trouble or "-") for each in found),
    )


def _as_json(topic: Topic) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "internal": topic.is_internal,
        "configs": topic.configs,
        "partitions": [
            {
                "partition": each.number,
                "leader": each.leader,
                "replicas": each.replicas,
                "in_sync": each.in_sync,
                "start_offset": each.start,
                "end_offset": each.end,
            }
            for each in topic.partitions
        ],
    }


@click.command()
@click.argument(
    "names", metavar="TOPICS...", nargs=-1, required=True, callback=utf8, shell_complete=completing("topics")
)
@of_a_cluster
@AS_JSON
def describe(names: tuple[str, ...], bootstrap: str, command_config: Path | None, as_json: bool) -> None:
    """Show partitions, replicas, offsets and configs of TOPICS.

    Patterns (* and ?) are allowed.
    """
    with reached(bootstrap, command_config) as cluster:
        found = _described(cluster, names)
    if as_json:
        echo_text(json.dumps([_as_json(each) for each in found], indent=1))
        return
    for position, topic in enumerate(found):
        echo(*[""] * bool(position), f"Topic {topic.name} ({topic.topic_id or 'no id'})")
        for name, value in sorted((topic.configs or {}).items()):
            echo(f"  {name}={'(hidden)' if value is None else value}")
        show(
            (">PARTITION", ">LEADER", "REPLICAS", "IN SYNC", ">START", ">END", ">RECORDS"),
            (
                (
                    str(each.number),
                    "none" if each.leader < 0 else str(each.leader),
                    ",".join(map(str, each.replicas)),
                    ",".join(map(str, each.in_sync)),
                    number(each.start),
                    number(each.end),
                    number(None if each.end is None or each.start is None else each.end - each.start),
                )
                for each in topic.partitions
            ),
        )


@click.command()
@click.argument("name", metavar="TOPIC", callback=utf8)
@of_a_cluster
@click.option("--partitions", default=-1, type=click.IntRange(-1, 1_000_000), help="[the cluster's num.partitions]")
@click.option("--replication-factor", default=-1, type=click.IntRange(-1, 32_767), help="[the cluster's default]")
@click.option("--config", "configs", metavar="NAME=VALUE", multiple=True, help="A config. Can be repeated.")
@click.option("--if-not-exists", is_flag=True, help="Succeed if the topic is there already.")
@click.option("--dry-run", is_flag=True, help="Let the cluster check it and create nothing.")
def create(
    name: str,
    bootstrap: str,
    command_config: Path | None,
    partitions: int,
    replication_factor: int,
    configs: tuple[str, ...],
    if_not_exists: bool,
    dry_run: bool,
) -> None:
    """Create a topic."""
    from coordinatord.monitoring.admin.topics import create as ask
    from coordinatord.monitoring.admin.topics import find

    if any("=" not in each for each in configs) or 0 in (partitions, replication_factor):
        fail("--config wants NAME=VALUE, and there is at least one partition and replica.", status=BAD_SETTINGS)
    settings = dict(each.split("=", 1) for each in configs)
    with reached(bootstrap, command_config) as cluster:
        if if_not_exists and find(cluster, [name])[0]:
            echo(f"Topic {name} is there already.")
            return
        ask(cluster, name, partitions, replication_factor, settings, only_check=dry_run)
    echo(f"Topic {name} " + ("could be created. Nothing was changed." if dry_run else "was created."))


@click.command()
@click.argument(
    "names", metavar="TOPICS...", nargs=-1, required=True, callback=utf8, shell_complete=completing("topics")
)
@of_a_cluster
@EXECUTE
def delete(names: tuple[str, ...], bootstrap: str, command_config: Path | None, execute: bool) -> None:
    """Delete TOPICS with their records.

    Without --execute, shows what would be lost.
    """
    from coordinatord.monitoring.admin.topics import delete as ask

    with reached(bootstrap, command_config) as cluster:
        found = _described(cluster, names)
        own = [each.name for each in found if each.is_internal]
        if own:
            fail(*(f"{each} is the cluster's own: it is not deleted." for each in own))
        refused = ask(cluster, [each.name for each in found]) if execute else {}
    show(
        ("TOPIC", ">PARTITIONS", ">RECORDS", "RESULT"),
        (
            (
                each.name,
                str(len(each.partitions)),
                number(_records(each)),
                (f"not deleted: {refused[each.name]}" if refused.get(each.name) else "deleted")
                if execute
                else "would be deleted",
            )
            for each in found
        ),
    )
    if not execute:
        echo(DRY_RUN, err=True)
    if any(refused.values()):
        raise SystemExit(1)
