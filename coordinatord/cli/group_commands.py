"""Subcommands of `coordinatord groups`, for any Kafka cluster: list, describe, members, watch, delete and evict."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coordinatord.cli.cluster_options import (
    AS_JSON,
    EXECUTE,
    chosen,
    completing,
    is_pattern,
    of_a_cluster,
    reached,
)
from coordinatord.cli.options import fail, utf8
from coordinatord.cli.tables import assigned, number, show
from coordinatord.cli.terminal import echo, echo_text
from coordinatord.cli.times import now_ms, utc

if TYPE_CHECKING:
    from coordinatord.monitoring.admin.connection import Cluster
    from coordinatord.monitoring.admin.groups import Group, Member

GROUPS = click.argument("groups", nargs=-1, callback=utf8, shell_complete=completing("groups"))
SOME_GROUPS = click.argument("groups", nargs=-1, required=True, callback=utf8, shell_complete=completing("groups"))
STATES = (
    "Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady", "Dead",
)  # fmt: skip
"""Group states of Kafka 4.4: org.apache.kafka.common.GroupState."""
TYPES = ("classic", "consumer", "share", "streams")
"""Group types of Kafka 4.4: org.apache.kafka.common.GroupType."""
DRY_RUN = "Nothing was changed: this is what --execute does."


@click.command(name="list")
@of_a_cluster
@click.option(
    "--state", "states", multiple=True, metavar="STATE", type=click.Choice(STATES, case_sensitive=False),
    help=f"Only groups in this state: {', '.join(STATES)}. Can be repeated.",
)  # fmt: skip
@click.option(
    "--type", "kinds", multiple=True, metavar="TYPE", type=click.Choice(TYPES, case_sensitive=False),
    help=f"Only groups of this type: {', '.join(TYPES)}. Can be repeated.",
)  # fmt: skip
@AS_JSON
def list_(
    bootstrap: str, command_config: Path | None, states: tuple[str, ...], kinds: tuple[str, ...], as_json: bool
) -> None:
    """List the groups of a cluster."""
    from coordinatord.monitoring.admin.groups import list_groups

    with reached(bootstrap, command_config) as cluster:
        found = list_groups(cluster, states, kinds)
    if as_json:
        rows = [{"group_id": each.group_id, "type": each.kind, "state": each.state} for each in found]
        echo_text(json.dumps(rows, indent=1))
        return
    if not found:
        what = f"{kinds[0]} groups" if len(kinds) == 1 and not states else "such group" if states or kinds else "groups"
        echo(f"The cluster has no {what}.", err=True)
    show(
        ("GROUP", "TYPE", "STATE", "OF"),
        ((it.group_id, it.kind or "-", it.state or "-", it.protocol_type) for it in found),
    )


@click.command()
@GROUPS
@of_a_cluster
@AS_JSON
def describe(groups: tuple[str, ...], bootstrap: str, command_config: Path | None, as_json: bool) -> None:
    """Show the partitions of GROUPS: committed offset, end, lag and owner.

    Without GROUPS, of all. Patterns (* and ?) are allowed. `coordinatord lag` says what the lag means. A share group
    has start offsets instead of committed ones; its lag does not count records acknowledged or archived behind them.
    """
    with reached(bootstrap, command_config) as cluster:
        found = _described(cluster, groups)
        rows = {name: _partitions(cluster, group) for name, group in found.items()}
    if as_json:
        echo_text(json.dumps([row for name in rows for row in rows[name]], indent=1))
        return
    for position, (name, group) in enumerate(found.items()):
        echo(*[""] * bool(position), headline(group))
        show(
            ("TOPIC", ">PARTITION", ">START" if group.is_shared else ">COMMITTED", ">END", ">LAG", "CLIENT", "HOST"),
            (
                (
                    row["topic"] or "-",
                    "-" if row["partition"] is None else str(row["partition"]),
                    number(row["start_offset" if group.is_shared else "committed_offset"]),
                    number(row["end_offset"]),
                    number(row["lag"]),
                    _owner(row),
                    (row["host"] or "-").lstrip("/"),
                )
                for row in rows[name]
            ),
        )


def headline(group: Group) -> str:
    """Return a one-line summary of a group."""
    size = len(group.members)
    text = f"Group {group.group_id} is {group.state}: {size} member{'' if size == 1 else 's'}"
    text += f" in epoch {group.epoch}" if group.epoch is not None else ""
    text += f", assigned by {group.assignor}" if group.assignor else ""
    return f"{text} ({group.kind} protocol, node {group.coordinator})."


def _described(cluster: Cluster, names: Sequence[str]) -> dict[str, Group]:
    """Return the described groups by name; `names` may contain patterns.

    The command fails if a group without a pattern does not exist, or cannot be described.
    """
    from coordinatord.monitoring.admin.groups import describe as ask
    from coordinatord.monitoring.admin.groups import list_groups

    wanted = chosen(names, lambda: [each.group_id for each in list_groups(cluster)], "group")
    found = ask(cluster, wanted)
    missing = absent(cluster, [name for name in wanted if name not in found])
    refused = [missing[name] for name in missing if name in names]
    if refused:
        fail(*refused)
    for sentence in missing.values():  # groups that a pattern matched, but that cannot be described
        echo(sentence, err=True)
    return {name: found[name] for name in wanted if name in found}


def absent(cluster: Cluster, names: Sequence[str]) -> dict[str, str]:
    """Return, by group, a sentence why it cannot be described: it does not exist, or the cluster lists it, but does not
    describe groups of its type to us.
    """
    from coordinatord.monitoring.admin.groups import list_groups

    kinds = {each.group_id: each.kind for each in list_groups(cluster)} if names else {}
    return {
        name: f"group {name} is a {kinds[name]} group, which {cluster.bootstrap} does not describe."
        if kinds.get(name)
        else f"there is no group {name}."
        for name in names
    }


def _partitions(cluster: Cluster, group: Group) -> list[dict[str, Any]]:
    """Return a row per partition that is assigned or has an offset, and one per member without partitions."""
    from coordinatord.monitoring.admin import share_offsets
    from coordinatord.monitoring.admin.groups import STREAMS
    from coordinatord.monitoring.admin.offsets import LATEST, at_time, committed, partitions_of

    shared = share_offsets.described(cluster, group.group_id) if group.is_shared else {}
    done = {} if group.is_shared else {each: it.offset for each, it in committed(cluster, group.group_id).items()}
    owners: dict[tuple[str, int], list[Member]] = {}
    for member in group.members:
        for topic, numbers in member.assigned.items():
            for part in numbers:
                owners.setdefault((topic, part), []).append(member)
    every = sorted(done.keys() | shared.keys() | owners.keys())
    leaders, _ = partitions_of(cluster, {topic for topic, _ in every})
    there = {each: LATEST for each in every if leaders.get(each, -1) >= 0}
    ends = {each: offset for each, (offset, _) in at_time(cluster, there).items()}
    rows = []
    for each in every:
        if group.kind == STREAMS and each not in done and each not in leaders:
            continue  # a task reads the partition of its number of each topic that has one
        before, end = done.get(each), ends.get(each)
        row = _row(group, owners.get(each, ()), each) | {"committed_offset": before, "end_offset": end}
        if each in shared:
            row |= {"start_offset": shared[each].start_offset, "lag": shared[each].lag}
        elif before is not None and end is not None:
            row["lag"] = end - before
        rows.append(row)
    return rows + [_row(group, [member]) for member in group.members if not member.count]


def _owner(row: dict[str, Any]) -> str:
    return f"{row['members']} members" if row["members"] > 1 else row["instance_id"] or row["client_id"] or "-"


def _row(
    group: Group, owners: Sequence[Member], partition: tuple[str | None, int | None] = (None, None)
) -> dict[str, Any]:
    """Return the row of a partition or of a member without one; several owners, in a share group, are only counted."""
    row: dict[str, Any] = {"group_id": group.group_id, "type": group.kind, "state": group.state}
    row |= {"topic": partition[0], "partition": partition[1], "committed_offset": None, "start_offset": None}
    row |= {"end_offset": None, "lag": None, "members": len(owners)}
    for name in ("member_id", "instance_id", "client_id", "host"):
        row[name] = getattr(owners[0], name) if len(owners) == 1 else None
    return row


@click.command()
@GROUPS
@of_a_cluster
@AS_JSON
def members(groups: tuple[str, ...], bootstrap: str, command_config: Path | None, as_json: bool) -> None:
    """Show the members of GROUPS, and which partitions each has.

    Without GROUPS, of all. Patterns (* and ?) are allowed.
    """
    with reached(bootstrap, command_config) as cluster:
        found = _described(cluster, groups)
    if as_json:
        echo_text(json.dumps([_as_json(group, each) for group in found.values() for each in group.members], indent=1))
        return
    for position, group in enumerate(found.values()):
        echo(*[""] * bool(position), headline(group))
        if not group.members:
            continue
        has_target = any(each.target not in (None, each.assigned) for each in group.members)
        show(
            ("CLIENT", "HOST", ">EPOCH", ">PARTITIONS", "ASSIGNED", *(["TARGET"] if has_target else []), "MEMBER"),
            (
                (
                    each.instance_id or each.client_id or "-",
                    each.host.lstrip("/"),
                    number(each.epoch),
                    str(each.count),
                    assigned(each.assigned),
                    *([assigned(each.target or {})] if has_target else []),
                    each.member_id,
                )
                for each in group.members
            ),
        )


def _as_json(group: Group, member: Any) -> dict[str, Any]:
    row = {"group_id": group.group_id, "type": group.kind, "state": group.state}
    for name in ("member_id", "instance_id", "client_id", "host", "epoch", "topics", "assigned", "target"):
        row[name] = getattr(member, name)
    return row


@click.command()
@SOME_GROUPS
@of_a_cluster
@click.option(
    "--interval", default=1.0, show_default=True, type=click.FloatRange(0.1, 3_600), help="Seconds between two reads."
)
def watch(groups: tuple[str, ...], bootstrap: str, command_config: Path | None, interval: float) -> None:
    """Print a line whenever a member or the state of GROUPS changes, until Ctrl-C."""
    from coordinatord.monitoring.admin.groups import describe as ask
    from coordinatord.monitoring.admin.groups import list_groups

    with reached(bootstrap, command_config) as cluster:
        before: dict[str, Group | None] = {}
        try:
            while True:
                names = [each.group_id for each in list_groups(cluster)] if any(map(is_pattern, groups)) else []
                wanted = chosen(groups, lambda names=names: names, "group")  # type: ignore[misc]
                now = ask(cluster, wanted)
                missing = absent(cluster, [name for name in wanted if name not in now and name not in before])
                for name in dict.fromkeys([*before, *wanted]):
                    for line in changes(name, before.get(name), now.get(name), missing.get(name)):
                        echo(f"{utc(now_ms())}  {line}")
                before = {name: now.get(name) for name in dict.fromkeys([*before, *wanted])}
                time.sleep(interval)
        except KeyboardInterrupt:
            echo("stopped", err=True)


def changes(name: str, before: Group | None, now: Group | None, missing: str | None = None) -> Iterator[str]:
    """Yield a line for each change of a group between two snapshots; None stands for a group that does not exist.

    `missing`: the sentence to print if the first snapshot does not contain the group.
    """
    if now is None:
        if missing is not None:
            yield missing
        elif before is not None:
            yield f"{name}: the group is gone"
        return
    if before is None:
        yield headline(now)
        for each in now.members:
            yield f"{name}: {each.name} has {assigned(each.assigned)}"
        return
    if (before.state, before.epoch) != (now.state, now.epoch):
        epoch = f" in epoch {now.epoch}" if now.epoch is not None else ""
        yield f"{name}: {before.state} → {now.state}{epoch}, {len(now.members)} members"
    was = {each.member_id: each for each in before.members}
    here = {each.member_id: each for each in now.members}
    for member_id in (each for each in was if each not in here):
        yield f"{name}: {was[member_id].name} has gone"
    for member_id, each in here.items():
        if member_id not in was:
            yield f"{name}: {each.name} has come, with {assigned(each.assigned)}"
        elif was[member_id].assigned != each.assigned:
            yield f"{name}: {each.name}: {assigned(was[member_id].assigned)} → {assigned(each.assigned)}"


@click.command()
@SOME_GROUPS
@of_a_cluster
@EXECUTE
def delete(groups: tuple[str, ...], bootstrap: str, command_config: Path | None, execute: bool) -> None:
    """Delete GROUPS with their committed offsets.

    Without --execute, shows what would be lost. A group with members is not deleted.
    """
    from coordinatord.monitoring.admin.group_offsets import offsets_of
    from coordinatord.monitoring.admin.groups import delete as ask
    from coordinatord.monitoring.admin.groups import member_names

    with reached(bootstrap, command_config) as cluster:
        found = _described(cluster, groups)
        active = {name: group for name, group in found.items() if group.members or group.is_active}
        idle = [name for name in found if name not in active]
        lost = {name: offsets_of(cluster, found[name]) for name in idle}
        refused = ask(cluster, idle) if execute and idle else {}
    show(
        ("GROUP", "STATE", ">OFFSETS", "TOPICS", "RESULT"),
        (
            (
                name,
                found[name].state,
                str(sum(offset is not None for offset in lost[name].values())),
                assigned(_by_topic(lost[name])),
                (f"not deleted: {refused[name]}" if refused.get(name) else "deleted")
                if execute
                else "would be deleted",
            )
            for name in idle
        ),
    )
    problems = [
        f"group {name} is {it.state} and not deleted: it has {member_names(it)}." for name, it in active.items()
    ]
    if not execute and idle:
        echo(DRY_RUN, err=True)
    if problems or any(refused.values()):
        fail(*problems)


def _by_topic(partitions: Any) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, part in partitions:
        found.setdefault(topic, []).append(part)
    return found


@click.command(name="delete-offsets")
@click.argument("group", callback=utf8, shell_complete=completing("groups"))
@of_a_cluster
@click.option(
    "--topic", "topics", multiple=True, required=True, callback=utf8, help="A topic, or partitions of it: orders:0,1."
)
@EXECUTE
def delete_offsets(
    group: str, bootstrap: str, command_config: Path | None, topics: tuple[str, ...], execute: bool
) -> None:
    """Delete the committed offsets of GROUP for topics.

    Without --execute, shows what would be lost. The cluster refuses topics that members of the group subscribe to. A
    share group forgets whole topics only, and only when it has no members.
    """
    from coordinatord.monitoring.admin.group_offsets import delete as ask
    from coordinatord.monitoring.admin.group_offsets import offsets_of
    from coordinatord.monitoring.admin.reset import partitions_named

    with reached(bootstrap, command_config) as cluster:
        named, whole = partitions_named(topics)
        found = _described(cluster, [group])[group]
        if found.is_shared and named:
            fail(f"group {group} is a share group, which forgets whole topics only: --topic {named[0][0]}.")
        done = offsets_of(cluster, found)
        chosen_ones = sorted({*named, *(each for each in done if each[0] in whole)} & done.keys())
        subscribed = {topic for member in found.members for topic in member.topics}
        refused: dict[tuple[str, int], str | None] = {
            each: "members of the group subscribe to the topic" for each in chosen_ones if each[0] in subscribed
        }
        if execute and chosen_ones:
            refused = ask(cluster, found, chosen_ones)
    show(
        ("TOPIC", ">PARTITION", ">COMMITTED", "RESULT"),
        (
            (
                each[0],
                str(each[1]),
                number(done[each]),
                f"not deleted: {refused[each]}" if refused.get(each) else "deleted" if execute else "would be deleted",
            )
            for each in chosen_ones
        ),
    )
    nothing = [each for each in named if each not in done] + [
        (topic, None) for topic in whole if not any(each[0] == topic for each in done)
    ]
    if not execute and chosen_ones:
        echo(DRY_RUN, err=True)
    if nothing or any(refused.values()):
        names = (topic if part is None else f"{topic}-{part}" for topic, part in nothing)
        fail(*(f"group {group} has committed nothing for {name}." for name in names))


@click.command()
@click.argument("group", callback=utf8, shell_complete=completing("groups"))
@click.argument("member", callback=utf8)
@of_a_cluster
@click.option("--reason", default="removed by an operator", callback=utf8, help="For the coordinator's log.")
@EXECUTE
def evict(group: str, member: str, bootstrap: str, command_config: Path | None, reason: str, execute: bool) -> None:
    """Remove one MEMBER of GROUP, dynamic or static.

    MEMBER is its member id, its group.instance.id, or its client id if no other member has it. A process that still
    runs joins again.
    """
    from coordinatord.monitoring.admin.groups import evict as ask

    with reached(bootstrap, command_config) as cluster:
        found = _described(cluster, [group])[group]
        fitting = [it for it in found.members if member in (it.member_id, it.instance_id)]
        fitting = fitting or [it for it in found.members if it.client_id == member]
        if len(fitting) != 1:
            ids = [f"  {it.member_id}  {it.name}" for it in fitting or found.members]
            some = (
                f"{len(fitting)} members are called {member}; say which"
                if fitting
                else (f"group {group} has no member {member}" + ("; it has" if ids else ""))
            )
            fail(f"{some}:" if ids else f"{some}.", *ids)
        one = fitting[0]
        text = f"{one.name} ({one.member_id}) with {assigned(one.assigned)}"
        if not execute:
            echo(f"Would remove {text}.")
            echo(DRY_RUN, err=True)
            return
        ask(cluster, found, one, reason)
    echo(f"Removed {text}.")
