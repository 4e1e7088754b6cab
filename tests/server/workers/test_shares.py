"""One data directory and several processes: histories in which workers are killed, the machine crashes, and every life
has another number of workers. Between two lives one process opens the directory, as if --workers had been taken back.

`python -m tests.server.workers.test_shares SEED [always|interval|never] [power|kill]` repeats one.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from coordinatord.broker.log import DataDirectory, LogConfig
from coordinatord.broker.log.checkpoint import CLEAN_SHUTDOWN, read_offsets
from coordinatord.broker.log.disk import OsDisk
from coordinatord.broker.log.journal import journal_names
from coordinatord.broker.log.simulated_disk import CrashKind, SimulatedCrash, SimulatedDisk
from coordinatord.broker.log.worker_checkpoints import WorkerShare, hand_out, put_together
from coordinatord.broker.log.writer import FlushPolicy
from coordinatord.transport.cluster.nodes import Nodes
from kafka_wire.records.batch import KeyValues
from tests.broker.log.history import History, played
from tests.broker.log.world import PATH, World, contents

TOPICS = 5


class SharedHistory(History):
    """Each partition's records go through the worker that owns it."""

    def __init__(self, seed: int, flush: FlushPolicy, kind: CrashKind) -> None:
        super().__init__(seed, flush, kind)
        self.names = [f"t{number}" for number in range(TOPICS)]
        self.kills = 0
        self.clean_stops = 0

    def _live(self) -> None:
        workers = self.chance.randint(1, 3)
        nodes = [Nodes(worker, worker=worker, workers=workers) for worker in range(workers)]
        data = DataDirectory.open(PATH, disk=self.disk, config_for=lambda _topic: self.config)
        hand_out(self.disk, PATH, workers, nodes[0].worker_of)
        worlds = [self._begin(node, is_recovered=True) for node in nodes]
        for _ in range(self.chance.randint(10, 120)):
            worker = self.chance.randrange(workers)
            self._act_as(nodes[worker], worlds[worker])
            if self.disk.crashed:
                raise SimulatedCrash
            if self.chance.random() < 0.05:
                self._kill(nodes[worker], worlds[worker])
                worlds[worker] = self._begin(nodes[worker], is_recovered=False)
                for name, expected in self.expected.items():
                    if nodes[worker].owns(name, 0):
                        # What a killed process has removed without an acknowledgement a power cut may bring back.
                        start, acknowledged_start = expected.start, expected.acknowledged_start
                        self._check_one(worlds[worker], name, expected)
                        expected.start, expected.acknowledged_start = start, acknowledged_start
        for world in worlds:
            world.close()
        if self.disk.crashed:
            raise SimulatedCrash
        assert put_together(self.disk, PATH)
        self.clean_stops += 1
        data.close()

    def _begin(self, node: Nodes, *, is_recovered: bool) -> World:
        share = WorkerShare(node.worker, node.owns, is_recovered)
        world = World(self.disk, flush=self.flush, config=self.config, journal_bytes=self.journal_bytes, share=share)
        world.writer._flusher.split_bytes = self.split_bytes
        return world

    def _act_as(self, node: Nodes, world: World) -> None:
        """Something happens in this worker, with its own topics. One that has gone is followed by another's name."""
        everybodys = self.names
        self.names = own = [name for name in everybodys if node.owns(name, 0)]
        before = list(own)
        try:
            if own:
                self._act(world)
            else:
                world.loop.turn()
        finally:
            renamed = dict(zip(before, own, strict=True))
            self.names = [renamed.get(name, name) for name in everybodys]

    def _kill(self, node: Nodes, world: World) -> None:
        """In the middle of what it does to its files; the others' go on, and so does the machine."""
        whole, self.disk.crash_after = self.disk.crash_after, self.disk.operations + self.chance.randint(0, 6)
        with contextlib.suppress(SimulatedCrash):
            for _ in range(30):
                self._act_as(node, world)
                if self.disk.crashed:
                    break
        self.disk.crash("kill")
        self.disk.crash_after = whole
        self.kills += 1


run = partial(played, SharedHistory, lives=6)


@pytest.mark.parametrize(
    ("flush", "kind"),
    [
        ("always", "power"),
        pytest.param("always", "kill", marks=pytest.mark.slow),
        pytest.param("interval", "kill", marks=pytest.mark.slow),
    ],
)
def test_nothing_acknowledged_is_lost_whoever_dies(flush: FlushPolicy, kind: CrashKind) -> None:
    histories = [run(seed, flush, kind) for seed in range(150)]
    assert sum(history.kills for history in histories) > 100, "workers that were killed"
    assert sum(history.crashes for history in histories) > 100, "crashes of the machine"
    assert sum(history.clean_stops for history in histories) >= 5
    assert sum(history.acknowledgements for history in histories) > 500


def worlds_of(path: Path, workers: int) -> tuple[DataDirectory, list[World]]:
    disk: SimulatedDisk = OsDisk()  # type: ignore[assignment]
    data = DataDirectory.open(str(path), disk=disk)
    nodes = [Nodes(worker, worker=worker, workers=workers) for worker in range(workers)]
    hand_out(disk, str(path), workers, nodes[0].worker_of)
    return data, [_World(disk, path, node) for node in nodes]


class _World(World):
    def __init__(self, disk: SimulatedDisk, path: Path, node: Nodes) -> None:
        self.node = node
        super().__init__(disk, share=WorkerShare(node.worker, node.owns, is_recovered=True), path=str(path))


def write_everywhere(worlds: list[World], partitions: int) -> None:
    for world in worlds:
        for partition in range(partitions):
            if world.node.owns("events", partition):  # type: ignore[attr-defined]
                log = world.log("events", partition)
                world.writer.append_records(log, KeyValues([(None, b"%d" % log.end_offset)]), 1)
        world.settle()


def test_a_clean_stop_leaves_what_one_process_leaves(tmp_path: Path) -> None:
    data, worlds = worlds_of(tmp_path, 3)
    write_everywhere(worlds, 6)
    assert len(journal_names([each.name for each in tmp_path.iterdir()])) == 3
    for world in worlds:
        world.close()
    assert put_together(data.disk, data.path)
    data.close()
    names = {each.name for each in tmp_path.iterdir()}
    partitions = {f"events-{number}" for number in range(6)}
    assert names - partitions == {".lock", "meta.properties", "recovery-point-offset-checkpoint", CLEAN_SHUTDOWN}
    points = read_offsets(OsDisk(), str(tmp_path / "recovery-point-offset-checkpoint"))
    assert points == {("events", number): 1 for number in range(6)}


def test_an_unclean_stop_is_no_clean_one(tmp_path: Path) -> None:
    data, worlds = worlds_of(tmp_path, 2)
    write_everywhere(worlds, 4)
    worlds[0].close()
    assert not put_together(data.disk, data.path)
    data.close()
    with contextlib.closing(DataDirectory.open(str(tmp_path))) as again:
        assert not again.was_clean
        assert {key: contents(log) for key, log in again.logs.items()} == {
            ("events", number): [(0, None, b"0")] for number in range(4)
        }


def test_any_number_of_workers_after_any_other(tmp_path: Path) -> None:
    for life, workers in enumerate((1, 2, 5, 3, 1)):
        data, worlds = worlds_of(tmp_path, workers)
        write_everywhere(worlds, 6)
        stop: Callable[[World], object] = World.close if life % 2 else lambda world: world.data.files.close()
        for world in worlds:
            stop(world)
        if life % 2:
            assert put_together(data.disk, data.path)
        data.close()
    with contextlib.closing(DataDirectory.open(str(tmp_path))) as again:
        values = [(offset, None, b"%d" % offset) for offset in range(5)]
        assert {key: contents(log) for key, log in again.logs.items()} == {
            ("events", number): values for number in range(6)
        }


def test_a_worker_forgets_a_removed_partition(tmp_path: Path) -> None:
    """A topic of the same name that is shorter must not be taken for one that has lost its end."""
    data, worlds = worlds_of(tmp_path, 2)
    for _ in range(3):
        write_everywhere(worlds, 2)
    for world in worlds:
        world.close()
    assert put_together(data.disk, data.path)
    data.close()
    data, worlds = worlds_of(tmp_path, 2)
    for world in worlds:
        world.writer.delete(list(world.data.logs.values()))
        world.settle()
    write_everywhere(worlds, 2)
    data.close()  # and no worker closes its log
    with contextlib.closing(DataDirectory.open(str(tmp_path), config_for=lambda _topic: LogConfig())) as again:
        assert [log.end_offset for log in again.logs.values()] == [1, 1]


@pytest.mark.parametrize("starts", [0, 1, 2])
def test_how_far_logs_are_cleaned_outlives_an_unclean_stop(tmp_path: Path, starts: int) -> None:
    """Or all of them would be cleaned from their beginning after each crash. A start may die as well."""
    data, worlds = worlds_of(tmp_path, 2)
    for _ in range(3):
        write_everywhere(worlds, 4)
    for world in worlds:
        world.data.cleaned_offsets.update(dict.fromkeys(world.data.logs, 2))
        world.data.write_cleaned_offsets()
    data.close()  # and no worker closes its log
    for _ in range(starts):
        DataDirectory.open(str(tmp_path)).close()
    data, worlds = worlds_of(tmp_path, 3)
    found = {key: offset for world in worlds for key, offset in world.data.cleaned_offsets.items()}
    assert found == {("events", number): 2 for number in range(4)}
    data.close()


if __name__ == "__main__":
    told = run(int(sys.argv[1]), *sys.argv[2:])  # type: ignore[arg-type]
    print(f"{told.kills} kills, {told.crashes} crashes, {told.acknowledgements} acknowledgements: nothing lost")
