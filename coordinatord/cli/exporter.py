"""The command `coordinatord exporter`: metrics of any Kafka cluster's groups for Prometheus, and a live page."""

from __future__ import annotations

import logging
import re
import signal
import threading
from collections.abc import Callable
from typing import Any

import click

from coordinatord.cli.install import how_to_install
from coordinatord.cli.options import BAD_SETTINGS, fail, sentence
from coordinatord.cli.pipeline_options import MOST, SOURCE_OPTIONS, STATUS_OPTIONS, broker_of
from coordinatord.monitoring.dashboard.view import MAX_GROUPS, MAX_PARTITIONS

INTERNAL = "__.*"


def _expression(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        try:
            re.compile(value)
        except re.error as error:
            raise click.BadParameter(f"{value}: {error}") from None
    return values


def _choice(kind: str, what: str, **default: Any) -> Callable[[Any], Any]:
    text = f"{what}, as Python's regular expressions that match a whole name. Can be repeated."
    option = f"--{kind}"
    return click.option(option, multiple=True, metavar="REGEX", callback=_expression, help=text, **default)


@click.command(name="exporter")
@click.option("--bootstrap", required=True, metavar="HOST:PORT[,…]", help="The cluster.")
@click.option("--listen", default=":9308", show_default=True, metavar="HOST:PORT", help="Address to listen on.")
@click.option("--cluster-name", help="The label cluster_name of all series. [the cluster's id]")
@click.option(
    "--interval",
    default=5.0,
    show_default=True,
    type=click.FloatRange(0.1, 3_600),
    help="Seconds between two reads of the cluster.",
)
@_choice("allow-group", "Only these groups")
@_choice("deny-group", "Not these groups")
@_choice("allow-topic", "Only commits for these topics")
@_choice("deny-topic", "Not for these topics", default=(INTERNAL,), show_default=True)
@click.option(
    "--max-groups", default=MAX_GROUPS, show_default=True, type=click.IntRange(1, MOST), help="More are left out."
)
@click.option(
    "--max-partitions",
    default=MAX_PARTITIONS,
    show_default=True,
    type=click.IntRange(1, MOST),
    help="Limit for all groups together; more are left out. Each costs up to 20 KB of memory.",
)
@click.option(
    "--allowed-host", "allowed_hosts", multiple=True, help="A host name with dots that requests may have; repeatable."
)
@click.option(
    "--log-format", default="auto", type=click.Choice(["auto", "console", "json"]), help="Format of its log lines."
)
def exporter(**given: Any) -> None:
    """Serve metrics of any Kafka cluster's groups, and a live page.

    Reads the offsets log (`__consumer_offsets`) without joining a group, follows it, and asks where partitions end.
    Status, lag and causes are those of `coordinatord lag` and `pipeline run`, by the same rules.

    /metrics, /healthz, /readyz (when the log has been read to its end once), /groups/ (the page).
    """
    from coordinatord.base.observe import logs

    logs.configure(given["log_format"], "info")
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # the watcher logs the failures of kafka-python
    try:
        _serve(given)
    except ModuleNotFoundError as error:
        fail(f"This needs kafka-python, numpy and pyarrow: {how_to_install('lag')} ({error}).")


for _option in (*SOURCE_OPTIONS[3:], *STATUS_OPTIONS):
    exporter = _option(exporter)


def _serve(given: dict[str, Any]) -> None:
    from coordinatord.base.config.address import parse_listener
    from coordinatord.base.config.setting_types import Unacceptable
    from coordinatord.base.observe.admin import AdminError
    from coordinatord.base.observe.health import Health
    from coordinatord.base.observe.logger import get_logger
    from coordinatord.monitoring.offsets_log.source.connecting import check
    from coordinatord.monitoring.offsets_log.source.options import broker_settings, check_address
    from coordinatord.monitoring.offsets_log.source.segments import SourceError

    health = Health()
    try:
        check_address("--bootstrap", given["bootstrap"])
        settings = broker_settings(broker_of(given))
        check(settings)
        watcher = _watcher(given, settings, health)
        from coordinatord.monitoring.exporter.serving import serve

        server = serve(
            parse_listener(given["listen"], "HTTP"), watcher, health, given["cluster_name"], given["allowed_hosts"]
        )
    except Unacceptable as error:
        fail(f"--listen {error}.", status=BAD_SETTINGS)
    except (SourceError, AdminError) as error:
        fail(sentence(error), status=BAD_SETTINGS)
    watcher.start()
    get_logger("coordinatord.monitoring.exporter").info("listening", url=server.url, bootstrap=given["bootstrap"])
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    stop.wait()
    watcher.stop()
    server.stop()


def _watcher(given: dict[str, Any], settings: dict[str, object], health: Any) -> Any:
    from coordinatord.monitoring.analysis.status import Rules
    from coordinatord.monitoring.dashboard.view import Limits
    from coordinatord.monitoring.exporter.choice import Choice
    from coordinatord.monitoring.exporter.reading import Reading
    from coordinatord.monitoring.exporter.watcher import Watcher
    from coordinatord.monitoring.offsets_log.lag.histories import Histories

    reading = Reading(
        Choice(given["allow_group"], given["deny_group"], given["max_groups"]),
        Choice(given["allow_topic"], given["deny_topic"]),
        Limits(given["max_groups"], given["max_partitions"]),
        Rules(window_ms=given["window"] * 1000, min_lag=given["min_lag"]),
        Histories(given["consumer_session_ms"], is_counting=False),
    )
    return Watcher(given["bootstrap"], settings, reading, health, interval_s=given["interval"])
