"""The selection of the protocol: one of the assignors that all members support.

Each member votes for the first protocol on its list that all members support; the most votes win. Kafka counts in a
Java HashMap and takes the first maximum in iteration order, so Java's hash of the names decides a tie. coordinatord
computes the same order, so that a group that moves between coordinatord and Kafka keeps its protocol.
"""

from __future__ import annotations

from coordinatord.coordination.group.state import MAX_ID_CHARACTERS, Group
from coordinatord.coordination.group.states import EMPTY
from kafka_wire.api.join_group import JoinGroupRequestProtocol
from kafka_wire.java import string_hash


def supports_protocols(group: Group, protocol_type: str, protocols: list[JoinGroupRequestProtocol]) -> bool:
    """Return whether a member with this type and these protocols may join. An Empty group accepts every type of 1 to
    MAX_ID_CHARACTERS characters with at least one protocol.
    """
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
    """Return the winner. The group must have members; every accepted join shares a protocol with all members."""
    size = len(group.members)
    candidates = {name for name, count in group.supported_protocols.items() if count == size}
    if len(candidates) == 1:
        return candidates.pop()  # all members must vote for it
    votes: dict[str, int] = {}
    for member in group.members.values():
        choice = next(name for name, _ in member.protocols if name in candidates)
        votes[choice] = votes.get(choice, 0) + 1
    if len(votes) == 1:
        return next(iter(votes))
    most = max(votes.values())
    return next(name for name in in_hash_map_order(list(votes)) if votes[name] == most)


def in_hash_map_order(names: list[str]) -> list[str]:
    """Return the iteration order of a java.util.HashMap into which `names` were put in this order."""
    buckets = 16
    while len(names) > buckets * 3 // 4:
        buckets *= 2
    return sorted(names, key=lambda name: _spread(string_hash(name) & 0xFFFFFFFF) & (buckets - 1))


def _spread(value: int) -> int:
    return value ^ (value >> 16)
