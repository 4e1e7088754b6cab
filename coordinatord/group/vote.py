"""The protocol vote: which of the assignors that everybody supports will be used.

Each member votes for the first protocol on its list that all members support; most votes win. Kafka counts in a Java
HashMap and takes the first maximum it meets, so a tie is decided by how Java hashes the names. We do the same sum, so
that a group that moves between Kafka and us keeps its protocol.
"""

from __future__ import annotations

from coordinatord.group.state import MAX_ID_CHARACTERS, Group
from coordinatord.group.states import EMPTY
from kafka_wire.api.join_group import JoinGroupRequestProtocol
from kafka_wire.java import string_hash


def supports_protocols(group: Group, protocol_type: str, protocols: list[JoinGroupRequestProtocol]) -> bool:
    """Whether somebody with this type and these protocols may join: Empty takes anything that is not empty."""
    if group.state is EMPTY:
        return 0 < len(protocol_type) <= MAX_ID_CHARACTERS and bool(protocols)
    if group.protocol_type != protocol_type:
        return False
    size, supported = len(group.members), group.supported_protocols
    for protocol in protocols:  # noqa: SIM110  # each join of a rebalance comes here: no generator
        if supported.get(protocol.name, 0) == size:
            return True
    return False


def select_protocol(group: Group) -> str:
    """The winner; the group has members, and joins are only accepted as long as they have a protocol in common."""
    size = len(group.members)
    candidates = {name for name, count in group.supported_protocols.items() if count == size}
    if len(candidates) == 1:
        return candidates.pop()  # whoever votes can only vote for this one
    votes: dict[str, int] = {}
    for member in group.members.values():
        choice = next(name for name, _ in member.protocols if name in candidates)
        votes[choice] = votes.get(choice, 0) + 1
    if len(votes) == 1:
        return next(iter(votes))
    most = max(votes.values())
    return next(name for name in in_hash_map_order(list(votes)) if votes[name] == most)


def in_hash_map_order(names: list[str]) -> list[str]:
    """The order in which a java.util.HashMap iterates over `names` that were put into it in this order."""
    buckets = 16
    while len(names) > buckets * 3 // 4:
        buckets *= 2
    return sorted(names, key=lambda name: _spread(string_hash(name) & 0xFFFFFFFF) & (buckets - 1))


def _spread(value: int) -> int:
    return value ^ (value >> 16)
