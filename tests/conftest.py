"""Shared by all tests: the broker that the tests with real clients use, and the daemon's log in failure reports.

pytest tests/clients                        against coordinatord (the default) pytest tests/clients --broker kafka
against Apache Kafka itself, started from Maven: are the tests right? pytest tests/clients --broker HOST:PORT
against a broker that runs already pytest tests/clients --workers 2            against a coordinatord of two nodes
pytest tests/coordination/group tests/testing/member --rewrite   writes the current results into the scenario files;
review the diff
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from coordinatord.base.observe import logger
from kafka_wire import fresh
from tests.clients.kafka_python_joins import finish_joins
from tests.daemon import Daemon, running

# Options of this run are not for runs of pytest that its tests start.
os.environ.pop("PYTEST_ADDOPTS", None)

# The same examples in every run, whatever the machine's speed.
settings.register_profile("tests", deadline=None, derandomize=True, database=None)
settings.load_profile("tests")

OURS = "coordinatord"
KAFKA = "kafka"
LOG_SHOWN_CHARACTERS = 6_000


@pytest.fixture(autouse=True)
def _logs_are_the_tests_own() -> Iterator[None]:
    """A command line that a test calls in this process configures logging, and the next test has nothing of it: each
    line of a daemon in this process would come back through the root logger, over and over.
    """
    root = logging.getLogger()
    level = root.level
    yield
    configured = [each for each in root.handlers if type(each).__module__ == "coordinatord.base.observe.logs"]
    if configured:
        for handler in configured:
            root.removeHandler(handler)
        root.setLevel(level)
        logger.making()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--broker",
        metavar="coordinatord|kafka|HOST:PORT",
        default=os.environ.get("COORDINATORD_TESTS_BROKER", OURS),
        help="the broker that the tests with real clients use (default: they start coordinatord)",
    )
    parser.addoption(
        "--workers",
        metavar="N",
        type=int,
        default=int(os.environ.get("COORDINATORD_TESTS_WORKERS", "1")),
        help="the number of workers of a coordinatord that the tests with real clients start (default: 1)",
    )
    parser.addoption(
        "--rewrite", action="store_true", default=False, help="write the current results into the scenario files"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Without the codecs of the wire no test can run: say it once."""
    finish_joins()
    try:
        fresh.check()
    except fresh.NotGenerated as error:
        pytest.exit(str(error), returncode=pytest.ExitCode.USAGE_ERROR)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Put the daemon's log beside the traceback of a test that failed."""
    report = yield
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            tail = getattr(value, "log_tail", None)
            if callable(tail):
                report.sections.append((f"log of {name}", tail(LOG_SHOWN_CHARACTERS)))
    return report


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon of this test alone, with Kafka's defaults; stopped in order at the end."""
    with running(tmp_path) as started:
        yield started
