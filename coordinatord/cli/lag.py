"""The command `coordinatord lag`: current lag of groups, from any Kafka cluster's offsets log. Needs no Spark."""

from __future__ import annotations

import csv
import io
import json
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import click

from coordinatord.base.observe.printable import printable
from coordinatord.cli.cluster_options import is_pattern
from coordinatord.cli.install import how_to_install
from coordinatord.cli.options import BAD_SETTINGS, fail, sentence, utf8
from coordinatord.cli.pipeline_options import SOURCE_OPTIONS, STATUS_OPTIONS, broker_of, undecoded
from coordinatord.cli.share_lag import Stored, share_lines, share_rows
from coordinatord.cli.tables import duration, lines, number
from coordinatord.cli.terminal import echo, echo_data, echo_text
from coordinatord.cli.times import now_ms, utc

MOST_WORKERS = 8
OTHER_TYPES = {
    "share": "group {0} is a share group, which commits no offsets: `coordinatord groups describe {0}` shows its lag.",
    "streams": "group {0} is a streams group that has committed no offset.",
}
"""The sentences for groups of other types without committed offsets."""
NEEDS = "This needs numpy and pyarrow, and kafka-python for a broker"


class WithStatuses(click.Command):
    """A command whose help text ends with the meaning of each status."""

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        from coordinatord.monitoring.analysis.advice import ADVICE

        with formatter.section("Statuses, the most urgent first"):
            rows = [(status, f"{each.means}. What to do: {each.do}.") for status, each in ADVICE.items()]
            formatter.write_dl(rows)


@click.command(name="lag", cls=WithStatuses)
@click.argument("groups", nargs=-1, callback=utf8)
@click.option("--json", "form", flag_value="json", help="One array: a row per group, topic and partition.")
@click.option("--csv", "form", flag_value="csv", help="The same rows as CSV.")
@click.option("--watch", "form", flag_value="watch", help="Repeat until Ctrl-C.")
@click.option(
    "--interval",
    default=5.0,
    show_default=True,
    type=click.FloatRange(0.1, 86_400),
    help="With --watch: seconds between two reads.",
)
def lag(groups: tuple[str, ...], form: str | None, interval: float, **given: Any) -> None:
    """Show which groups of any Kafka cluster are behind.

    Groups are listed by urgency: all, or the named ones (* and ? allowed) with their partitions. Status and columns are
    those of `pipeline run` (TABLES.md), by the same rules. Stores nothing.

    A named share group (KIP-932) also has a table of its share partitions, from __share_group_state: the start offset,
    the records from there on that are acknowledged or archived, those of them that are archived, the highest delivery
    count with its first offset, the age of the oldest record that is not acknowledged, if that record can be read, and
    when the stored state changed last. Not with --json, --csv or --watch.
    """
    try:
        from coordinatord.monitoring.offsets_log.lag.lag_scan import Snapshot
        from coordinatord.monitoring.offsets_log.source.segments import SourceError
        from coordinatord.monitoring.offsets_log.source.share_state_topic import ShareStates
        from coordinatord.monitoring.offsets_log.source.shared_connections import shared
    except ModuleNotFoundError as error:
        fail(f"{NEEDS}: {how_to_install('lag')} ({error}).")
    found: Snapshot
    try:
        with shared():
            looks = _looks(groups, given)
            shares, stored = _share_looks(given), Stored(ShareStates(looks.options, looks.options.wanted.has_group))
            found = looks.look(now_ms(), last=form != "watch")
            _add_shares(found, given, shares, stored, looks.ends)
            if form != "watch":
                _print_gaps(found)
            shared_partitions = share_rows(stored, found, shares.limits) if groups and form is None else []
            _check_known(groups, found, {row.group_id for row in shared_partitions})
        if form == "watch":
            _watch(looks, found, groups, given, (shares, stored), interval)
            return
    except ModuleNotFoundError as error:
        fail(f"{NEEDS}: {how_to_install('lag')} ({error}).")
    except SourceError as error:
        fail(sentence(error), status=BAD_SETTINGS)
    if form == "json":
        echo_text(json.dumps([row._asdict() for row in found.rows], indent=1))
    elif form == "csv":
        echo_data(_csv(found.rows))
    else:
        if found.groups or not shared_partitions:
            for line in _snapshot_lines(found, with_partitions=bool(groups)):
                echo(line)
        for line in share_lines(shared_partitions, found.at_ms, after=bool(found.groups)):
            echo(line)


for _option in (*SOURCE_OPTIONS, *STATUS_OPTIONS):  # the help text lists them in this order
    lag = _option(lag)


def _looks(groups: Sequence[str], given: dict[str, Any]) -> Any:
    from coordinatord.monitoring.analysis.status import Rules
    from coordinatord.monitoring.offsets_log.decode.row_types import QUARANTINE
    from coordinatord.monitoring.offsets_log.lag.connect_retry import reach
    from coordinatord.monitoring.offsets_log.lag.fold import KINDS
    from coordinatord.monitoring.offsets_log.lag.lag_scan import Looks
    from coordinatord.monitoring.offsets_log.source.end_offsets import is_place
    from coordinatord.monitoring.offsets_log.source.options import broker_settings, check_address, read_options
    from coordinatord.monitoring.offsets_log.source.segments import SourceError

    sources, bootstrap, ends = given["sources"], given["bootstrap"], given["end_offsets"]
    if bool(sources) == bool(bootstrap):
        raise SourceError("say where the log is: either --source DIR|postgresql://… or --bootstrap HOST:PORT")
    if bootstrap:
        check_address("--bootstrap", bootstrap)
    broker = broker_of(given)
    options = {"kinds": ",".join(sorted({*KINDS, QUARANTINE})), "groups": json.dumps(list(groups))}
    if bootstrap:
        options |= {"bootstrap": bootstrap} | {f"kafka.{name}": value for name, value in broker.items()}
    else:
        options["paths"] = json.dumps(list(sources))
    ends = ends or bootstrap or (sources[0] if is_place(sources[0]) else None)
    if ends is not None and not is_place(ends):
        check_address("--end-offsets", ends, or_else="a broker's log directory")
    settings = broker_settings(broker)
    for address in {bootstrap, None if ends is None or is_place(ends) else ends} - {None}:
        reach(address, settings, lambda told: echo(f"coordinatord: {told}", err=True))
    if bootstrap and groups and not any(map(is_pattern, groups)):
        options |= _share_of_the_log(bootstrap, settings, groups)
    rules = Rules(window_ms=given["window"] * 1000, min_lag=given["min_lag"])
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    session_ms = given["consumer_session_ms"]
    return Looks(read_options(options), ends, settings, rules, min(workers, MOST_WORKERS), session_ms)


def _share_looks(given: Mapping[str, Any]) -> Any:
    from coordinatord.monitoring.admin.share_looks import ShareLooks
    from coordinatord.monitoring.analysis.status import Rules

    return ShareLooks(Rules(window_ms=given["window"] * 1000, min_lag=given["min_lag"]))


def _add_shares(found: Any, given: dict[str, Any], shares: Any, stored: Any, ends: str | None) -> None:
    """Add the share groups to the snapshot: as the cluster counts their lag, or from the log. `ends` is the place of
    the ends of partitions, for a log.
    """
    if not {*found.others.values()} & {"share"}:
        return
    if not given["bootstrap"]:
        _add(found, _logged_shares(found, given, shares, stored, ends))
        return
    from coordinatord.monitoring.admin.connection import AdminError, Unreachable, cluster
    from coordinatord.monitoring.offsets_log.source.options import broker_settings

    def is_wanted(name: str) -> bool:
        return bool(found.others.get(name) == "share")

    try:
        with cluster(given["bootstrap"], broker_settings(broker_of(given))) as reached:
            looked = shares.look(reached, found.at_ms, is_wanted, stored.read)
    except (AdminError, Unreachable) as error:
        echo(f"share groups are missing here: {error}", err=True)
        return
    _add(found, {each.group_id: (each.members, each.rows) for each in looked})


def _logged_shares(
    found: Any, given: dict[str, Any], shares: Any, stored: Any, ends: str | None
) -> dict[str, tuple[int, list[Any]]]:
    from coordinatord.monitoring.offsets_log.lag.share_scan import share_groups
    from coordinatord.monitoring.offsets_log.source.options import broker_settings

    shared = {place: each for place, each in stored.read().items() if found.others.get(place.group_id) == "share"}
    groups: dict[str, tuple[int, list[Any]]] = {}
    if shared:
        settings = broker_settings(broker_of(given))
        for each in share_groups(stored.options, ends, settings, shared, found.at_ms, shares.rules):
            groups.setdefault(each.now.group_id, (each.members, []))[1].append(each.now)
    return groups


def _add(found: Any, groups: Mapping[str, tuple[int, list[Any]]]) -> None:
    """Add groups with their numbers of members and their rows to the snapshot."""
    from coordinatord.monitoring.analysis.groups import group_now
    from coordinatord.monitoring.analysis.severity import judged, urgency

    for name, (members, rows) in groups.items():
        found.rows += rows
        found.members[name] = members
        found.groups.append(judged(name, group_now(rows) if rows else None, ()))
    found.groups.sort(key=urgency)
    found.rows.sort(key=lambda row: (row.group_id, row.topic, row.partition))


def _share_of_the_log(bootstrap: str, settings: Mapping[str, Any], groups: Sequence[str]) -> dict[str, str]:
    """Return the reader option that selects the log partitions of the named groups; empty if the log has no partitions.

    Raises SourceError.
    """
    from coordinatord.monitoring.offsets_log.source.cluster import Cluster
    from coordinatord.monitoring.offsets_log.source.options import PATIENCE_S
    from coordinatord.transport.cluster.partitioner import partition_for

    with Cluster(bootstrap, settings, PATIENCE_S) as cluster:
        count = len(cluster.log_partitions())
    chosen = sorted({partition_for(group, count) for group in groups}) if count else []
    return {"partitions": ",".join(map(str, chosen))} if chosen else {}


def _print_gaps(found: Any) -> None:
    """Print to stderr which data are missing in the result, and why."""
    if found.undecoded:
        echo(f"{undecoded(found.undecoded)}: what groups wrote there is missing here", err=True)
    if found.absent or found.leaderless:
        from coordinatord.monitoring.offsets_log.source.unreadable_partitions import no_leader

        if found.absent:
            echo(f"{no_leader(found.absent)}: the groups of that part of the log are missing here", err=True)
        if found.leaderless:
            echo(f"{no_leader(found.leaderless)}: what is unread there is not known", err=True)


def _check_known(groups: Sequence[str], found: Any, shared: Collection[str]) -> None:
    """Fail if a group that was named without a pattern does not exist; a pattern may match nothing. `shared` are the
    share groups with stored state.
    """
    known = {row.group_id for row in found.groups} | found.members.keys() | set(shared)
    missing = [group for group in groups if group not in known and not is_pattern(group)]
    if missing:
        fail(
            *(
                OTHER_TYPES[found.others[group]].format(group)
                if group in found.others
                else f"the log has no group {group}."
                for group in missing
            )
        )


def _watch(looks: Any, found: Any, groups: Sequence[str], given: dict[str, Any], shares: Any, interval: float) -> None:
    """Print snapshots every `interval` seconds until Ctrl-C.

    Each snapshot opens new connections, and waits for a broker that restarts.
    """
    from coordinatord.monitoring.offsets_log.source.shared_connections import shared

    try:
        while True:
            click.clear()  # without effect if stdout is not a terminal
            for line in _snapshot_lines(found, with_partitions=bool(groups)):
                echo(line)
            echo()
            _print_gaps(found)
            time.sleep(interval)
            with shared():
                found = looks.look(now_ms())
                _add_shares(found, given, shares[0], shares[1], looks.ends)
    except KeyboardInterrupt:
        echo("stopped", err=True)


def _csv(rows: Sequence[Any]) -> str:
    """Return rows as CSV.

    Control characters are escaped even if the output is not a terminal. A name that a spreadsheet takes for a formula
    is not changed: other programs compare these names.
    """
    from coordinatord.monitoring.analysis.current_lag import Now

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Now._fields)
    writer.writerows([printable(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return text.getvalue()


def _snapshot_lines(found: Any, *, with_partitions: bool) -> Iterator[str]:
    """Yield the lines of a snapshot: the groups, the most urgent first, and with `with_partitions` their partitions."""
    if not found.groups:
        yield f"No group has committed an offset ({found.records:,} records)."
        return
    yield headline(found.at_ms, found.groups)
    yield ""
    yield from group_lines(found.at_ms, found.groups, found.members)
    if with_partitions:
        yield ""
        yield from lines(
            ("GROUP", "TOPIC", ">PARTITION", ">COMMITTED", ">END", ">UNREAD", ">TIME LAG", "STATUS", "/WHY"),
            (
                (
                    row.group_id,
                    row.topic,
                    str(row.partition),
                    number(row.committed_offset),
                    number(row.end_offset),
                    number(row.lag),
                    _time_lag(row.time_lag_ms, row.time_lag_method),
                    row.status,
                    row.why,
                )
                for row in found.rows
            ),
        )


def headline(at_ms: int, groups: Sequence[Any]) -> str:
    """Return a line with the number of groups, and how many are urgent. `groups` are analysis.groups.GroupNow."""
    from coordinatord.monitoring.analysis.severity import is_urgent

    urgent = sum(is_urgent(row.status) for row in groups)
    count = f"{len(groups):,} group{'' if len(groups) == 1 else 's'}"
    some = "it needs" if len(groups) == 1 else f"{urgent:,} of them need" + "s" * (urgent == 1)
    verdict = f", {some} attention" if urgent else "; none needs attention"
    return f"{utc(at_ms)}  {count}{verdict}"


def group_lines(at_ms: int, groups: Sequence[Any], members: Mapping[str, int]) -> Iterator[str]:
    """Yield the groups as a table. `groups` are analysis.groups.GroupNow, `members` is the member count by group."""
    yield from lines(
        ("GROUP", "STATUS", ">UNREAD", ">TIME LAG", ">MEMBERS", ">LAST COMMIT", "/WHY"),
        (
            (
                row.group_id,
                row.status,
                number(row.lag),
                _time_lag(row.max_time_lag_ms, row.max_time_lag_method),
                number(members.get(row.group_id)),
                duration(None if row.last_commit_ms is None else at_ms - row.last_commit_ms, " ago"),
                row.why,
            )
            for row in groups
        ),
    )


def _time_lag(ms: int | None, method: str) -> str:
    bounds = {"at least": "≥ ", "at most": "≤ "}
    return bounds.get(method, "") + duration(ms)
