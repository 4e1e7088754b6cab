"""Fixtures of the container tier: one engine and one running stack for all its tests."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

import pytest

from tests.compose.engine import NEEDS, Engine, EngineUnavailable, running_engine
from tests.compose.images import OWN_BASE_IMAGE, base_image, build_context, image_size_mb
from tests.compose.stack import IMAGE, Stack

# A killed consumer is given up after the shortest session timeout that Kafka's defaults allow.
SETTINGS = {
    "COORDINATORD_IMAGE": IMAGE,
    "SESSION_TIMEOUT_MS": "6000",
    "RECORDS_PER_SECOND": "100",
    # Not the ports of a stack that somebody runs beside the tests.
    "HOST_PORT": "39092",
    "ADMIN_PORT": "39180",
}


def unavailable(reason: str) -> None:
    """Skip on a user's machine; fail in CI, where a skipped tier would look like a passed one."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(f"skipped: needs {NEEDS} ({reason})")


measured: list[str] = []


@contextlib.contextmanager
def timed(what: str) -> Iterator[None]:
    begun = time.monotonic()
    yield
    measured.append(f"{what} {time.monotonic() - begun:.1f} s")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell what building and starting the stack took, also where the tests' output is captured."""
    if measured:
        terminalreporter.write_line(f"compose: {', '.join(measured)}")


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """A container engine that answers."""
    with contextlib.ExitStack() as entered:
        try:
            with timed("engine"):
                running = entered.enter_context(running_engine())
        except EngineUnavailable as missing:
            unavailable(str(missing))
            raise AssertionError("unreachable") from missing
        yield running


@pytest.fixture(scope="session")
def stack(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The compose file's services, built from this checkout and started, with a coordinator that is healthy."""
    try:
        with timed("base image"):
            base = base_image(engine)
    except EngineUnavailable as missing:
        unavailable(str(missing))
        raise AssertionError("unreachable") from missing
    with timed("wheelhouse"):
        context = build_context(engine, base, tmp_path_factory.mktemp("compose"))
    running = Stack(engine, context, {"BASE_IMAGE": base, **SETTINGS})
    try:
        with timed("images"):
            running.build()
        own_mb, base_mb = image_size_mb(engine, IMAGE), image_size_mb(engine, base)
        measured.append(f"image {own_mb:.0f} MB, of which {base_mb:.0f} MB are its base")
        with timed("compose up"):
            running.up()
        yield running
    finally:
        running.down()
        if base == OWN_BASE_IMAGE:
            engine.docker("image", "rm", "--force", base)
