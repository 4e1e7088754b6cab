"""A tenant of the tests' own is a subclass, which compiled classes cannot have: the interpreted build tests it."""

from __future__ import annotations

from types import FunctionType

from coordinatord.coordination.runtime.actors import Actor

collect_ignore = [] if isinstance(Actor.tell, FunctionType) else ["test_actors.py"]
