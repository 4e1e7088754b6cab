"""Where the tests of this folder find their Kafka: a broker that runs, or a fixture of coordinatord's pytest plugin."""

from __future__ import annotations

import itertools
import os

import pytest

ADDRESS = "SUITE_BOOTSTRAP"
"""The environment variable with HOST:PORT of a broker; without it each test has a `kafka` of its own."""
_numbers = itertools.count()


@pytest.fixture
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The address of the test's Kafka."""
    address = os.environ.get(ADDRESS)
    return address or str(request.getfixturevalue("kafka").bootstrap_servers)


@pytest.fixture
def name() -> str:
    """The name of the test's topic, group and transactional id: no two tests share one."""
    return f"orders-{next(_numbers)}"
