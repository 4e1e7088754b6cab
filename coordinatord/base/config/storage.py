"""Settings of the storage of records. They are rows of the one table (settings.py)."""

from __future__ import annotations

import dataclasses

from coordinatord.base.config.security import optional_text
from coordinatord.base.config.setting_types import Setting, declared, integer, parsed, storage_address
from coordinatord.base.config.share import ShareSettings

MAX_LEADERS = 500
"""Largest number of nodes that lead at a time."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False, init=False, eq=False)
class StorageSettings(ShareSettings):
    """The settings of the storage: see docs/postgresql.md."""

    storage: str = parsed(
        "directory",
        storage_address,
        "directory, or an address postgresql://…",
        """Storage of records: the data directory, or a PostgreSQL database, with a working copy in the data
        directory (docs/postgresql.md).""",
        ours="not in Kafka",
    )
    storage_lease_ms: int = integer(
        5_000,
        "With PostgreSQL: time without a sign of life of the leader after which another node takes the lead.",
        minimum=1_000,
        maximum=600_000,
        ours="not in Kafka",
    )
    storage_leaders: int = integer(
        1,
        """With PostgreSQL: number of nodes that lead at a time, each a share of the partitions. Fixed by the
        first start with a database. Nodes beyond that number wait, and take the share of one that dies.""",
        minimum=1,
        maximum=MAX_LEADERS,
        ours="not in Kafka",
    )
    inter_broker_listener_name: str | None = parsed(
        None,
        optional_text,
        "text",
        """The PLAINTEXT listener for requests between nodes, if several of them lead a share of the
        partitions (storage.leaders). Without it, the first one of listeners.""",
        ours="Kafka's own default is the listener of security.inter.broker.protocol",
    )


ROWS: dict[str, Setting] = {
    name: row for name, row in declared(StorageSettings).items() if name.startswith(("storage", "inter.broker"))
}
"""Dotted name -> row."""
