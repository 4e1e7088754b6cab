"""Settings of the share coordinator. They are rows of the one table (settings.py)."""

from __future__ import annotations

import dataclasses

from coordinatord.base.config.setting_types import Setting, declared, integer
from coordinatord.base.config.storage import StorageSettings


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False, init=False, eq=False)
class ShareCoordinatorSettings(StorageSettings):
    """The settings of the topic `__share_group_state`, which stores the state of share partitions."""

    share_coordinator_state_topic_num_partitions: int = integer(
        50, "Partitions of __share_group_state. Fixed when the first share group uses it.", minimum=1
    )
    share_coordinator_state_topic_segment_bytes: int = integer(
        100 * 1024 * 1024, "Size at which a partition of __share_group_state begins a new segment.", minimum=1
    )
    share_coordinator_load_buffer_size: int = integer(
        5 * 1024 * 1024, "Bytes read at a time while the state of share partitions is loaded.", minimum=1
    )
    share_coordinator_snapshot_update_records_per_snapshot: int = integer(
        500, "Number of update records of a share partition between two snapshots.", maximum=500
    )
    share_coordinator_state_topic_prune_interval_ms: int = integer(
        300_000, "Time between two deletions of redundant records.", minimum=1
    )
    share_coordinator_cold_partition_snapshot_interval_ms: int = integer(
        300_000,
        "Time between two searches for share partitions whose last snapshot is older than this, to repeat it.",
        minimum=1,
    )
    max_share_partitions: int = integer(
        100_000,
        "Maximum number of share partitions with stored state.",
        minimum=1,
        ours="no limit in Kafka; each costs some 1 KiB",
    )


ROWS: dict[str, Setting] = {
    name: row
    for name, row in declared(ShareCoordinatorSettings).items()
    if name.startswith(("share.coordinator.", "max.share."))
}
"""Dotted name -> row."""
