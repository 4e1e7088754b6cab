"""Rows of parametrized tests: those that a run selects, and those that the quick tests leave to the step `slow`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def selected(session: pytest.Session, test: Callable[..., object]) -> list[dict[str, Any]]:
    """Return the parameters of each selected row of `test`, so that a fixture prepares these rows together, and no
    others when a run repeats some of them.
    """
    rows = [item for item in session.items if isinstance(item, pytest.Function)]
    return [item.callspec.params for item in rows if getattr(item, "function", None) is test]


def first_quick(seeds: Iterable[int], quick: int = 1) -> list[Any]:
    """Return the seeds as rows, of which all but the first `quick` are marked slow."""
    return [seed if number < quick else pytest.param(seed, marks=pytest.mark.slow) for number, seed in enumerate(seeds)]
