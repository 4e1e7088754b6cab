"""Workers with transactions, and the requests between them: carried by hand, in any order, lost when one dies."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coordinatord.broker.log.simulated_disk import SimulatedCrash, SimulatedDisk
from coordinatord.broker.topics.names import OFFSETS_TOPIC, TRANSACTION_TOPIC
from coordinatord.broker.topics.partition_verification import TransactionCoordinator
from coordinatord.coordination.transactions.coordinator import RETRY_MS, MarkerWriter
from coordinatord.coordination.transactions.remote_transactions import SpreadMarkers, SpreadTransactions
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.cluster.partitioner import partition_for
from coordinatord.transport.cluster.peers import LISTENER
from kafka_wire.client import codec_of
from kafka_wire.codecs import encode_message
from tests.broker.topics.world import Context
from tests.coordination.transactions.world import World
from tests.server.workers.world import Workers, WorkerWorld


class TransactionalWorld(WorkerWorld, World):
    """One worker."""

    lives = 0

    def open(self) -> None:
        self.lives += 1
        super().open()

    def marker_writer(self, nodes: Nodes) -> MarkerWriter:
        assert isinstance(self.workers, Cluster)
        return SpreadMarkers(self.markers, nodes, Post(self.workers, self))

    def participants(self, nodes: Nodes) -> TransactionCoordinator:
        assert isinstance(self.workers, Cluster)
        return SpreadTransactions(self.transactions, nodes, Post(self.workers, self))


@dataclass(eq=False)
class Letter:
    """A request from one worker to another. `context` is there when it has been delivered."""

    sender: TransactionalWorld
    life: int
    worker: int
    api_key: int
    api_version: int
    request: bytes
    answered: Callable[[Any], object]
    context: Context | None = None


class Post:
    """What a worker has for peers."""

    def __init__(self, cluster: Cluster, sender: TransactionalWorld) -> None:
        self.cluster = cluster
        self.sender = sender

    def ask(self, worker: int, api_version: int, request: Any, answered: Callable[[Any], object]) -> None:
        assert worker != self.sender.number, "one need not write to oneself"
        encoded = encode_message(request, api_version)
        api_key = codec_of(request, api_version).api_key
        letter = Letter(self.sender, self.sender.lives, worker, api_key, api_version, encoded, answered)
        self.cluster.letters.append(letter)


class Cluster(Workers[TransactionalWorld]):
    """All workers. Clients' requests go to the worker that leads what they are about, as clients find it."""

    def __init__(self, count: int, directory: Path, seed: int = 0, **settings: Any) -> None:
        self.random = random.Random(seed)
        self.letters: list[Letter] = []
        self.kills = 0
        settings.setdefault("transaction_state_log_num_partitions", 4)
        settings.setdefault("offsets_topic_num_partitions", 4)
        super().__init__(count, directory, SimulatedDisk(seed), TransactionalWorld, **settings)
        self.placement = self.worlds[0].nodes()

    # Who leads what

    def of_partition(self, topic: str, index: int) -> TransactionalWorld:
        return self.worlds[self.placement.worker_of(topic, index)]

    def of_id(self, transactional_id: str) -> TransactionalWorld:
        return self.of_partition(TRANSACTION_TOPIC, partition_for(transactional_id, 4))

    def of_group(self, group: str) -> TransactionalWorld:
        return self.of_partition(OFFSETS_TOPIC, partition_for(group, 4))

    # What goes on

    def step(self) -> bool:
        """A little of something, somewhere; False when there is nothing to do but to wait."""
        choices: list[Callable[[], object]] = []
        for world in self.worlds:
            if world.loop.ready:
                choices.append(world.loop.turn)
            if world.worker.jobs:
                choices.append(world.worker.run_one)
        undelivered = [letter for letter in self.letters if letter.context is None]
        choices += [lambda letter=letter: self._deliver(letter) for letter in undelivered]
        choices += [
            lambda letter=letter: self._answer(letter)
            for letter in self.letters
            if letter.context is not None and letter.context.answers
        ]
        if choices:
            self.random.choice(choices)()
        return bool(choices)

    def _deliver(self, letter: Letter) -> None:
        world = self.worlds[letter.worker]
        context = letter.context = Context(world, letter.api_key, letter.api_version)
        context.connection.listener = LISTENER
        request = context.request = context.codec.decode_request(letter.request, 0, len(letter.request))
        response = world.handlers[letter.api_key](context, request)
        if response is not None:
            context.reply(response)

    def _answer(self, letter: Letter) -> None:
        self.letters.remove(letter)
        assert letter.context is not None
        if letter.life == letter.sender.lives:
            letter.answered(letter.context.response)

    def settle(self) -> None:
        """Until nothing is left to do now."""
        while self.step():
            pass

    def pass_time(self, ms: int) -> None:
        for world in self.worlds:
            world.pass_time(ms)

    def finish(self) -> None:
        """Until nothing is left to be tried again either."""
        for _ in range(4):
            self.settle()
            self.pass_time(RETRY_MS)
        self.settle()

    # Deaths

    def kill(self, worker: int, operations: int = 0) -> None:
        """SIGKILL within so many of its next operations on the disk, and its successor."""
        world = self.worlds[worker]
        self.disk.crash_after = self.disk.operations + operations
        try:
            while operations and not self.disk.crashed and (world.loop.ready or world.worker.jobs):
                world.loop.turn()
                world.worker.run_one()
        except SimulatedCrash:
            pass
        self.disk.crash("kill")
        self.kills += 1
        lost = [each for each in self.letters if each.worker == worker or each.sender is world]
        self.letters = [each for each in self.letters if each not in lost]
        self.die(worker)
        self.start_again(worker)
        for letter in lost:
            if letter.sender is not world:
                letter.answered(None)

    def power_failure(self) -> None:
        self.letters.clear()
        self.disk.crash("power")
        self.start_all_again()
