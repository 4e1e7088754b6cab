"""What the leader of a group assigns: ranges, or what members keep and then what is left (cooperative)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_wire.codecs import decoder, encode_message
from kafka_wire.records.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition

COOPERATIVE = "cooperative-sticky"


def _versioned(data: bytes) -> tuple[int, bytes]:
    return int.from_bytes(data[:2], "big"), data[2:]


def subscription(data: bytes) -> tuple[int, ConsumerProtocolSubscription]:
    """A member's metadata, with its version."""
    version, body = _versioned(data)
    return version, decoder(ConsumerProtocolSubscription, version)(body, 0, len(body))


def versioned(version: int, message: ConsumerProtocolSubscription | ConsumerProtocolAssignment) -> bytes:
    """Metadata or an assignment, led by its version."""
    return version.to_bytes(2, "big") + encode_message(message, version)


def assignment(version: int, topic: str, partitions: Sequence[int]) -> bytes:
    """What a member is given."""
    topics = [TopicPartition(topic, list(partitions))] if partitions else []
    return versioned(version, ConsumerProtocolAssignment(topics, None))


def assigned(data: bytes) -> list[int]:
    """The partitions of an assignment, of whichever topic: a group has one."""
    if not data:
        return []
    version, body = _versioned(data)
    given = decoder(ConsumerProtocolAssignment, version)(body, 0, len(body))
    return sorted(partition for each in given.assigned_partitions for partition in each.partitions)


def ranges(members: Sequence[str], partitions: int) -> dict[str, list[int]]:
    """Neighbouring partitions for each, in the order of the member ids, the first ones get one more."""
    each, more = divmod(partitions, len(members))
    found, begin = {}, 0
    for number, member_id in enumerate(sorted(members)):
        stop = begin + each + (number < more)
        found[member_id] = list(range(begin, stop))
        begin = stop
    return found


def cooperative(owned: Mapping[str, Sequence[int]], partitions: int) -> dict[str, list[int]]:
    """What each keeps, up to its share, and then what nobody has. What one has to give up it gives up first: the next
    rebalance gives it to another.
    """
    each, more = divmod(partitions, len(owned))
    free = set(range(partitions)) - {partition for has in owned.values() for partition in has}
    found: dict[str, list[int]] = {}
    for member_id in sorted(owned, key=lambda member_id: (-len(owned[member_id]), member_id)):
        share = each + (more > 0)
        found[member_id] = list(owned[member_id][:share])
        more -= len(found[member_id]) > each
    for member_id in sorted(found, key=lambda member_id: len(found[member_id])):
        while free and len(found[member_id]) < each:
            found[member_id].append(free.pop())
    for member_id in sorted(found, key=lambda member_id: len(found[member_id])):
        if free and more > 0 and len(found[member_id]) == each:
            found[member_id].append(free.pop())
            more -= 1
    return {member_id: sorted(partitions) for member_id, partitions in found.items()}
