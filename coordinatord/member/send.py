"""A request that a step asks the shell to send."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

ANY_NODE: Final = -1
"""Send to whichever node is least busy; before the first metadata, to a bootstrap server."""


class Generation(NamedTuple):
    """Who we are in the group, as of a join."""

    generation_id: int = -1
    member_id: str = ""
    protocol_name: str | None = None


NO_GENERATION: Final = Generation()


@dataclass(slots=True, eq=False)
class Send:
    """A request. `group`: on the connection to the coordinator, which is kept apart from the one for data."""

    to: int  # node id, or ANY_NODE
    group: bool
    request: Any
    timeout_ms: int
    generation: Generation = NO_GENERATION  # what it was when this was sent
    context: Any = None  # what its answer is for
    abandoned: bool = False  # nobody wants the answer any more
