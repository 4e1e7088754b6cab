"""Each mutant of mutants.py is noticed, and the member as it is is not: two seconds for each of them."""

from __future__ import annotations

import pytest

from tests.testing.member.mutants import MUTANTS, Mutant, mutated, noticed_by


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_the_mistake_can_be_made(mutant: Mutant) -> None:
    """Its place is still there, once, and what comes out is Python."""
    compile(mutated(mutant), mutant.module, "exec")


@pytest.mark.full
def test_the_member_as_it_is_is_found_in_order() -> None:
    assert noticed_by("") == ""


@pytest.mark.full
@pytest.mark.parametrize("name", MUTANTS)
def test_the_mistake_is_noticed(name: str) -> None:
    assert noticed_by(name)
