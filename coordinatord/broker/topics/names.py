"""Valid topic names, as in Kafka's `Topic`."""

from __future__ import annotations

from coordinatord.base.topic_names import MAX_TOPIC_CHARACTERS, is_topic_name
from coordinatord.broker.log.names import METADATA_TOPIC
from kafka_wire.records.rebalance_ledger import LEDGER_TOPIC as LEDGER_TOPIC

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"
SHARE_TOPIC = "__share_group_state"
CLUSTER_METADATA_TOPIC = METADATA_TOPIC

INTERNAL = frozenset({OFFSETS_TOPIC, TRANSACTION_TOPIC, SHARE_TOPIC, LEDGER_TOPIC})
"""Topics marked `is_internal`: clients may read but not write them."""

UNLISTED = frozenset({LEDGER_TOPIC})
"""Topics that Kafka does not have, which a response about all topics omits, as Kafka's would. Requests by name find
them.
"""

RESERVED = INTERNAL | {CLUSTER_METADATA_TOPIC}
"""Topics that clients cannot extend or delete here. Kafka's controller protects only the last one; here the
coordinator itself owns their partitions, and replacing them would lose every group.
"""

CREATABLE = frozenset({OFFSETS_TOPIC, TRANSACTION_TOPIC, SHARE_TOPIC})
"""Internal topics that clients may create before their coordinator does, at its first use."""


def why_invalid(name: str) -> str | None:
    """Return the reason why this topic name is not valid, as a sentence; None if the name is valid."""
    if is_topic_name(name):
        return None
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > MAX_TOPIC_CHARACTERS:
        shown = name if len(name) < 1000 else f"{name[:1000]}…"
        reason = f"the length of '{shown}' is longer than the max allowed length {MAX_TOPIC_CHARACTERS}"
    else:
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return f"Topic name is invalid: {reason}"


def has_collision_characters(name: str) -> bool:
    """Return whether a name may collide: Kafka's metrics turn dots into underscores, so two such
    names may become one.
    """
    return "." in name or "_" in name


def collision_key(name: str) -> str:
    """Return a key that is equal for two names that collide."""
    return name.replace(".", "_")
