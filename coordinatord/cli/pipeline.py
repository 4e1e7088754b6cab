"""`coordinatord pipeline`: tables of lag, status and more from `__consumer_offsets`, of ours or of any cluster."""

from __future__ import annotations

import os
import shlex
import signal
import time
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from coordinatord.cli.install import how_to_install
from coordinatord.cli.options import BAD_SETTINGS, fail, utf8
from coordinatord.cli.progress import Shown
from coordinatord.pipeline.analysis.load import LOAD_RATE

STEP_BYTES = 256 << 20
STEP_RECORDS = 2_000_000
OF_FOLLOWERS = ("interval", "stuck_after", "storm", "expiring_within")
MOST = 2**31 - 1
"""Kafka's own settings of this sort are of 32 bits."""
QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.authenticate.socketTimeout": "120s",  # a busy machine is slow to start workers
}


def _no_spark(error: ModuleNotFoundError) -> str:
    return f"The pipeline needs PySpark: {how_to_install('spark')}, and Java 17 or newer ({error})."


@click.group(name="pipeline")
def pipeline() -> None:
    """Tables and reports from the offsets log of any Kafka cluster."""


def run_options(command: Any) -> Any:
    for option in reversed(
        [
            click.option("--source", "sources", multiple=True, metavar="DIR", help="A broker's log directory."),
            click.option("--bootstrap", metavar="HOST:PORT", help="Or a broker to read __consumer_offsets from."),
            click.option(
                "--end-offsets",
                metavar="DIR|HOST:PORT",
                help="Where partitions end. [the source's own directory, or the bootstrap broker]",
            ),
            click.option(
                "--broker-option",
                "broker_options",
                multiple=True,
                metavar="NAME=VALUE",
                help="For the broker, in kafka-python's words: security_protocol=SASL_SSL …",
            ),
            click.option(
                "--broker-config",
                type=click.Path(path_type=Path, exists=True, dir_okay=False),
                help="A file of such lines: a password in it is in no list of processes.",
            ),
            click.option(
                "--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="Where the tables go."
            ),
            click.option("--groups", callback=utf8, help="Only these groups: names by commas, * and ? allowed."),
            click.option("--topics", callback=utf8, help="Only commits for these topics."),
            click.option("--table", "tables", multiple=True, help="Only this table. Can be repeated."),
            click.option("--format", "form", type=click.Choice(["parquet", "delta"]), default="parquet"),
            click.option(
                "--window",
                default=600,
                show_default=True,
                type=click.IntRange(1, MOST),
                help="Seconds that a status looks back.",
            ),
            click.option(
                "--min-lag",
                default=1,
                show_default=True,
                type=click.IntRange(1, MOST),
                help="Fewer unread records are nothing to speak of.",
            ),
            click.option(
                "--retention-minutes",
                default=10_080,
                show_default=True,
                type=click.IntRange(1, MOST),
                help="offsets.retention.minutes of the cluster.",
            ),
            click.option(
                "--consumer-session-ms",
                default=45_000,
                show_default=True,
                type=click.IntRange(1, MOST),
                help="group.consumer.session.timeout.ms of the cluster.",
            ),
            click.option(
                "--slo-lag",
                default=1_000,
                show_default=True,
                type=click.IntRange(0, MOST),
                help="Records: up to this lag a minute is good.",
            ),
            click.option(
                "--slo-target",
                default=0.99,
                show_default=True,
                type=click.FloatRange(0, 0.999999),
                help="Share of minutes that shall be good.",
            ),
            click.option(
                "--load-rate",
                default=LOAD_RATE,
                show_default=True,
                type=click.IntRange(1, MOST),
                help="Records a second that the cluster's coordinators load at a start.",
            ),
            click.option("--follow", is_flag=True, help="Go on until Ctrl-C, and tell what changes."),
            click.option(
                "--interval",
                default=30.0,
                show_default=True,
                type=click.FloatRange(0.1, 86_400),
                help="With --follow: seconds from one look to the next.",
            ),
            click.option(
                "--stuck-after",
                default=300,
                show_default=True,
                type=click.IntRange(1, MOST),
                help="With --follow: seconds without a new offset, while the partition grows.",
            ),
            click.option(
                "--storm",
                default=(5, 600),
                show_default=True,
                type=(click.IntRange(2, MOST), click.IntRange(1, MOST)),
                metavar="N SECONDS",
                help="With --follow: so many rebalances within so long.",
            ),
            click.option(
                "--expiring-within",
                default=24.0,
                show_default=True,
                type=click.FloatRange(0, 1_000_000, min_open=True),
                help="With --follow: hours before offsets are forgotten.",
            ),
        ]
    ):
        command = option(command)
    return command


@pipeline.command()
@run_options
def run(**given: Any) -> None:
    """Read what is new in the log, and bring the tables up to date.

    A run takes up where the last one with the same --out stopped. Without --end-offsets the partitions of topics are
    looked up where the log is. With --follow it does so again and again, and prints a line for each group that gets
    stuck, rebalances all the time or will lose its offsets, and when that is over.
    """
    try:
        from coordinatord.pipeline.run.before import check_run
        from coordinatord.pipeline.run.delta import delta_settings
        from coordinatord.pipeline.run.update import run as run_pipeline
        from coordinatord.pipeline.source.frames import start_spark
        from coordinatord.pipeline.source.segments import SourceError
    except ModuleNotFoundError as error:
        fail(_no_spark(error))
    try:
        job = wanted(given)
        _check_followers(given)
        extra = delta_settings() if job.format == "delta" else {}
        with Shown() as progress:
            check_run(job, progress)
            progress.stage("starting Spark")
            spark = start_spark(**QUIET, **extra)
            spark.sparkContext.setLogLevel("ERROR")
            if not given["follow"]:
                summary = run_pipeline(spark, job, now_ms=int(time.time() * 1000), progress=progress)
        if given["follow"]:
            _follow(spark, job, given)
            return
    except SourceError as error:
        fail(f"{str(error).rstrip('.')}.", status=BAD_SETTINGS)
    click.echo(f"{sum(summary.new.values()):,} new records in {summary.seconds:.1f} s; tables in {job.out / 'tables'}:")
    for name, count in summary.rows.items():
        click.echo(f"  {name:<16}{count:>12,} rows")
    quarantined = summary.new.get("quarantine", 0)
    if quarantined:
        click.echo(f"{quarantined:,} stretches could not be decoded: see {job.out / 'facts' / 'quarantine'}", err=True)


def _check_followers(given: dict[str, Any]) -> None:
    """What nobody would heed is refused. SourceError."""
    from coordinatord.pipeline.source.segments import SourceError

    context = click.get_current_context()
    for name in OF_FOLLOWERS:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE and not given["follow"]:
            raise SourceError(f"--{name.replace('_', '-')} is for --follow, which is not given")


def _follow(spark: Any, job: Any, given: dict[str, Any]) -> None:
    """Until a signal; a second one ends it at once, which costs nothing but the batch that is being made."""
    from coordinatord.pipeline.analysis.changes import Thresholds
    from coordinatord.pipeline.run.follow import Follower

    count, window_s = given["storm"]
    thresholds = Thresholds(
        stuck_ms=given["stuck_after"] * 1000,
        storm_count=count,
        storm_ms=window_s * 1000,
        expiring_ms=round(given["expiring_within"] * 3_600_000),
    )
    follower = Follower(spark, job, round(given["interval"] * 1000), thresholds, say=_say_batch, say_event=_say_event)

    def stop(number: int, _frame: Any) -> None:
        if follower.stop.is_set():
            os._exit(128 + number)
        click.echo("stopping after the batch that is being made; once more stops at once", err=True)
        follower.stop.set()

    # Spark has set handlers of its own, which cancel jobs.
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    click.echo(f"following, a look every {given['interval']:g} s; Ctrl-C stops", err=True)
    try:
        done = follower.run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    click.echo(
        f"stopped: {done.batches:,} batches, {done.records:,} new records, {done.events:,} events in "
        f"{job.out / 'events'}; the next start goes on here"
    )


def _say_batch(text: str) -> None:
    click.echo(f"{_clock(time.time())}  {text}", err=True)


def _say_event(row: dict[str, Any]) -> None:
    where = f" {row['topic']}-{row['partition']}" if row["topic"] is not None else ""
    click.echo(f"{_clock(row['at_ms'] / 1000)}  {row['kind']} {row['change']}: {row['group_id']}{where}: {row['text']}")


def _clock(time_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time_s))


def wanted(given: dict[str, Any]) -> Any:
    """The Job that the options ask for. SourceError."""
    from coordinatord.pipeline.analysis.status import Rules
    from coordinatord.pipeline.run.ingest import Job
    from coordinatord.pipeline.source.frames import Source
    from coordinatord.pipeline.source.options import broker_settings, check_address
    from coordinatord.pipeline.source.segments import SourceError
    from coordinatord.pipeline.tables import TABLES
    from coordinatord.pipeline.tables.inputs import TableOptions

    sources, bootstrap = given["sources"], given["bootstrap"]
    if bool(sources) == bool(bootstrap):
        raise SourceError("say where the log is: --source DIR, or --bootstrap HOST:PORT, one of both")
    if bootstrap:
        check_address("--bootstrap", bootstrap)
    for name in given["tables"]:
        if name not in TABLES:
            raise SourceError(f"there is no table {name}; there are {', '.join(TABLES)}")
    file = given["broker_config"]
    broker = _properties(file) if file is not None else {}
    broker |= dict(_assignment(text, f"--broker-option {text}") for text in given["broker_options"])
    # In steps: each is held in memory or on Spark's disk, and afterwards one can say how far it is.
    steps = {"maxRecordsPerTrigger": STEP_RECORDS} if bootstrap else {"maxBytesPerTrigger": STEP_BYTES}
    source = Source(
        *sources,
        **steps,
        bootstrap=bootstrap,
        groups=given["groups"],
        topics=given["topics"],
        **{f"kafka.{name}": value for name, value in broker.items() if bootstrap},
    )
    options = TableOptions(
        rules=Rules(window_ms=given["window"] * 1000, min_lag=given["min_lag"]),
        retention_ms=given["retention_minutes"] * 60_000,
        consumer_session_ms=given["consumer_session_ms"],
        slo_lag=given["slo_lag"],
        slo_target=given["slo_target"],
        load_rate=given["load_rate"],
    )
    ends = given["end_offsets"] or bootstrap or (sources[0] if Path(sources[0]).is_dir() else None)
    if broker and not bootstrap and (ends is None or Path(ends).is_dir()):
        raise SourceError(
            "--broker-option and --broker-config are for a broker, and there is none: give --bootstrap or "
            "--end-offsets HOST:PORT"
        )
    return Job(source, given["out"], ends, broker_settings(broker), options, given["tables"], given["form"])


def _assignment(text: str, where: str) -> tuple[str, str]:
    from coordinatord.pipeline.source.segments import SourceError

    name, equals, value = text.partition("=")
    if not equals:
        raise SourceError(f"{where}: NAME=VALUE is wanted")
    return name.strip(), value


def _properties(file: Path) -> dict[str, str]:
    """Lines of NAME=VALUE; those that begin with # say nothing. A wrong one is not shown: it may be a password."""
    from coordinatord.pipeline.source.segments import SourceError

    try:
        lines = [line.strip() for line in file.read_text("utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"--broker-config {file} cannot be read: {error}") from None
    numbered = ((line, f"--broker-config {file}, line {number}") for number, line in enumerate(lines, 1))
    found = (_assignment(*each) for each in numbered if each[0] and not each[0].startswith("#"))
    return {name: value.lstrip() for name, value in found}


@pipeline.command()
def tables() -> None:
    """What the tables are: their grain, columns and units, as Markdown."""
    try:
        from coordinatord.pipeline.tables.describe import markdown
    except ModuleNotFoundError as error:
        fail(_no_spark(error))
    click.echo(markdown(), nl=False)


@pipeline.command()
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Where `pipeline run` put its tables.",
)
@click.option("--group", required=True, callback=utf8, help="The group.")
@click.option("--time", "when", required=True, help="03:12 (the last one), 2026-11-21T03:12 or epoch ms; UTC.")
@click.option("--compare", metavar="TIME", help="And what is otherwise at this time.")
@click.option(
    "--csv",
    "csv_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the offsets to a file from which Kafka's kafka-consumer-groups resets the group.",
)
def at(out: Path, group: str, when: str, compare: str | None, csv_path: Path | None) -> None:
    """What a group had committed at a moment, who read what, and how to go back there."""
    try:
        from coordinatord.pipeline.run import at as moments
        from coordinatord.pipeline.source.frames import start_spark
        from coordinatord.pipeline.source.segments import SourceError
    except ModuleNotFoundError as error:
        fail(_no_spark(error))
    try:
        now_ms = int(time.time() * 1000)
        times = [moments.parse_time(text, now_ms) for text in (when, compare) if text is not None]
        moments.check_facts(out)
        found = []
        with Shown() as progress:
            progress.stage("starting Spark")
            spark = start_spark(**QUIET)
            spark.sparkContext.setLogLevel("ERROR")
            for number, at_ms in enumerate(times):
                progress.stage("reading what was kept of the group", number, len(times))
                found.append(moments.moment(spark, out, group, at_ms))
    except SourceError as error:
        fail(f"{str(error).rstrip('.')}.", status=BAD_SETTINGS)
    for line in moments.tell(group, found[0]):
        click.echo(line)
    if compare is not None:
        for line in moments.compare(*found):
            click.echo(line)
    if csv_path is not None:
        try:
            csv_path.write_text("".join(f"{line}\n" for line in moments.csv_lines(found[0])), "utf-8")
        except OSError as error:
            fail(f"{csv_path} cannot be written: {error.strerror or error}.")
    click.echo(
        "To reset the group to these offsets, stop its members"
        + ("" if csv_path else ", write them to a file with --csv FILE")
        + " and (with --dry-run first) run\n  kafka-consumer-groups --bootstrap-server HOST:PORT "
        f"--group {shlex.quote(group)} --reset-offsets --from-file {csv_path or 'FILE'} --execute"
    )


@pipeline.command()
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Where `pipeline run` put its tables.",
)
@click.option("--html", "html_path", required=True, type=click.Path(path_type=Path, dir_okay=False), help="The file.")
@click.option("--group", "chosen", multiple=True, callback=utf8, help="Show this group in full. Can be repeated.")
@click.option(
    "--limit", default=12, show_default=True, type=click.IntRange(1, 200), help="Without --group: so many, by urgency."
)
def report(out: Path, html_path: Path, chosen: tuple[str, ...], limit: int) -> None:
    """Write the tables as one HTML file: who needs attention, and each group's members, rebalances and lag in time.

    Reads the tables of the last run, and needs no Spark.
    """
    try:
        import plotly  # noqa: F401  # better before the tables are read than after

        from coordinatord.pipeline.report.page import page
        from coordinatord.pipeline.report.read import read
        from coordinatord.pipeline.source.segments import SourceError
    except ModuleNotFoundError as error:
        fail(f"A report needs plotly and pyarrow: {how_to_install('plot', 'spark')} ({error}).")
    try:
        with Shown() as progress:
            progress.stage("reading the tables")
            tables = read(out, limit, chosen)
            progress.stage("drawing", 0, max(1, len(tables.shown)))
            text = page(tables, progress)
    except SourceError as error:
        fail(f"{str(error).rstrip('.')}.", status=BAD_SETTINGS)
    try:
        html_path.write_text(text, "utf-8")
    except OSError as error:
        fail(f"{html_path} cannot be written: {error.strerror or error}.")
    click.echo(f"{html_path}: {len(text) / 1e6:.1f} MB; open it in a browser")
