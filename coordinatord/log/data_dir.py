"""The data directory: which partitions exist. (Interface; the body follows.)"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coordinatord.log.config import LogConfig
from coordinatord.log.partition_log import PartitionLog


@dataclass(slots=True)
class PartitionRecovery:
    """What opening one partition after an unclean stop had to do."""

    topic: str
    partition: int
    truncated_bytes: int
    truncated_records: int


class DataDirectory:
    path: str
    cluster_id: str
    node_id: int
    logs: dict[tuple[str, int], PartitionLog]
    recovered: list[PartitionRecovery]

    @classmethod
    def open(
        cls,
        path: str,
        *,
        node_id: int = 0,
        cluster_id: str | None = None,
        config_for: Callable[[str], LogConfig] = lambda topic: LogConfig(),
    ) -> DataDirectory:
        """Lock, check, recover. DataDirectoryError or LogDamaged when it must not be used."""
        ...

    def create(self, topic: str, partitions: range, topic_id: bytes, config: LogConfig, *, lazy: bool = False) -> list[PartitionLog]:
        """Directories of new partitions, durable on return; with `lazy` a directory is made by the partition's first write."""
        ...

    def get(self, topic: str, partition: int) -> PartitionLog | None: ...

    def close(self) -> None:
        """After LogWriter.close(): marks the directory as cleanly stopped when the writer ended well, and releases the lock."""
        ...
