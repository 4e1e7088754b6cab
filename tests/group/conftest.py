"""`pytest tests/group --rewrite` writes what comes out into the scenario files; review the diff."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", default=False, help="write the scenario files' outputs anew")
