"""Good standing: the heartbeats that need not be looked at.

A consumer sends the same heartbeat over and over; only the number that its answer comes back with differs. As long as
nothing happens to its group, each is answered as the one before, without an error, and all that it does is to move its
member's deadline. So who has been answered well is kept under the bytes of its heartbeat, and the shell, when it finds
the same bytes again, calls `member.beats(now_ms)` and knows the answer. Bytes are of one version of the API, and each
version has a table of its own.

A standing is given in Stable alone, and ends, for good, with whatever could change the answer:

| what happens                                                | who takes it back                                   |
|-------------------------------------------------------------|-----------------------------------------------------|
| the group leaves Stable, for whatever reason                | `Group.transition_to`, from all members             |
| the member goes: it leaves, expires, is replaced or removed | `remove_member`, `replace_static_member`            |
| the group is buried: deleted, or not served here any more   | `bury`, by way of its transition                    |
| something about members is logged: heartbeats wait for that | the shell, from all members (GroupActor.apply)      |

Within Stable nothing else that `classic.heartbeat` looks at can change: neither the generation, nor who is a member,
nor whose an instance id is. A session timeout may, and is not part of the standing.

A member has one standing at most, so there are never more than members.
"""

from __future__ import annotations

from typing import Final

from coordinatord.group.state import Group, Standings
from coordinatord.group.states import STABLE

MAX_HEARTBEAT_BYTES: Final = 512
"""Longer heartbeats are looked at each time: a member keeps what its client has made up, client id and unknown tags
included. Consumers send about 100 bytes, with the longest usual names 300.
"""


def stand(group: Group, member_id: str, heartbeat: bytes, standings: Standings) -> None:
    """After a heartbeat that was answered without an error: its like will be, until the standing is taken back."""
    if group.state is STABLE and len(heartbeat) <= MAX_HEARTBEAT_BYTES:
        member = group.members[member_id]
        member.lose_standing()  # under what it said before: it has become another client, or another version
        member.standings = standings
        member.heartbeat = heartbeat
        standings[heartbeat] = member
