"""The page of the comparison has every listed difference, and the versions of the scenarios."""

from __future__ import annotations

from pathlib import Path

from tests.clients.families import toolchains
from tests.clients.families.clients import CLIENTS
from tests.clients.surface.differences import KNOWN
from tests.clients.surface.families import FAMILIES, PROGRAMS
from tests.clients.surface.table import PAGE, sections


def test_the_page_tells_of_each_family_and_of_each_listed_difference() -> None:
    """Whether it is stale in other ways is for those who have Kafka."""
    told = sections(PAGE.read_text())
    assert list(told) == [family.name for family in FAMILIES]
    assert KNOWN.keys() <= told.keys()
    for family in FAMILIES:
        assert told[family.name].startswith(f"## {family.name} {family.version}\n")
        for key, reason in KNOWN.get(family.name, {}).items():
            assert f"| {key} |" in told[family.name], f"{family.name} {key}"
            assert f"| {reason} |" in told[family.name], f"{family.name} {key}"


def test_versions_are_those_of_the_scenarios() -> None:
    names = [client.name for client in CLIENTS]
    for family in FAMILIES:
        assert any(name.startswith(family.name) and f" {family.version}" in name for name in names), family.name
    assert modules(PROGRAMS) == modules(toolchains.PROGRAMS)


def modules(programs: Path) -> set[str]:
    """What its go.mod requires, at which version."""
    lines = (programs / "go" / "go.mod").read_text().splitlines()
    return {line.strip().removesuffix(" // indirect") for line in lines if line.startswith("\t")}
