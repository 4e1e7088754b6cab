"""Spark's Java process: what it does when a follower is told to stop, and where it is told that it has died."""

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
        """Nothing."""

    class Java:
        """What Py4J wants to know."""

        implements = ("sun.misc.SignalHandler",)


def outlives_sigterm(spark: SparkSession) -> None:
    """From now on the Java process leaves SIGTERM to this one, as it does SIGINT from the start.

    systemd and others send it to all processes of a service. If Java ended then, this process could stop no query. It
    ends when this one does.
    """
    ensure_callback_server_started(spark.sparkContext._gateway)
    misc = spark._jvm.sun.misc
    misc.Signal.handle(misc.Signal("TERM"), _GoOn())


def java_has_ended(spark: SparkSession | None) -> bool:
    """Whether the Java process is gone, or will be in a moment. False if it never began, or not as this one's child."""
    process = None if spark is None else getattr(spark.sparkContext._gateway, "proc", None)
    try:
        return process is not None and process.wait(ENDS_S) is not None
    except subprocess.TimeoutExpired:
        return False


def tell_in(log: Path) -> None:
    """What Py4J and PySpark say of a batch that fails, and of Java when it has died, goes to this file."""
    to_file = logging.FileHandler(log, "a", "utf-8", delay=True)
    logging.getLogger().addHandler(to_file)

    def handle_error(*_: object) -> None:
        logging.getLogger("pyspark").error("the Java process is gone", exc_info=sys.exc_info())

    AccumulatorTCPServer.handle_error = handle_error
