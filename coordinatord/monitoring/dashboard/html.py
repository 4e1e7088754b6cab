"""Colours of the report and of the live page. Plain values: the daemon has no pyarrow."""

from __future__ import annotations

from kafka_wire.records.rebalance_ledger import Why

GREY = "#8a94a0"
LIVES = {
    None: ("there", "#3f7fbf"),
    "left": ("left", "#5aa469"),
    "replaced": ("replaced by a restart", "#b08ac0"),
    "expired": ("expired", "#d1495b"),
    "went": ("went", GREY),
}
"""Name and colour of each way in which a member ended."""

CURVES = ("#e07b39", "#5aa469", "#d1495b", "#8f6bb3", "#c58b2b", "#3aa6a6", "#b56b8f")
"""Colours of the lag of partitions; that of all together has the colour of members that are there."""

TRIGGERS = {
    Why.NEW_MEMBER: "#1f9bb4",
    Why.MEMBER_LEFT: "#5aa469",
    Why.SESSION_EXPIRED: "#d1495b",
    Why.LEADER_REJOINED: "#c58b2b",
    Why.METADATA_CHANGED: "#8f6bb3",
    Why.STATIC_MEMBER_RESTARTED: "#b08ac0",
    Why.NOT_SYNCED: "#e07b39",
    Why.NOT_REVOKED: "#e07b39",
    Why.TOO_MANY_MEMBERS: "#6b7480",
    Why.NOT_REJOINED: "#e07b39",
    Why.LOADED: "#6b7480",
    Why.FORCED: "#6b7480",
    Why.SUBSCRIPTION_CHANGED: "#8f6bb3",
    Why.TOPICS_CHANGED: "#2a9d8f",
    Why.REGEX_RESOLVED: "#6a9fb5",
    "assignor changed": "#b56576",
    Why.CONVERTED: "#7f8c4f",
}
"""Colours of the triggers of rebalances, of both protocols; similar triggers have the same colour."""
