"""`coordinatord pipeline`: tables of lag, status and more from an offsets log, of coordinatord or of any cluster."""

from __future__ import annotations

import os
import shlex
import signal
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from coordinatord.cli.install import how_to_install
from coordinatord.cli.options import BAD_SETTINGS, fail, sentence, utf8
from coordinatord.cli.pipeline_options import (
    OutDirectory,
    check_followers,
    job_of,
    run_options,
    spark_settings,
    undecoded,
)
from coordinatord.cli.progress import Shown
from coordinatord.cli.terminal import echo, echo_text
from coordinatord.cli.times import now_ms, utc

QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.session.timeZone": "UTC",
    "spark.hadoop.fs.defaultFS": "file:///",  # paths of this machine, whatever file system a cluster prefers
    "spark.python.authenticate.socketTimeout": "120s",  # a busy machine is slow to start workers
    "spark.executorEnv.PYTHONSAFEPATH": "1",  # workers import what this process does, wherever it was started
}
FEW_RECORDS = {
    # Code is compiled once, and garbage is collected seldom: a small log leaves few live objects.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:NewRatio=1 "
    "-XX:InitialRAMPercentage=6 -XX:MetaspaceSize=256m",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.sources.bucketing.autoBucketedScan.enabled": "false",  # or Spark makes a session for each cached table
}
"""Spark's configuration for a log that takes less time to read than code for many records takes to compile."""
MOST_URGENT = 20
"""Number of groups that are listed at the end of a run."""
SPARK_LOG = "spark.log"
"""File in OUT with Spark's log. Needed only if Spark fails."""


def _no_spark(error: ModuleNotFoundError) -> str:
    return f"The pipeline needs PySpark: {how_to_install('spark')}, and Java 17 or newer ({error})."


@click.group(name="pipeline")
def pipeline() -> None:
    """Tables and reports from the offsets log of any Kafka cluster."""


@pipeline.command()
@run_options
def run(**given: Any) -> None:
    """Read new records of the log and update the tables.

    A run continues where the last one with the same --out stopped. Without --end-offsets, the ends of partitions are
    looked up where the log is. --follow repeats the run, and prints a line when a group gets stuck, rebalances all the
    time or is about to lose its offsets, and another when that is over.
    """
    try:
        from coordinatord.monitoring.offsets_log.source.segments import SourceError
        from coordinatord.monitoring.offsets_log.source.unreadable_partitions import no_leader
        from coordinatord.monitoring.pipeline.run.delta import delta_settings
        from coordinatord.monitoring.pipeline.run.ingest import SPARKS, cause_of
        from coordinatord.monitoring.pipeline.run.java_process import java_has_ended, log_to
        from coordinatord.monitoring.pipeline.run.preflight import check_run
        from coordinatord.monitoring.pipeline.run.publish import Place, Published
        from coordinatord.monitoring.pipeline.run.update import run as run_pipeline
        from coordinatord.monitoring.pipeline.source.frames import start_spark
    except ModuleNotFoundError as error:
        fail(_no_spark(error))
    spark = None
    try:
        job = job_of(given)
        check_followers(given)
        settings = spark_settings(given)
        extra = delta_settings() if job.format == "delta" else {}
        with Shown() as progress:
            amount = check_run(job, progress)
            if amount.absent:
                echo(f"{no_leader(amount.absent)}: what groups write there comes with a later run", err=True)
            if not given["follow"]:
                job = replace(job, is_small=amount.is_small)
                extra |= FEW_RECORDS if amount.is_small else {}
            progress.stage("starting Spark")
            spark = start_spark(job.out / SPARK_LOG, **(QUIET | extra | settings))
            spark.sparkContext.setLogLevel("ERROR")
            log_to(job.out / SPARK_LOG)
            if not given["follow"]:
                published = None
                if given["work"] is not None:
                    progress.stage(f"looking at {given['out']}")
                    published = Published(Place(spark, given["out"]), job.out)
                summary = run_pipeline(spark, job, now_ms=int(time.time() * 1000), progress=progress)
                if published is not None:
                    progress.stage(f"copying the tables to {given['out']}")
                    published.update()
        if given["follow"]:
            _follow(spark, job, given)
            return
    except SourceError as error:
        fail(sentence(error), status=BAD_SETTINGS)
    except SPARKS as error:
        with (job.out / SPARK_LOG).open("a") as log:
            traceback.print_exc(file=log)
        cause = "its Java process has ended. Had it memory enough?" if java_has_ended(spark) else cause_of(error)
        fail(f"Spark failed: {sentence(cause)} {job.out / SPARK_LOG} says more.")
    _print_summary(summary, job, given)


def _print_summary(summary: Any, job: Any, given: dict[str, Any]) -> None:
    """Print a summary of the run and the groups that need attention."""
    count = len(summary.rows)
    echo(
        f"{sum(summary.new.values()):,} new records in {summary.seconds:.1f} s; "
        f"{count} table{'' if count == 1 else 's'} in {str(given['out']).rstrip('/')}/tables"
    )
    if job.format != "delta" and "group_status" in summary.rows:
        for line in _urgent_groups(job.out):
            echo(line)
    for each in summary.missing:
        echo(sentence(each), err=True)
    quarantined = summary.new.get("quarantine", 0)
    if quarantined:
        echo(f"{undecoded(quarantined)}: see {job.out / 'facts' / 'quarantine'}", err=True)


def _urgent_groups(out: Path) -> Iterator[str]:
    """Yield the lines that `coordinatord lag` would print for the most urgent groups; the page has the others."""
    from coordinatord.cli.lag import group_lines, headline
    from coordinatord.monitoring.analysis.severity import is_urgent
    from coordinatord.monitoring.pipeline.report.read import read_groups

    at_ms, groups, members = read_groups(out)
    urgent = [row for row in groups if is_urgent(row.status)]
    yield ""
    yield headline(at_ms, groups)
    if urgent:
        yield ""
        yield from group_lines(at_ms, urgent[:MOST_URGENT], members)
    if len(urgent) > MOST_URGENT:
        yield f"and {len(urgent) - MOST_URGENT:,} more"
    yield ""
    yield f"All groups as a page: coordinatord pipeline report --out {shlex.quote(str(out))} --html lag.html"


def _follow(spark: Any, job: Any, given: dict[str, Any]) -> None:
    """Repeat the run until a signal. A second signal ends it at once, which loses only the batch in progress."""
    from coordinatord.monitoring.analysis.changes import Thresholds
    from coordinatord.monitoring.pipeline.run.follow import Follower
    from coordinatord.monitoring.pipeline.run.java_process import outlives_sigterm

    count, window_s = given["storm"]
    thresholds = Thresholds(
        stuck_ms=given["stuck_after"] * 1000,
        storm_count=count,
        storm_ms=window_s * 1000,
        expiring_ms=round(given["expiring_within"] * 3_600_000),
    )
    follower = Follower(
        spark, job, round(given["interval"] * 1000), thresholds, say=_print_batch, say_event=_print_event
    )

    def stop(number: int, _frame: Any) -> None:
        if follower.stop.is_set():
            os._exit(128 + number)
        echo("stopping after the current batch; a second signal stops at once", err=True)
        follower.stop.set()

    outlives_sigterm(spark)
    # Spark has set its own handlers, which cancel jobs.
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    echo(f"following, every {given['interval']:g} s; Ctrl-C stops", err=True)
    try:
        done = follower.run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    echo(
        f"stopped: {done.batches:,} batches, {done.records:,} new records, {done.events:,} events in "
        f"{job.out / 'events'}; the next start resumes here"
    )


def _print_batch(text: str) -> None:
    echo(f"{utc(now_ms())}  {text}", err=True)


def _print_event(row: dict[str, Any]) -> None:
    where = f" {row['topic']}-{row['partition']}" if row["topic"] is not None else ""
    echo(f"{utc(row['at_ms'])}  {row['kind']} {row['change']}: {row['group_id']}{where}: {row['text']}")


@pipeline.command()
def tables() -> None:
    """Describe the tables: their grain, columns and units, as Markdown."""
    try:
        from coordinatord.monitoring.pipeline.tables.describe import markdown
    except ModuleNotFoundError as error:
        fail(_no_spark(error))
    echo_text(markdown())


@pipeline.command()
@click.option(
    "--out",
    required=True,
    type=OutDirectory(),
    help="The directory of `pipeline run --out`.",
)
@click.option("--group", required=True, callback=utf8, help="The group.")
@click.option("--time", "when", required=True, help="03:12 (the most recent), 2026-11-21T03:12 or epoch ms; UTC.")
@click.option("--compare", metavar="TIME", help="Also show what differs at this time.")
@click.option(
    "--csv",
    "csv_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the offsets to a file with which Kafka's kafka-consumer-groups can reset the group.",
)
def at(out: Path, group: str, when: str, compare: str | None, csv_path: Path | None) -> None:
    """Show a group's committed offsets and owners at a time, and how to reset the group to it."""
    try:
        from coordinatord.monitoring.offsets_log.source.segments import SourceError
        from coordinatord.monitoring.pipeline.run import group_at as moments
        from coordinatord.monitoring.pipeline.source.frames import start_spark
    except ModuleNotFoundError as error:
        fail(_no_spark(error))
    try:
        now_ms = int(time.time() * 1000)
        times = [moments.parse_time(text, now_ms) for text in (when, compare) if text is not None]
        moments.check_facts(out)
        found = []
        with Shown() as progress, tempfile.TemporaryDirectory() as scratch:
            progress.stage("starting Spark")
            spark = start_spark(Path(scratch) / SPARK_LOG, **QUIET)
            spark.sparkContext.setLogLevel("ERROR")
            for number, at_ms in enumerate(times):
                progress.stage("reading the group's records", number, len(times))
                found.append(moments.moment(spark, out, group, at_ms))
    except SourceError as error:
        fail(sentence(error), status=BAD_SETTINGS)
    for line in moments.tell(group, found[0]):
        echo(line)
    if compare is not None:
        for line in moments.compare(*found):
            echo(line)
    if csv_path is not None:
        try:
            csv_path.write_text("".join(f"{line}\n" for line in moments.csv_lines(found[0])), "utf-8")
        except OSError as error:
            fail(f"{csv_path} cannot be written: {error.strerror or error}.")
    echo(
        "To reset the group to these offsets, stop its members"
        + ("" if csv_path else ", write them to a file with --csv FILE")
        + " and (with --dry-run first) run",
        "  kafka-consumer-groups --bootstrap-server HOST:PORT "
        f"--group {shlex.quote(group)} --reset-offsets --from-file {csv_path or 'FILE'} --execute",
    )


@pipeline.command()
@click.option(
    "--out",
    required=True,
    type=OutDirectory(),
    help="The directory of `pipeline run --out`.",
)
@click.option(
    "--html", "html_path", required=True, type=click.Path(path_type=Path, dir_okay=False), help="The file to write."
)
@click.option("--group", "chosen", multiple=True, callback=utf8, help="Show this group in full. Can be repeated.")
@click.option(
    "--limit",
    default=12,
    show_default=True,
    type=click.IntRange(1, 200),
    help="Without --group: show this many, the most urgent first.",
)
def report(out: Path, html_path: Path, chosen: tuple[str, ...], limit: int) -> None:
    """Write the tables as one HTML file: groups that need attention, and each group's members, rebalances and
    lag over time.

    Reads the tables of the last run, and needs no Spark.
    """
    try:
        from coordinatord.monitoring.offsets_log.source.segments import SourceError
        from coordinatord.monitoring.pipeline.report.page import page
        from coordinatord.monitoring.pipeline.report.read import read
    except ModuleNotFoundError as error:
        fail(f"A report needs pyarrow: {how_to_install('spark')} ({error}).")
    try:
        with Shown() as progress:
            progress.stage("reading the tables")
            tables = read(out, limit, chosen)
            progress.stage("drawing", 0, max(1, len(tables.shown)))
            text = page(tables, progress)
    except SourceError as error:
        fail(sentence(error), status=BAD_SETTINGS)
    try:
        html_path.write_text(text, "utf-8")
    except OSError as error:
        fail(f"{html_path} cannot be written: {error.strerror or error}.")
    echo(f"{html_path}: {len(text) / 1e6:.1f} MB; open it in a browser")
