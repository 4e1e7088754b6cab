"""The table of all settings, in the order in which they are listed."""

from __future__ import annotations

from coordinatord.base.config.access import AdmissionSettings
from coordinatord.base.config.security import ROWS as SECURITY
from coordinatord.base.config.setting_types import Setting, declared
from coordinatord.base.config.settings import Settings
from coordinatord.base.config.share import ROWS as SHARE
from coordinatord.base.config.share_coordinator import ROWS as SHARE_COORDINATOR
from coordinatord.base.config.storage import ROWS as STORAGE

_ADMISSION = {name: row for name, row in declared(AdmissionSettings).items() if name not in SECURITY}
_OTHERS = {**SHARE, **SECURITY, **_ADMISSION, **STORAGE, **SHARE_COORDINATOR}
TABLE: dict[str, Setting] = {name: row for name, row in declared(Settings).items() if name not in _OTHERS} | _OTHERS
"""Dotted name -> row, in the order above."""

ALIASES: dict[str, str] = {alias: row.name for row in TABLE.values() for alias in row.aliases}
"""Another name of a setting -> its name in this table."""

HEADINGS: dict[str, str] = {
    "node.id": "Network",
    "log.dirs": "Log",
    "storage": "PostgreSQL",
    "share.coordinator.state.topic.num.partitions": "State of share groups (KIP-932)",
    "auto.create.topics.enable": "Topics",
    "group.min.session.timeout.ms": "Classic groups",
    "offsets.topic.num.partitions": "Offsets",
    "group.consumer.session.timeout.ms": "Consumer groups (KIP-848)",
    "group.share.session.timeout.ms": "Share groups (KIP-932)",
    "transaction.max.timeout.ms": "Transactions",
    "admin.listeners": "Operation",
    "ssl.keystore.location": "TLS and SASL",
    "authorizer.class.name": "ACLs and quotas",
}
"""First setting of each part of the table -> the part's heading."""
