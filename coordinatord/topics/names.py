"""What a topic may be called, as Kafka's `Topic` has it."""

from __future__ import annotations

import re

from kafka_wire.records.rebalance_ledger import LEDGER_TOPIC as LEDGER_TOPIC

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"
SHARE_TOPIC = "__share_group_state"
CLUSTER_METADATA_TOPIC = "__cluster_metadata"

INTERNAL = frozenset({OFFSETS_TOPIC, TRANSACTION_TOPIC, SHARE_TOPIC, LEDGER_TOPIC})
"""Topics that `is_internal` marks: clients may read and not write them."""

RESERVED = INTERNAL | {CLUSTER_METADATA_TOPIC}
"""Topics that clients cannot bring about, grow or remove here. Kafka's controller only minds the last one; but here
the coordinator itself owns their partitions, and to replace them under it would lose every group."""

MAX_NAME_CHARACTERS = 249
"""A directory name is 255 bytes at most, and a partition number goes with it."""

_legal = re.compile(r"[a-zA-Z0-9._-]+\Z").match


def why_invalid(name: str) -> str | None:
    """Why a topic cannot have this name, as a sentence; None when it can."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > MAX_NAME_CHARACTERS:
        shown = name if len(name) < 1000 else f"{name[:1000]}…"
        reason = f"the length of '{shown}' is longer than the max allowed length {MAX_NAME_CHARACTERS}"
    elif _legal(name):
        return None
    else:
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return f"Topic name is invalid: {reason}"


def has_collision_characters(name: str) -> bool:
    """Kafka's metrics know topics with dots turned into underscores, so two such names may be one there."""
    return "." in name or "_" in name


def collision_key(name: str) -> str:
    """Names with the same key collide."""
    return name.replace(".", "_")
