"""`coordinatord lag`: who is behind, now, from the offsets log of any Kafka cluster. Needs no Spark."""

from __future__ import annotations

import csv
import io
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from coordinatord.cli.install import how_to_install
from coordinatord.cli.options import BAD_SETTINGS, fail, sentence, utf8
from coordinatord.cli.pipeline_options import SOURCE_OPTIONS, STATUS_OPTIONS, broker_of, undecoded
from coordinatord.cli.tables import lines, number
from coordinatord.cli.terminal import echo, echo_data, echo_text
from coordinatord.observe.printable import printable

SMALL_BYTES = 2 << 20
"""A log of so many bytes is decoded in plain Python sooner than numba is loaded."""
MOST_WORKERS = 8
NEEDS = "This needs numpy and pyarrow, and kafka-python for a broker"


@click.command(name="lag")
@click.argument("groups", nargs=-1, callback=utf8)
@click.option("--json", "form", flag_value="json", help="One array: a row per group, topic and partition.")
@click.option("--csv", "form", flag_value="csv", help="The same rows as CSV.")
@click.option("--watch", "form", flag_value="watch", help="Look again and again, until Ctrl-C.")
@click.option(
    "--interval",
    default=5.0,
    show_default=True,
    type=click.FloatRange(0.1, 86_400),
    help="With --watch: seconds from one look to the next.",
)
def lag(groups: tuple[str, ...], form: str | None, interval: float, **given: Any) -> None:
    """Show who is behind, from the offsets log of any Kafka cluster.

    Groups are listed by urgency: all, or the named ones (* and ? allowed) with their partitions. Status and columns are
    those of `pipeline run` (TABLES.md), by the same rules. Stores nothing.
    """
    if given["sources"] and sum(map(_log_bytes, given["sources"])) <= SMALL_BYTES:
        os.environ["_COORDINATORD_WITHOUT_NUMBA"] = "1"
    try:
        from coordinatord.pipeline.lag.looks import Look
        from coordinatord.pipeline.source.segments import SourceError
    except ModuleNotFoundError as error:
        fail(f"{NEEDS}: {how_to_install('lag')} ({error}).")
    found: Look
    try:
        looks = _looks(groups, given)
        found = looks.look(_now_ms(), last=form != "watch")
        if form != "watch":
            _tell_damage(found)
        _check_known(groups, found)
        if form == "watch":
            _watch(looks, found, bool(groups), interval)
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
        for line in _tell(found, with_partitions=bool(groups)):
            echo(line)


for _option in (*SOURCE_OPTIONS, *STATUS_OPTIONS):  # of a command, in their order
    lag = _option(lag)


def _now_ms() -> int:
    return int(time.time() * 1000)


def _log_bytes(source: str) -> int:
    """Bytes of the offsets log in a directory; too many to be small where it is something else."""
    directory = Path(source)
    if not directory.is_dir():
        return SMALL_BYTES + 1
    return sum(path.stat().st_size for path in directory.glob("__consumer_offsets-*/*.log"))


def _looks(groups: Sequence[str], given: dict[str, Any]) -> Any:
    from coordinatord.pipeline.analysis.status import Rules
    from coordinatord.pipeline.decode.kinds import QUARANTINE
    from coordinatord.pipeline.lag.fold import KINDS
    from coordinatord.pipeline.lag.looks import Looks
    from coordinatord.pipeline.lag.patience import reach
    from coordinatord.pipeline.source.end_offsets import is_place
    from coordinatord.pipeline.source.options import broker_settings, check_address, read_options
    from coordinatord.pipeline.source.segments import SourceError

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
    rules = Rules(window_ms=given["window"] * 1000, min_lag=given["min_lag"])
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Looks(read_options(options), ends, settings, rules, min(workers, MOST_WORKERS))


def _tell_damage(found: Any) -> None:
    if found.undecoded:
        echo(f"{undecoded(found.undecoded)}: what groups wrote there is missing here", err=True)


def _check_known(groups: Sequence[str], found: Any) -> None:
    """A group that was named and is not there is a mistake; a pattern may match nothing."""
    known = {row.group_id for row in found.groups} | found.members.keys()
    for group in groups:
        if group not in known and not set(group) & set("*?"):
            fail(f"the log has no group {group}.")


def _watch(looks: Any, found: Any, with_partitions: bool, interval: float) -> None:
    try:
        while True:
            click.clear()  # a terminal's screen; elsewhere nothing
            for line in _tell(found, with_partitions=with_partitions):
                echo(line)
            echo()
            _tell_damage(found)
            time.sleep(interval)
            found = looks.look(_now_ms())
    except KeyboardInterrupt:
        echo("stopped", err=True)


def _csv(rows: Sequence[Any]) -> str:
    """What a terminal would obey is escaped, wherever this goes. A name that a spreadsheet takes for a formula stays as
    it is: other programs look for it.
    """
    from coordinatord.pipeline.analysis.now import Now

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Now._fields)
    writer.writerows([printable(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return text.getvalue()


def _tell(found: Any, *, with_partitions: bool) -> Iterator[str]:
    """The groups, the most urgent first; with their partitions if they were asked for."""
    if not found.groups:
        yield f"No group has committed an offset ({found.records:,} records)."
        return
    yield headline(found.at_ms, found.groups)
    yield ""
    yield from group_lines(found.at_ms, found.groups, found.members)
    if with_partitions:
        yield ""
        yield from lines(
            ("GROUP", "TOPIC", ">PARTITION", ">COMMITTED", ">END", ">UNREAD", ">TIME LAG", "STATUS", "WHY"),
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
    """How many groups there are, and how many need somebody. `groups` are analysis.groups.GroupNow."""
    from coordinatord.pipeline.analysis.status import ALARMING

    at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at_ms / 1000))
    urgent = sum(row.status in ALARMING for row in groups)
    count = f"{len(groups):,} group{'' if len(groups) == 1 else 's'}"
    return f"{at}Z  {count}, {urgent:,} of them need somebody" if urgent else f"{at}Z  {count}; none needs anybody"


def group_lines(at_ms: int, groups: Sequence[Any], members: Mapping[str, int]) -> Iterator[str]:
    """The groups as a table. `groups` are analysis.groups.GroupNow, `members` counts by group."""
    yield from lines(
        ("GROUP", "STATUS", ">UNREAD", ">TIME LAG", ">MEMBERS", ">LAST COMMIT", "WHY"),
        (
            (
                row.group_id,
                row.status,
                number(row.lag),
                _time_lag(row.max_time_lag_ms, row.max_time_lag_method),
                number(members.get(row.group_id)),
                _duration(None if row.last_commit_ms is None else at_ms - row.last_commit_ms, " ago"),
                row.why,
            )
            for row in groups
        ),
    )


def _time_lag(ms: int | None, method: str) -> str:
    bounds = {"at least": "≥ ", "at most": "≤ "}
    return bounds.get(method, "") + _duration(ms)


def _duration(ms: int | None, after: str = "") -> str:
    if ms is None:
        return "-"
    seconds = max(0, ms) // 1000
    if seconds < 120:
        return f"{seconds} s{after}"
    if seconds < 7_200:
        return f"{seconds // 60} min{after}"
    return f"{seconds // 3_600} h{after}" if seconds < 172_800 else f"{seconds // 86_400} d{after}"
