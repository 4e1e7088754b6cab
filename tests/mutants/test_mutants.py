"""Each mutant is noticed, and the code as it is is not."""

from __future__ import annotations

import pytest

from tests.mutants.lists import MUTANTS
from tests.mutants.tool import Mutant, Stale, mutated, noticed_by


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_the_mistake_can_be_made(mutant: Mutant) -> None:
    """Its place is still there, once, and what comes out is other Python."""
    assert mutated(mutant) != mutant.path.read_text("utf-8")
    compile(mutated(mutant), mutant.module, "exec")


@pytest.mark.parametrize(("where", "old"), [("", "not there"), (":mutated", "mutant"), (":nothing", "pass")])
def test_a_mutant_of_code_that_has_changed_is_an_error(where: str, old: str) -> None:
    with pytest.raises(Stale):
        mutated(Mutant(f"tests.mutants.test_mutants{where}", old * 2, "pass", "pytest"))


@pytest.mark.full
@pytest.mark.interpreted  # compiled modules keep the classes of those that are replaced
@pytest.mark.timeout(900)
@pytest.mark.parametrize("command", sorted({each.command for each in MUTANTS.values()}))
def test_the_code_as_it_is_is_found_in_order(command: str) -> None:
    assert noticed_by(None, command) == ""


@pytest.mark.full
@pytest.mark.interpreted
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", MUTANTS)
def test_the_mistake_is_noticed(name: str) -> None:
    assert noticed_by(MUTANTS[name], MUTANTS[name].command, name)
