"""A headless Chromium. In CI it has to be there; elsewhere tests without it are skipped."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.monitoring.pipeline.browser import chromium
from tests.monitoring.pipeline.report.test_report import out as out  # the tables that the quick tests have, too
from tests.reference.broker import cache_directory, exclusive

AXE = "4.10.3"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


def missing(what: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(f"there is no {what}")
    pytest.skip(f"skipped: needs {what}")


@pytest.fixture(scope="module")  # while Playwright runs, asyncio.run() fails in this thread
def tab() -> Iterator[chromium.Tab]:
    if chromium.find() is None:
        missing("Chromium (apt-get install chromium)")
    if importlib.util.find_spec("playwright") is None:
        missing("Playwright (pip install 'coordinatord[browser]')")
    with chromium.browser() as tab:
        yield tab


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core, of npm, in the cache of the tests."""
    home = cache_directory() / f"axe-core-{AXE}"
    script = home / "node_modules" / "axe-core" / "axe.min.js"
    with exclusive(cache_directory() / "axe.lock"):
        if not script.exists():
            command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(home), f"axe-core@{AXE}"]
            try:
                subprocess.run(command, check=True, capture_output=True, timeout=120)
            except (OSError, subprocess.SubprocessError) as error:
                missing(f"axe-core, which npm installs: {error}")
    return script.read_text()
