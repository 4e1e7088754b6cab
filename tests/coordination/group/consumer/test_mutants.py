"""Each mutant of mutants.py is noticed by Kafka's recorded answers, and the modules as they are are not."""

from __future__ import annotations

import pytest

from tests.coordination.group.consumer.mutants import CASES, MUTANTS, Mutant, mutated, noticed


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_the_mistake_can_be_made(mutant: Mutant) -> None:
    """Its place is still there, once, and what comes out is Python."""
    compile(mutated(mutant), mutant.module, "exec")


@pytest.mark.interpreted  # compiled modules are not loaded anew, and keep the classes of those that are
@pytest.mark.parametrize("kind", CASES)
def test_the_modules_as_they_are_are_found_in_order(kind: str) -> None:
    assert not noticed(None, kind)


@pytest.mark.full
@pytest.mark.interpreted
@pytest.mark.parametrize("name", MUTANTS)
def test_the_mistake_is_noticed(name: str) -> None:
    assert noticed(MUTANTS[name])
