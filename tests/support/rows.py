"""The rows of a parametrized test that a run selects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def selected(session: pytest.Session, test: Callable[..., object]) -> list[dict[str, Any]]:
    """Return the parameters of each selected row of `test`, so that a fixture prepares these rows together, and no
    others when a run repeats some of them.
    """
    rows = [item for item in session.items if isinstance(item, pytest.Function)]
    return [item.callspec.params for item in rows if getattr(item, "function", None) is test]
