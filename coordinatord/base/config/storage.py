"""Settings of the storage of records. They are rows of the one table (settings.py)."""

from __future__ import annotations

import dataclasses

from coordinatord.base.config.access import AdmissionSettings
from coordinatord.base.config.security import optional_text
from coordinatord.base.config.setting_types import Setting, declared, integer, parsed, storage_address


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class StorageSettings(AdmissionSettings):
    """The settings of the storage: see docs/postgresql.md."""

    storage: str = parsed(
        "directory",
        storage_address,
        "directory, or an address postgresql://…",
        """Where the records are: in the data directory, or in a PostgreSQL database, with a working copy in the data
        directory (docs/postgresql.md).""",
        ours="not in Kafka",
    )
    storage_lease_ms: int = integer(
        5_000,
        "With PostgreSQL: how long another node waits before it takes the lead from one that says nothing.",
        minimum=1_000,
        maximum=600_000,
        ours="not in Kafka",
    )
    storage_leaders: int = integer(
        1,
        """With PostgreSQL: how many nodes lead at a time, each a share of the partitions. It stays as the first start
        with a database sets it. Nodes beyond that number wait, and take the share of one that dies.""",
        minimum=1,
        maximum=500,
        ours="not in Kafka",
    )
    inter_broker_listener_name: str | None = parsed(
        None,
        optional_text,
        "text",
        """The listener at which nodes ask each other, with PLAINTEXT, where several of them lead a share of the
        partitions (storage.leaders). Without it, the first one of listeners.""",
        ours="Kafka's own default is the listener of security.inter.broker.protocol",
    )


ROWS: dict[str, Setting] = {
    name: row for name, row in declared(StorageSettings).items() if name.startswith(("storage", "inter.broker"))
}
"""Dotted name -> row."""
