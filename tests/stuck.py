"""End the process of a test that is stuck where pytest's timeout does not reach it.

That timeout raises an exception from a signal handler, and Python calls no handler while the main thread waits in a
library's C code: librdkafka's consumers can wait there for ever when they are closed. The test's tier would wait with
it, and the whole gate would end without a word. So a watchdog of faulthandler, which needs neither the main thread nor
the GIL, says where each thread stands and ends the process. Of pytest-xdist's workers only the one ends; its test has
failed, and another one takes the rest.
"""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Generator

import pytest

LATER_S = 60
"""The time after pytest's own timeout, which is the better one: the tests' processes are ended, too."""
STDERR = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """Keep the standard error while nobody captures it."""
    config.stash[STDERR] = os.dup(2)


def pytest_unconfigure(config: pytest.Config) -> None:
    os.close(config.stash[STDERR])


def timeout_s(item: pytest.Item) -> float:
    """Seconds that pytest-timeout leaves a test; 0 is no limit."""
    marker = item.get_closest_marker("timeout")
    if marker is not None:
        return float(marker.args[0] if marker.args else marker.kwargs["timeout"])
    given = item.config.getoption("timeout")
    return float(item.config.getini("timeout") if given is None else given)


def watch(item: pytest.Item) -> None:
    """Begin to wait for the end of a test, from now."""
    if allowed_s := timeout_s(item):
        faulthandler.dump_traceback_later(allowed_s + LATER_S, exit=True, file=item.config.stash[STDERR])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    watch(item)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """pytest's own plugin for faulthandler has ended the watch, and the fixtures are still to be torn down."""
    if isinstance(node, pytest.Item):
        watch(node)
