"""A headless Chromium. In CI it has to be there; elsewhere tests without it are skipped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.monitoring.pipeline.browser import chromium
from tests.monitoring.pipeline.report.test_report import out as out  # the tables that the quick tests have, too


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Tab]:
    if chromium.find() is None:
        if os.environ.get("CI") == "true":
            pytest.fail("there is no Chromium: apt-get install chromium")
        pytest.skip("skipped: needs Chromium (apt-get install chromium)")
    with chromium.browser(tmp_path_factory.mktemp("profile")) as tab:
        yield tab
