"""Fixtures of the tier that asks Apache Kafka. Without Java or Maven its tests are skipped; in CI they fail."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.reference import broker as reference


def unavailable(reason: str) -> None:
    """Skip on a user's machine; fail in CI, where a skipped comparison would look like a passed one."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(f"skipped: needs {reference.NEEDS} ({reason})")


@pytest.fixture(scope="session")
def kafka_libs() -> Path:
    """The directory with Kafka's jars (`java -cp 'LIBS/*' ...`)."""
    try:
        return reference.kafka_libs()
    except reference.ReferenceUnavailable as missing:
        unavailable(str(missing))
        raise AssertionError("unreachable") from missing


@pytest.fixture(scope="module")
def kafka_broker(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[reference.KafkaBroker]:
    """A running broker of Kafka with its default settings, one for all tests of a module."""
    with reference.running_broker(kafka_libs, tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka_tool(kafka_libs: Path) -> Callable[..., str]:
    """`kafka_tool("DumpLogSegments", "--files", path, ...)` -> what it printed; needs no broker of Kafka's to run."""

    def run(tool: str, *arguments: str, timeout_s: float = reference.TOOL_TIMEOUT_S) -> str:
        return reference.run_tool(kafka_libs, tool, *arguments, timeout_s=timeout_s)

    return run
