"""Which build this is: the sources as they are, or with the modules that setup.py names as C."""

from __future__ import annotations

from importlib.util import find_spec


def is_compiled() -> bool:
    """Whether the modules that requests go through are C. Imports none of them."""
    found = find_spec("coordinatord.net.router")
    return found is not None and not str(found.origin).endswith(".py")
