"""The simulated world notices mistakes: see mutants.py."""

from __future__ import annotations

import pytest

from tests.testing.simulation.mutants import (
    MUTANTS,
    NAMES,
    NOTICED_BY,
    Mutant,
    Stale,
    applied,
    function_of,
    hunt_all,
    mutated,
    table,
)

pytestmark = pytest.mark.interpreted


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
def test_a_mutant_still_applies(mutant: Mutant) -> None:
    function = function_of(mutant)
    before = function.__code__
    with applied(mutant):
        after = function.__code__
        assert (after.co_code, after.co_consts, after.co_names) != (before.co_code, before.co_consts, before.co_names)
    assert function.__code__ is before


def test_a_mutant_of_code_that_has_changed_is_an_error() -> None:
    stale = Mutant("stale", MUTANTS[0].where, "what is not there", "pass", "none")
    with pytest.raises(Stale, match="should be there once"):
        mutated(stale)


def test_each_has_a_seed() -> None:
    assert list(NOTICED_BY) == NAMES


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_each_is_noticed() -> None:
    """By the world that is known to; where its story has changed, by another one within a minute of one core's time."""
    outcomes = hunt_all(NAMES)
    print(table(outcomes))
    assert [each.mutant for each in outcomes if not each.what] == []
