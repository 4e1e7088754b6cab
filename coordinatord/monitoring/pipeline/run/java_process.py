"""Spark's Java process: its reaction to signals when a follower stops, and the log of its death."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

from pyspark.accumulators import AccumulatorTCPServer
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

ENDS_S = 2


class _GoOn:
    """A handler of signals in Java."""

    def handle(self, _signal: Any) -> None:
        """Do nothing."""

    class Java:
        """The Java interfaces of this class, for Py4J."""

        implements = ("sun.misc.SignalHandler",)


def outlives_sigterm(spark: SparkSession) -> None:
    """Make the Java process ignore SIGTERM, as it ignores SIGINT from the start: this process handles both.

    systemd and others send SIGTERM to all processes of a service. If Java ended then, this process could stop no query.
    The Java process ends when this one does.
    """
    ensure_callback_server_started(spark.sparkContext._gateway)
    misc = spark._jvm.sun.misc
    misc.Signal.handle(misc.Signal("TERM"), _GoOn())


def java_has_ended(spark: SparkSession | None) -> bool:
    """Return whether the Java process is gone, or will be in a moment. False if it never began, or not as a child of
    this process.
    """
    process = None if spark is None else getattr(spark.sparkContext._gateway, "proc", None)
    try:
        return process is not None and process.wait(ENDS_S) is not None
    except subprocess.TimeoutExpired:
        return False


def log_to(log: Path) -> None:
    """Write to this file the messages of Py4J and PySpark about a failed batch, and about the death of Java."""
    to_file = logging.FileHandler(log, "a", "utf-8", delay=True)
    logging.getLogger().addHandler(to_file)

    def handle_error(*_: object) -> None:
        logging.getLogger("pyspark").error("the Java process is gone", exc_info=sys.exc_info())

    AccumulatorTCPServer.handle_error = handle_error
