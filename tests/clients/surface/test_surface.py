"""Every public method of each client, once, on Kafka and on coordinatord: the same outcome, or a listed difference."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.clients.families.program import Command
from tests.clients.families.toolchains import ToolMissing
from tests.clients.surface import run
from tests.clients.surface.compare import problems, rows
from tests.clients.surface.differences import KNOWN
from tests.clients.surface.families import FAMILIES, Family
from tests.clients.surface.run import Side
from tests.clients.surface.table import PAGE, page_with, section, sections
from tests.reference.broker import ReferenceUnavailable, kafka_libs

pytestmark = [pytest.mark.clients, pytest.mark.reference, pytest.mark.timeout(2400)]


def missing(reason: str, *, optional: bool = False) -> None:
    """Skip on a user's machine; fail in CI, where a skipped comparison would look like a passed one."""
    if os.environ.get("CI") == "true" and not optional:
        pytest.fail(reason)
    pytest.skip(f"skipped: {reason}")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    try:
        libs = kafka_libs()
    except ReferenceUnavailable as reason:
        missing(str(reason))
    with run.kafka_side(libs, tmp_path_factory.mktemp("kafka")) as side:
        yield side


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    with run.our_side(tmp_path_factory.mktemp("ours")) as side:
        yield side


@pytest.fixture
def command(family: Family) -> Command:
    try:
        return family.command()
    except ToolMissing as reason:
        missing(f"{family.name} {reason}", optional=family.optional)
        raise AssertionError("unreachable") from reason


@pytest.mark.parametrize("family", FAMILIES, ids=[family.name for family in FAMILIES])
def test_every_call_comes_to_the_same(
    family: Family,
    command: Command,
    kafka: Side,
    ours: Side,
    request: pytest.FixtureRequest,
) -> None:
    known = KNOWN.get(family.name, {})
    on_kafka, on_ours = run.play_both(command, kafka, ours)
    compared = rows(on_kafka.outcomes, on_ours.outcomes, known)
    found = problems(compared, known) + run.reached(command, on_kafka, on_ours, ours)
    assert not found, "\n".join(found)

    text = section(family, compared)
    page = PAGE.read_text() if PAGE.exists() else ""
    if request.config.getoption("--rewrite"):
        PAGE.write_text(page_with(page, family, text))
    else:
        assert sections(page).get(family.name) == text, "run: pytest tests/clients/surface --rewrite"
