"""Several workers' topics in one process: a disk that they share, and each its own event loop, turned by hand."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Generic, TypeVar

from coordinatord.base.config import Settings
from coordinatord.broker.log import DataDirectory
from coordinatord.broker.log.simulated_disk import SimulatedDisk
from coordinatord.broker.log.worker_checkpoints import WorkerShare, hand_out
from coordinatord.broker.topics import catalogue_file
from coordinatord.broker.topics.catalogue import Catalogue
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.cluster.shared import Shared
from tests.broker.log.world import PATH
from tests.broker.topics.world import World

FIRST_ID = 7


class WorkerWorld(World):
    """One of them."""

    def __init__(self, workers: Workers, worker: int, **settings: Any) -> None:
        self.workers = workers
        self.number = worker
        self.is_recovered = True
        super().__init__(workers.disk, **settings)

    def open_data(self) -> DataDirectory:
        share = WorkerShare(self.number, self.nodes().owns, self.is_recovered)
        return DataDirectory.open_share(
            PATH,
            share,
            cluster_id="c",
            node_id=FIRST_ID + self.number,
            catalogued=catalogue_file.catalogued,
            disk=self.disk,
        )

    def shared(self) -> Any:
        return self.workers.shared, self.loop.call_soon

    def nodes(self) -> Nodes:
        count = self.workers.count
        nodes = Nodes(FIRST_ID + self.number, worker=self.number, workers=count)
        nodes.advertise("PLAINTEXT", *(("localhost", 9092 + number) for number in range(count)))
        return nodes

    def new_uuid(self) -> bytes:
        return bytes([self.number + 1]) + super().new_uuid()[1:]

    def open(self) -> None:
        super().open()
        self.topics.follow_deletions()
        self.settle()

    def names(self) -> set[str]:
        return {topic.name for topic in self.topics.catalogue if not topic.internal}


OneWorld = TypeVar("OneWorld", bound=WorkerWorld)


class Workers(Generic[OneWorld]):
    """All of them, with the supervisor's part."""

    def __init__(
        self,
        count: int,
        directory: Path,
        disk: SimulatedDisk | None = None,
        world: type[OneWorld] = WorkerWorld,  # type: ignore[assignment]
        **settings: Any,
    ) -> None:
        self.disk = disk or SimulatedDisk()
        self.count = count
        self.settings = settings
        self.lock_path = str(directory / "lock")
        self._recover()
        self.worlds: list[OneWorld] = []
        for worker in range(count):
            self.worlds.append(world(self, worker, **settings))

    def _recover(self) -> None:
        """What the supervisor does before there are workers."""
        data = DataDirectory.open(PATH, disk=self.disk, catalogued=catalogue_file.catalogued)
        settings = dataclasses.replace(Settings(), **self.settings)
        catalogue = Catalogue(settings, data, Nodes(FIRST_ID), lambda: b"\1" * 16)
        self.shared = Shared(self.count, self.lock_path)
        self.shared.begin(catalogue.change)
        hand_out(self.disk, PATH, self.count, Nodes(0, workers=self.count).worker_of)

    def start_all_again(self) -> None:
        """After the whole machine has crashed."""
        self._recover()
        for world in self.worlds:
            world.is_recovered = True
            world.alarms.clear()
            world.open()

    def __getitem__(self, worker: int) -> OneWorld:
        return self.worlds[worker]

    def tell(self) -> None:
        """What the supervisor does after a change: everybody looks."""
        for world in self.worlds:
            world.topics.catalogue.refresh()
        self.settle()

    def settle(self) -> None:
        for world in self.worlds:
            world.settle()

    def die(self, worker: int) -> None:
        """SIGKILL; the supervisor sees it."""
        self.shared.follow(worker, 0)

    def start_again(self, worker: int) -> None:
        world = self.worlds[worker]
        world.is_recovered = False
        world.alarms.clear()
        world.open()
