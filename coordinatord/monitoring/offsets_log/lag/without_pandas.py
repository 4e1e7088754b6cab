"""Exclusion of pandas from a process that does not use it. Arrow imports pandas wherever it is installed, when it makes
its first array: a sixth of the CPU time that a small log takes.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import Any


class _WithoutPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("this process does without pandas", name=fullname)


def keep_pandas_out() -> None:
    """Make imports of pandas fail for the life of this process. Does nothing if pandas has been imported."""
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _WithoutPandas())
