"""The metadata log on a simulated disk, with images that keep any record by its name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coordinatord.broker.log.simulated_disk import SimulatedDisk
from coordinatord.broker.log.worker_checkpoints import WorkerShare
from coordinatord.broker.metadata.log import MetadataLog
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.cluster.shared import Shared
from kafka_wire.records.cluster_metadata import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from tests.broker.log.world import World


class Credentials:
    """An image of SCRAM credentials: user and mechanism -> record."""

    def __init__(self) -> None:
        self.by_user: dict[tuple[str, int], UserScramCredentialRecord] = {}

    def replay(self, record: Any) -> None:
        if isinstance(record, RemoveUserScramCredentialRecord):
            self.by_user.pop((record.name, record.mechanism), None)
        else:
            self.by_user[record.name, record.mechanism] = record

    def records(self) -> Iterator[UserScramCredentialRecord]:
        for key in list(self.by_user):
            if key in self.by_user:
                yield self.by_user[key]

    def clear(self) -> None:
        self.by_user.clear()


class Node:
    """One process's log with its credentials, loaded."""

    def __init__(
        self, disk: SimulatedDisk, *, worker: int = 0, shared: Shared | None = None, snapshot_bytes: int = 1 << 20
    ) -> None:
        workers = 1 if shared is None else shared.workers
        nodes = Nodes(worker, worker=worker, workers=workers)
        share = None if shared is None else WorkerShare(worker, nodes.owns, is_recovered=True)
        self.world = World(disk, node_id=worker, share=share)
        self.credentials = Credentials()
        self.metadata = MetadataLog(
            self.world.data,
            self.world.writer,
            self.world.loop.call_soon,
            lambda: 1_000_000,
            nodes,
            shared,
            snapshot_bytes=snapshot_bytes,
        )
        self.metadata.keep(lambda: self.credentials, 11, 22)
        self.metadata.load()

    def put(self, *users: str, iterations: int = 4096) -> int:
        records = [UserScramCredentialRecord(user, 1, b"salt", b"stored", b"server", iterations) for user in users]
        return self.metadata.append(records)

    def remove(self, *users: str) -> int:
        return self.metadata.append([RemoveUserScramCredentialRecord(user, 1) for user in users])

    @property
    def users(self) -> dict[str, int]:
        """User -> iterations."""
        return {user: record.iterations for (user, _mechanism), record in self.credentials.by_user.items()}
