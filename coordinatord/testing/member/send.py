"""A request that a step asks the shell to send."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

ANY_NODE: Final = -1
"""Send to the least busy of all known nodes, before the first metadata of the bootstrap servers: see nodes.py."""


class Generation(NamedTuple):
    """The member's identity in the group, as of a join."""

    generation_id: int = -1
    member_id: str = ""
    protocol_name: str | None = None


NO_GENERATION: Final = Generation()


@dataclass(slots=True, eq=False)
class Send:
    """A request. `group`: sent on the coordinator's connection, which is separate from the one for data."""

    to: int  # node id, or ANY_NODE
    group: bool
    request: Any
    timeout_ms: int
    generation: Generation = NO_GENERATION  # when this was sent
    context: Any = None  # for the handler of its response
    abandoned: bool = False  # its response must be dropped
    sent_ms: int = 0  # when the step asked for it
