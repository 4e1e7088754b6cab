"""CRC-32C, as in batches, journals and snapshots: `crc32c(data, start=0)` of the package crc32c.

The package's own `__init__` reads its version from its metadata and builds a command line: fifty modules, among them
`email` and `argparse`, a tenth of a daemon's start. So this module loads only the package's extension module, if there
is one.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from types import ModuleType

Crc = Callable[..., int]


def _extension() -> ModuleType | None:
    """Return the module `crc32c._crc32c`; None if the package is built without it."""
    package = PathFinder.find_spec("crc32c")
    if package is None or package.submodule_search_locations is None:
        return None
    found = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
    if found is None or found.loader is None:
        return None
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module


def _load() -> Crc:
    function: Crc | None = getattr(_extension(), "crc32c", None)
    if function is None:
        import crc32c

        function = crc32c.crc32c
    return function


crc32c: Crc = _load()
"""Checksum of bytes; `crc32c(more, before)` continues a checksum `before`."""
