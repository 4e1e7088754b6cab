"""The options of `coordinatord pipeline run`, and the Job that they describe."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from coordinatord.cli.cluster_options import COMMAND_CONFIG, client_settings
from coordinatord.cli.options import utf8
from coordinatord.monitoring.analysis.load import LOAD_RATE

STEP_BYTES = 256 << 20
STEP_RECORDS = 2_000_000
MOST = 2**31 - 1
"""Maximum of integers: Kafka's settings of this kind have 32 bits."""


def undecoded(count: int) -> str:
    """Return the message about damage in the log, which does not stop reading."""
    return f"{count:,} piece{'' if count == 1 else 's'} of the log could not be decoded"


class OutDirectory(click.Path):
    """A directory for tables. The URL of another file system is rejected: it would become a directory with that
    name.
    """

    def __init__(self) -> None:
        super().__init__(path_type=Path, file_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> Any:
        scheme = re.match(r"([a-zA-Z][a-zA-Z0-9+.-]*):/", str(value))
        if scheme is not None and scheme[1].lower() != "file":
            self.fail(
                f"{value}: tables are written to a directory of this machine only. Copy them from there, or mount "
                f"the {scheme[1]} file system as a directory",
                param,
                context,
            )
        if scheme is not None:
            value = "/" + str(value)[len("file:") :].lstrip("/")
        return super().convert(value, param, context)


class OutPlace(OutDirectory):
    """The output of `run`: a URL is accepted as text, for another file system."""

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> Any:
        scheme = re.match(r"([a-zA-Z][a-zA-Z0-9+.-]*)://[^/]", str(value))
        is_url = scheme is not None and scheme[1].lower() != "file"
        return str(value) if is_url else super().convert(value, param, context)


SOURCE_OPTIONS = (
    click.option(
        "--source",
        "sources",
        multiple=True,
        metavar="DIR|postgresql://…",
        help="A broker's log directory, or coordinatord's setting storage.",
    ),
    click.option("--bootstrap", metavar="HOST:PORT", help="Or a broker to read __consumer_offsets from."),
    click.option(
        "--end-offsets",
        metavar="DIR|HOST:PORT",
        help="Source of the ends of partitions. [the source itself, or the bootstrap broker]",
    ),
    click.option(
        "--broker-option",
        "broker_options",
        multiple=True,
        metavar="NAME=VALUE",
        help="For the broker, under kafka-python's names: security_protocol=SASL_SSL …",
    ),
    click.option(
        "--broker-config",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        help="A file of such lines, which keeps passwords out of the process list.",
    ),
    COMMAND_CONFIG,
)
"""Options for the location of the log and of the ends of partitions."""

JOB_OPTIONS = (
    *SOURCE_OPTIONS,
    click.option(
        "--out", required=True, type=OutPlace(), help="Destination of the tables: a directory, or s3a://… with --work."
    ),
    click.option(
        "--work",
        type=OutDirectory(),
        metavar="DIR",
        help="With --out on another file system: where records and tables are kept, to be copied from.",
    ),
    click.option("--groups", callback=utf8, help="Only these groups: names separated by commas, * and ? allowed."),
    click.option("--topics", callback=utf8, help="Only commits for these topics."),
    click.option("--table", "tables", multiple=True, help="Only this table. Can be repeated."),
    click.option("--format", "form", type=click.Choice(["parquet", "delta"]), default="parquet"),
)
"""Options for the location of the log, the part of it to read, and the location of the tables."""


def _number(name: str, default: int, text: str, least: int = 1) -> Any:
    """Return an option of an integer from `least` on, with its default in the help."""
    return click.option(name, default=default, show_default=True, type=click.IntRange(least, MOST), help=text)


STATUS_OPTIONS = (
    _number("--window", 600, "Seconds of commits that a status is based on."),
    _number("--min-lag", 1, "Ignore lag below this many records."),
    _number(
        "--consumer-session-ms",
        45_000,
        "group.consumer.session.timeout.ms of the cluster, which its log does not have.",
    ),
)
"""Options for the rules of a group's status."""

TABLE_OPTIONS = (
    *STATUS_OPTIONS,
    _number("--retention-minutes", 10_080, "offsets.retention.minutes of the cluster."),
    _number("--slo-lag", 1_000, "A minute is good while the lag is at most this many records.", least=0),
    click.option(
        "--slo-target",
        default=0.99,
        show_default=True,
        type=click.FloatRange(0, 0.999999),
        help="Target share of good minutes.",
    ),
    _number("--load-rate", LOAD_RATE, "Records a second that the cluster's coordinators load when they start."),
)
"""Options for the content of the tables."""

FOLLOW_OPTIONS = (
    click.option("--follow", is_flag=True, help="Repeat until Ctrl-C, and print what changes."),
    click.option(
        "--interval",
        default=30.0,
        show_default=True,
        type=click.FloatRange(0.1, 86_400),
        help="With --follow: seconds from one update to the next.",
    ),
    _number("--stuck-after", 300, "With --follow: seconds without a new offset while the partition grows."),
    click.option(
        "--storm",
        default=(5, 600),
        show_default=True,
        type=(click.IntRange(2, MOST), click.IntRange(1, MOST)),
        metavar="N SECONDS",
        help="With --follow: N rebalances within SECONDS are a storm.",
    ),
    click.option(
        "--expiring-within",
        default=24.0,
        show_default=True,
        type=click.FloatRange(0, 1_000_000, min_open=True),
        help="With --follow: warn this many hours before offsets expire.",
    ),
)
OF_FOLLOWERS = ("interval", "stuck_after", "storm", "expiring_within")
"""Names of FOLLOW_OPTIONS that have no effect without --follow."""


SPARK_OPTIONS = (
    click.option("--master", metavar="URL", help="A Spark cluster: spark://HOST:PORT, yarn, k8s://… [this machine]"),
    click.option(
        "--conf", "confs", multiple=True, metavar="NAME=VALUE", help="A property of Spark's. Can be repeated."
    ),
)
"""Options for the location of Spark."""


def run_options(command: Any) -> Any:
    """Give a command all of these options, in this order."""
    for option in reversed((*JOB_OPTIONS, *TABLE_OPTIONS, *FOLLOW_OPTIONS, *SPARK_OPTIONS)):
        command = option(command)
    return command


def spark_settings(given: dict[str, Any]) -> dict[str, str]:
    """Return Spark's properties from --master and --conf. Raises SourceError."""
    found = dict(_assignment(text, "--conf") for text in given["confs"])
    return found | ({"spark.master": given["master"]} if given["master"] else {})


def check_followers(given: dict[str, Any]) -> None:
    """Reject options without effect. Raises SourceError."""
    from coordinatord.monitoring.offsets_log.source.segments import SourceError

    context = click.get_current_context()
    for name in OF_FOLLOWERS:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE and not given["follow"]:
            raise SourceError(f"--{name.replace('_', '-')} needs --follow")


def job_of(given: dict[str, Any]) -> Any:
    """Return the Job that the options describe. Raises SourceError."""
    from coordinatord.monitoring.analysis.status import Rules
    from coordinatord.monitoring.offsets_log.source.end_offsets import is_place
    from coordinatord.monitoring.offsets_log.source.options import broker_settings, check_address
    from coordinatord.monitoring.offsets_log.source.segments import SourceError
    from coordinatord.monitoring.pipeline.run.ingest import Job
    from coordinatord.monitoring.pipeline.source.frames import Source
    from coordinatord.monitoring.pipeline.tables import TABLES
    from coordinatord.monitoring.pipeline.tables.inputs import TableOptions

    sources, bootstrap = given["sources"], given["bootstrap"]
    if bool(sources) == bool(bootstrap):
        raise SourceError("say where the log is: either --source DIR|postgresql://… or --bootstrap HOST:PORT")
    if bootstrap:
        check_address("--bootstrap", bootstrap)
    for name in given["tables"]:
        if name not in TABLES:
            raise SourceError(f"there is no table {name}; the tables are {', '.join(TABLES)}")
    broker = broker_of(given)
    # In steps: each step is held in memory or on Spark's disk, and progress is known after each of them.
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
    ends = given["end_offsets"] or bootstrap or (sources[0] if is_place(sources[0]) else None)
    if broker and not bootstrap and (ends is None or is_place(ends)):
        raise SourceError(
            "--broker-option, --broker-config and --command-config need a broker: give --bootstrap or "
            "--end-offsets HOST:PORT"
        )
    return Job(source, _work(given), ends, broker_settings(broker), options, given["tables"], given["form"])


def _work(given: dict[str, Any]) -> Path:
    """Return the working directory of the run. Raises SourceError."""
    from coordinatord.monitoring.offsets_log.source.segments import SourceError

    out, work = given["out"], given["work"]
    if isinstance(out, Path):
        if work is not None:
            raise SourceError("--work is for an --out on another file system, such as s3a://…")
        return out
    if work is None:
        raise SourceError(
            f"--out {out} needs --work DIR: a run works in a directory, from which its tables are then copied to {out}"
        )
    if given["follow"] or given["form"] == "delta":
        raise SourceError(f"--{'follow' if given['follow'] else 'format delta'} needs a directory as --out")
    return Path(work)


def broker_of(given: dict[str, Any]) -> dict[str, str]:
    """Return the settings for the broker, as text. Raises SourceError."""
    file = given["broker_config"]
    broker = client_settings(given["command_config"]) | (_properties(file) if file is not None else {})
    return broker | dict(_assignment(text, f"--broker-option {text}") for text in given["broker_options"])


def _assignment(text: str, where: str) -> tuple[str, str]:
    from coordinatord.monitoring.offsets_log.source.segments import SourceError

    name, equals, value = text.partition("=")
    if not equals:
        raise SourceError(f"{where}: expected NAME=VALUE")
    return name.strip(), value


def _properties(file: Path) -> dict[str, str]:
    """Return the properties in lines of NAME=VALUE; lines that begin with # are comments. An error message does not
    quote the line, which may have a password.
    """
    from coordinatord.monitoring.offsets_log.source.segments import SourceError

    try:
        lines = [line.strip() for line in file.read_text("utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"--broker-config {file} cannot be read: {error}") from None
    numbered = ((line, f"--broker-config {file}, line {number}") for number, line in enumerate(lines, 1))
    found = (_assignment(*each) for each in numbered if each[0] and not each[0].startswith("#"))
    return {name: value.lstrip() for name, value in found}
