"""The build that runs: pure Python, or with the modules listed in setup.py compiled to C."""

from __future__ import annotations

from importlib.util import find_spec


def is_compiled() -> bool:
    """Return whether the modules on the request path are compiled to C. Imports none of them."""
    found = find_spec("coordinatord.transport.net.router")
    return found is not None and not str(found.origin).endswith(".py")
