"""A partition goes from one worker to another and back, in histories in which workers are killed and the machine
crashes: nothing acknowledged is lost, whoever has written it.

`python -m tests.server.workers.test_hand_over SEED [always|interval|never] [power|kill]` repeats one.
"""

from __future__ import annotations

import sys
from functools import partial

import pytest

from coordinatord.broker.log import DataDirectory, LogConfig
from coordinatord.broker.log.partition_transfer import give_up
from coordinatord.broker.log.simulated_disk import CrashKind, SimulatedCrash, SimulatedDisk
from coordinatord.broker.log.worker_checkpoints import WorkerShare, hand_out, put_together
from coordinatord.broker.log.writer import FlushPolicy
from coordinatord.transport.cluster.nodes import Nodes
from kafka_wire.records.batch import KeyValues
from tests.broker.log.history import Expected, played
from tests.broker.log.world import PATH, World, contents
from tests.server.workers.test_shares import SharedHistory

OFTEN = 0.3
LONGER = 400
"""Operations of the disk that a life may have more than other histories': moves take many."""


class Moved(Nodes):
    """A node, of several that know what was moved where."""

    def __init__(self, worker: int, workers: int, moved: dict[str, int]) -> None:
        super().__init__(worker, worker=worker, workers=workers)
        self.moved = moved

    def worker_of(self, topic: str, partition: int) -> int:
        return self.moved.get(topic, super().worker_of(topic, partition))


class MovingHistory(SharedHistory):
    """Partitions also move."""

    def __init__(self, seed: int, flush: FlushPolicy, kind: CrashKind) -> None:
        super().__init__(seed, flush, kind)
        self.moves = 0

    def _delete_records(self, world: World, name: str) -> None:
        """Of the topics that move, nobody deletes records."""

    def _live(self) -> None:
        if self.disk.crash_after is not None:
            self.disk.crash_after += self.chance.randrange(LONGER)
        workers, moved = self.chance.randint(2, 3), dict[str, int]()
        nodes = [Moved(worker, workers, moved) for worker in range(workers)]
        data = DataDirectory.open(PATH, disk=self.disk, config_for=lambda _topic: self.config)
        hand_out(self.disk, PATH, workers, nodes[0].worker_of)
        worlds = [self._begin(node, is_recovered=True) for node in nodes]
        for _ in range(self.chance.randint(10, 120)):
            worker = self.chance.randrange(workers)
            self._act_as(nodes[worker], worlds[worker])
            if self.disk.crashed:
                raise SimulatedCrash
            if self.chance.random() < OFTEN:
                self._move(nodes, worlds)
            if self.chance.random() < 0.05:
                self._kill(nodes[worker], worlds[worker])
                worlds[worker] = self._begin(nodes[worker], is_recovered=False)
                for name, expected in self.expected.items():
                    if nodes[worker].owns(name, 0):
                        self._check_one(worlds[worker], name, expected)
        for world in worlds:
            world.close()
        if self.disk.crashed:
            raise SimulatedCrash
        assert put_together(self.disk, PATH)
        self.clean_stops += 1
        data.close()

    def _move(self, nodes: list[Moved], worlds: list[World]) -> None:
        """As server/control/partition_move.py: what was written is durable, the log is given up, and another worker
        takes it.
        """
        name = self.chance.choice(self.names)
        giver = nodes[0].worker_of(name, 0)
        taker = self.chance.choice([each for each in range(len(nodes)) if each != giver])
        log = worlds[giver].data.get(name, 0)
        if log is None:
            return
        worlds[giver].settle()
        if self.disk.crashed:
            raise SimulatedCrash
        topic_id = log.topic_id
        give_up(worlds[giver].data, worlds[giver].writer, [log])
        nodes[0].moved[name] = taker
        if self.chance.random() < 0.5:
            worlds[giver].settle()
        worlds[taker].data.take(name, 0, topic_id, self.config)
        self.moves += 1
        self._check_one(worlds[taker], name, self.expected.setdefault(name, Expected()))


run = partial(played, MovingHistory, lives=6)


@pytest.mark.parametrize(
    ("flush", "kind"),
    [
        ("always", "power"),
        pytest.param("always", "kill", marks=pytest.mark.slow),
        pytest.param("interval", "kill", marks=pytest.mark.slow),
    ],
)
def test_nothing_acknowledged_is_lost_when_partitions_move(flush: FlushPolicy, kind: CrashKind) -> None:
    histories = [run(seed, flush, kind) for seed in range(25)]
    assert sum(history.moves for history in histories) > 200
    assert sum(history.kills for history in histories) > 20, "workers that were killed"
    assert sum(history.crashes for history in histories) > 20, "crashes of the machine"
    assert sum(history.acknowledgements for history in histories) > 200


def two_workers(flush: FlushPolicy = "always") -> tuple[SimulatedDisk, list[World], dict[str, int]]:
    disk, moved = SimulatedDisk(1), {"events": 0}
    data = DataDirectory.open(PATH, disk=disk)
    nodes = [Moved(worker, 2, moved) for worker in (0, 1)]
    hand_out(disk, PATH, 2, nodes[0].worker_of)
    data.files.close()
    return disk, [World(disk, flush=flush, share=WorkerShare(node.worker, node.owns, True)) for node in nodes], moved


def test_the_giver_forgets_what_it_gave_and_keeps_the_files() -> None:
    disk, (giver, taker), moved = two_workers()
    giver.writer.append_records(giver.log(), KeyValues([(b"k", b"1")]), 1)
    giver.settle()
    log = giver.log()
    give_up(giver.data, giver.writer, [log])
    giver.settle()
    assert giver.data.get("events", 0) is None
    assert ("events", 0) not in giver.data.flushed_offsets
    assert log.deleted, "a cleaning that has begun stops"
    moved["events"] = 1
    taken = taker.data.take("events", 0, log.topic_id, LogConfig())
    assert contents(taken) == [(0, b"k", b"1")]
    taker.writer.append_records(taken, KeyValues([(b"k", b"2")]), 1)
    taker.settle()
    assert [value for _, _, value in contents(taken)] == [b"1", b"2"]
    disk.crash("power")
    again = DataDirectory.open(PATH, disk=disk)
    assert [value for _, _, value in contents(again.logs["events", 0])] == [b"1", b"2"], "from both journals"


def test_a_partition_without_a_record_is_made_by_whoever_takes_it() -> None:
    _disk, (_giver, taker), _moved = two_workers()
    taken = taker.data.take("events", 0, b"e" * 16, LogConfig())
    taker.writer.append_records(taken, KeyValues([(b"k", b"1")]), 1)
    taker.settle()
    assert contents(taken) == [(0, b"k", b"1")]


if __name__ == "__main__":
    found = run(int(sys.argv[1]), *sys.argv[2:])  # type: ignore[arg-type]
    print(f"{found.moves} moves, {found.kills} kills, {found.crashes} crashes: nothing lost")
