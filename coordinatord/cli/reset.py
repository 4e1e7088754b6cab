"""`coordinatord groups reset-offsets`, `export` and `import`: committed offsets are moved, exported, and restored."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coordinatord.cli.cluster_options import AS_JSON, EXECUTE, chosen, client_settings, of_a_cluster, reached
from coordinatord.cli.group_commands import DRY_RUN, GROUPS, absent
from coordinatord.cli.options import BAD_SETTINGS, fail, utf8
from coordinatord.cli.tables import number, show
from coordinatord.cli.terminal import echo, echo_data, echo_text
from coordinatord.cli.times import now_ms, utc

if TYPE_CHECKING:
    from coordinatord.monitoring.admin.connection import Cluster
    from coordinatord.monitoring.admin.groups import Group
    from coordinatord.monitoring.admin.reset import Move

FORMS = (
    click.option("--to-earliest", is_flag=True, help="To the beginning of each partition."),
    click.option("--to-latest", is_flag=True, help="To the end of each partition."),
    click.option("--to-current", is_flag=True, help="To the committed offset; to the end without one."),
    click.option("--to-offset", metavar="N", type=int, help="To this offset."),
    click.option("--shift-by", metavar="N", type=int, help="N records on; a negative N goes back."),
    click.option("--by-duration", metavar="PnDTnHnMnS", help="To the records of a duration ago, like PT15M."),
    click.option("--to-datetime", metavar="YYYY-MM-DDThh:mm:ss.sss", help="To the records of a time; UTC."),
    click.option(
        "--from-file",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        help="To the offsets in a CSV file: topic,partition,offset, or with the group as first column.",
    ),
    click.option(
        "--to-moment", metavar="TIME", help="To the offsets that were committed at 03:12, 2026-11-21T03:12 …; UTC."
    ),
)
NAMES = (
    "to_earliest", "to_latest", "to_current", "to_offset", "shift_by", "by_duration", "to_datetime", "from_file",
    "to_moment",
)  # fmt: skip


def _with_forms(command: Any) -> Any:
    for option in reversed(FORMS):
        command = option(command)
    return command


@click.command(name="reset-offsets")
@GROUPS
@of_a_cluster
@click.option("--all-groups", is_flag=True, help="All groups of the cluster.")
@click.option("--all-topics", is_flag=True, help="All partitions for which the group has committed an offset.")
@click.option("--topic", "topics", multiple=True, callback=utf8, help="A topic, or partitions of it: orders:0,1.")
@_with_forms
@click.option(
    "--source", "sources", multiple=True, metavar="DIR|postgresql://…",
    help="With --to-moment: read __consumer_offsets here instead of from the cluster.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only show what would be done, as without --execute.")
@EXECUTE
@click.option("--export", is_flag=True, help="Print the new offsets as CSV for --from-file.")
@AS_JSON
def reset_offsets(groups: tuple[str, ...], bootstrap: str, command_config: Path | None, **given: Any) -> None:
    """Move the committed offsets of GROUPS.

    The forms are those of Kafka's kafka-consumer-groups, with the same outcome; --to-moment reads the history of the
    offsets log. A group with members is refused: each commit of theirs would undo it. Of a share group the start
    offsets are moved: records from there on are delivered anew.
    """
    _check(groups, given)
    with reached(bootstrap, command_config) as cluster:
        from coordinatord.monitoring.admin.groups import list_groups

        every = bool(given["all_groups"])
        names = chosen(groups, lambda: [each.group_id for each in list_groups(cluster)], "group")
        given["broker"] = client_settings(command_config) if given["to_moment"] else {}
        given["at_ms"] = _moment(given, now_ms())
        plans, shared, refused = _plans(cluster, names, given, is_only_group=len(names) == 1 and not every)
        if given["execute"]:
            _commit(cluster, plans, shared)
    _print_plans(plans, given)
    if refused:
        fail(*refused)


def _check(groups: Sequence[str], given: Mapping[str, Any]) -> None:
    """Check the options for contradictions, before sending any request."""
    forms = [name for name in NAMES if given[name] is not None and given[name] is not False]
    options = ["--" + name.replace("_", "-") for name in NAMES]
    problem = ""
    if bool(groups) == given["all_groups"]:
        problem = "name groups, or give --all-groups"
    elif len(forms) != 1:
        problem = f"say where to, with one of {', '.join(options)}"
    elif given["dry_run"] and given["execute"]:
        problem = "--dry-run and --execute contradict each other"
    elif given["topics"] and given["all_topics"]:
        problem = "give --topic or --all-topics, not both"
    elif forms == ["from_file"] and (given["topics"] or given["all_topics"]):
        problem = "--from-file says itself which partitions: leave --topic and --all-topics out"
    elif forms[0] not in ("from_file", "to_moment") and not given["topics"] and not given["all_topics"]:
        problem = "say which partitions: --topic, or --all-topics"
    elif given["sources"] and not given["to_moment"]:
        problem = "--source is for --to-moment"
    if problem:
        fail(f"{problem}.", status=BAD_SETTINGS)


Plans = dict[str, "dict[tuple[str, int], Move]"]


def _plans(
    cluster: Cluster, names: Sequence[str], given: Mapping[str, Any], *, is_only_group: bool
) -> tuple[Plans, set[str], list[str]]:
    """Return the plan of each group, the share groups among them, and why each other group has no plan."""
    from coordinatord.monitoring.admin.groups import describe

    found = describe(cluster, names)
    plans: Plans = {}
    refused: list[str] = []
    for name in names:
        group = found.get(name)
        if group is not None and (group.members or group.is_active):
            refused.append(busy(group))
            continue
        if group is None and not given["topics"] and not given["from_file"] and not given["to_moment"]:
            fail(absent(cluster, [name])[name])
        if group is not None and group.is_shared and given["to_moment"]:
            refused.append(f"group {name} is a share group: the offsets log has no history of its offsets.")
            continue
        plans[name] = _plan(cluster, name, group, given, is_only_group=is_only_group)
    return plans, {name for name in plans if name in found and found[name].is_shared}, refused


def busy(group: Group) -> str:
    """Return the reason why a group's offsets are not changed."""
    from coordinatord.monitoring.admin.groups import member_names

    has = f"it has {member_names(group)}" if group.members else "members are about to join it"
    return f"group {group.group_id} is {group.state} and not reset: {has}. Stop them first."


def _plan(
    cluster: Cluster, group: str, described: Group | None, given: Mapping[str, Any], *, is_only_group: bool
) -> Any:
    from coordinatord.monitoring.admin import offsets, reset
    from coordinatord.monitoring.admin.group_offsets import offsets_of

    known = {} if described is None else offsets_of(cluster, described)
    before = {each: offset for each, offset in known.items() if offset is not None}
    wanted: dict[tuple[str, int], int] | None = None
    if given["from_file"]:
        wanted = reset.plan_of(_text(given["from_file"]), group, is_only_group=is_only_group)
    elif given["to_moment"]:
        wanted = _then(cluster, group, given)
    partitions = set(wanted) if wanted is not None else set(_scope(cluster, given, known))
    if wanted is not None and given["topics"]:
        partitions &= set(_scope(cluster, given, known))
        wanted = {each: wanted[each] for each in partitions}
    starts, ends = offsets.bounds(cluster, partitions)
    if wanted is None and given["to_offset"] is not None:
        wanted = dict.fromkeys(partitions, given["to_offset"])
    if wanted is None and given["shift_by"] is not None:
        wanted = reset.shifted(partitions, given["shift_by"], before)
    if wanted is not None:
        return reset.clamped(wanted, starts, ends, before)
    if given["to_current"]:
        return reset.current(partitions, before, ends)
    if given["by_duration"] or given["to_datetime"]:
        found = offsets.at_time(cluster, dict.fromkeys(partitions, max(0, given["at_ms"])))
        return reset.at_time({each: offset for each, (offset, _) in found.items()}, ends, before)
    bound = starts if given["to_earliest"] else ends
    return {each: reset.Move(before.get(each), bound[each]) for each in partitions}


def _moment(given: Mapping[str, Any], now_ms: int) -> int | None:
    """Return the time that a form names, in epoch milliseconds; None for the other forms. Raises ResetError,
    SourceError.
    """
    from coordinatord.monitoring.admin import reset
    from coordinatord.monitoring.offsets_log.source.timestamps import parse_time

    if given["by_duration"]:
        return now_ms - reset.duration_ms(given["by_duration"])
    if given["to_datetime"]:
        return reset.datetime_ms(given["to_datetime"])
    return parse_time(given["to_moment"], now_ms) if given["to_moment"] else None


def _scope(cluster: Cluster, given: Mapping[str, Any], known: Collection[tuple[str, int]]) -> list[tuple[str, int]]:
    from coordinatord.monitoring.admin.connection import AdminError
    from coordinatord.monitoring.admin.offsets import partitions_of
    from coordinatord.monitoring.admin.reset import partitions_named

    if not given["topics"]:
        return list(known)
    named, topics = partitions_named(given["topics"])
    there, missing = partitions_of(cluster, topics)
    if missing:
        raise AdminError(f"there is no topic {missing[0]}")
    return [*named, *there]


def _then(cluster: Cluster, group: str, given: Mapping[str, Any]) -> dict[tuple[str, int], int]:
    from coordinatord.monitoring.admin.committed_at import committed_at
    from coordinatord.monitoring.offsets_log.source.segments import OFFSETS_TOPIC

    partitions = len(cluster.metadata([OFFSETS_TOPIC]).topics[0].partitions) if not given["sources"] else 0
    return committed_at(
        group,
        given["at_ms"],
        bootstrap=cluster.bootstrap,
        broker=given["broker"],
        sources=given["sources"],
        partitions=partitions,
    )


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}.", status=BAD_SETTINGS)


def _commit(cluster: Cluster, plans: Plans, shared: Collection[str]) -> None:
    from coordinatord.monitoring.admin.group_offsets import move

    for group, moves in plans.items():
        if moves:
            move(cluster, group, {each: it.after for each, it in moves.items()}, is_shared=group in shared)


def _print_plans(plans: Plans, given: Mapping[str, Any]) -> None:
    from coordinatord.monitoring.admin.reset import to_csv

    if given["at_ms"] is not None:
        echo(f"The moment is {utc(given['at_ms'])}.", err=True)
    if given["export"]:
        offsets = {group: {each: move.after for each, move in moves.items()} for group, moves in plans.items()}
        echo_data(to_csv(offsets, with_group=len(plans) > 1))
        return
    rows = [
        (group, topic, part, move)
        for group, moves in sorted(plans.items())
        for (topic, part), move in sorted(moves.items(), key=lambda each: each[0])
    ]
    if given["as_json"]:
        names = ("group_id", "topic", "partition", "before", "after", "note", "executed")
        done = bool(given["execute"])
        values = [(*each[:3], each[3].before, each[3].after, each[3].why, done) for each in rows]
        echo_text(json.dumps([dict(zip(names, each, strict=True)) for each in values], indent=1))
    else:
        show(
            ("GROUP", "TOPIC", ">PARTITION", ">BEFORE", ">AFTER", ">MOVES BY", "NOTE"),
            (
                (
                    group,
                    topic,
                    str(part),
                    number(move.before),
                    number(move.after),
                    "-" if move.before is None else f"{move.after - move.before:+,}",
                    move.why,
                )
                for group, topic, part, move in rows
            ),
        )
    if plans and not given["execute"]:
        echo(DRY_RUN if rows else "There is nothing to reset.", err=True)


@click.command()
@GROUPS
@of_a_cluster
@click.option("--file", type=click.Path(path_type=Path, dir_okay=False), help="Write there, not to standard output.")
def export(groups: tuple[str, ...], bootstrap: str, command_config: Path | None, file: Path | None) -> None:
    """Write the committed offsets of GROUPS (of all without GROUPS) as CSV: group,topic,partition,offset.

    `groups import` restores them, and `reset-offsets --from-file` of ours and of Kafka's does so as well.
    """
    from coordinatord.monitoring.admin.groups import list_groups
    from coordinatord.monitoring.admin.offsets import committed
    from coordinatord.monitoring.admin.reset import to_csv

    with reached(bootstrap, command_config) as cluster:
        names = chosen(groups, lambda: [each.group_id for each in list_groups(cluster)], "group")
        found = {name: {each: it.offset for each, it in committed(cluster, name).items()} for name in names}
    empty = [name for name in names if not found[name]]
    if groups and empty:
        fail(*(f"group {name} has committed nothing." for name in empty))
    text = to_csv(found, with_group=True)
    if file is None:
        echo_data(text)
        return
    try:
        file.write_text(text, "utf-8")
    except OSError as error:
        fail(f"{file} cannot be written: {error.strerror or error}.")
    echo(f"{file}: {sum(map(len, found.values())):,} offsets of {len(names) - len(empty):,} groups")


@click.command(name="import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@of_a_cluster
@EXECUTE
@AS_JSON
def import_(file: Path, bootstrap: str, command_config: Path | None, execute: bool, as_json: bool) -> None:
    """Restore the offsets in FILE, which `groups export` has written.

    Groups that do not exist are created; those with members are refused. Offsets outside a partition become its bounds.
    """
    from coordinatord.monitoring.admin.reset import ResetError, groups_in

    try:
        names = groups_in(_text(file))
    except ResetError as error:
        fail(f"{error}.", status=BAD_SETTINGS)
    given: dict[str, Any] = dict.fromkeys((*NAMES, "at_ms")) | {"from_file": file, "topics": (), "export": False}
    given |= {"execute": execute, "as_json": as_json}
    with reached(bootstrap, command_config) as cluster:
        plans, shared, refused = _plans(cluster, names, given, is_only_group=False)
        if execute:
            _commit(cluster, plans, shared)
    _print_plans(plans, given)
    if refused:
        fail(*refused)
