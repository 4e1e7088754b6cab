"""A request that a step returns for the shell to send."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

ANY_NODE: Final = -1
"""Node id for the least loaded of all known nodes, or of the bootstrap servers before the first
metadata: see nodes.py.
"""


class Generation(NamedTuple):
    """Identity of the member in the group after a join."""

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
    generation: Generation = NO_GENERATION  # at the time of sending
    context: Any = None  # for the handler of its response
    abandoned: bool = False  # its response must be dropped
    sent_ms: int = 0  # time of the step
