"""Workers in one process, and the requests between them: carried by hand, in any order, lost when one dies."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from coordinatord.broker.log.simulated_disk import SimulatedCrash, SimulatedDisk
from coordinatord.transport.cluster.peers import LISTENER
from coordinatord.transport.net.cooperative_tasks import CooperativeTask, run_through
from kafka_wire.client import codec_of
from kafka_wire.codecs import encode_message
from tests.broker.topics.world import Context
from tests.server.workers.world import Workers, WorkerWorld


class PostingWorld(WorkerWorld):
    """One worker."""

    lives = 0

    def open(self) -> None:
        self.lives += 1
        super().open()

    @property
    def peers(self) -> Post:
        assert isinstance(self.workers, PostingWorkers)
        return Post(self.workers, self)


@dataclass(eq=False)
class Letter:
    """A request from one worker to another. `context` is there when it has been delivered."""

    sender: PostingWorld
    life: int
    worker: int
    api_key: int
    api_version: int
    request: bytes
    answered: Callable[[Any], object]
    context: Context | None = None


class Post:
    """What a worker has for peers."""

    def __init__(self, cluster: PostingWorkers[Any], sender: PostingWorld) -> None:
        self.cluster = cluster
        self.sender = sender

    def ask(self, worker: int, api_version: int, request: Any, answered: Callable[[Any], object]) -> None:
        assert worker != self.sender.number, "one need not write to oneself"
        encoded = encode_message(request, api_version)
        api_key = codec_of(request, api_version).api_key
        letter = Letter(self.sender, self.sender.lives, worker, api_key, api_version, encoded, answered)
        self.cluster.letters.append(letter)


OneWorld = TypeVar("OneWorld", bound=PostingWorld)


class PostingWorkers(Workers[OneWorld]):
    """All workers."""

    def __init__(self, count: int, directory: Path, world: type[OneWorld], seed: int = 0, **settings: Any) -> None:
        self.random = random.Random(seed)
        self.letters: list[Letter] = []
        self.kills = 0
        super().__init__(count, directory, SimulatedDisk(seed), world, **settings)
        self.placement = self.worlds[0].nodes()

    def of_partition(self, topic: str, index: int) -> OneWorld:
        """The leader of a partition."""
        return self.worlds[self.placement.worker_of(topic, index)]

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
        choices += [lambda letter=letter: self.deliver(letter) for letter in undelivered]
        choices += [
            lambda letter=letter: self._answer(letter)
            for letter in self.letters
            if letter.context is not None and letter.context.answers
        ]
        if choices:
            self.random.choice(choices)()
        return bool(choices)

    def deliver(self, letter: Letter) -> None:
        """Call the handler of a request."""
        world = self.worlds[letter.worker]
        context = letter.context = Context(world, letter.api_key, letter.api_version)
        context.connection.listener = LISTENER
        request = context.request = context.codec.decode_request(letter.request, 0, len(letter.request))
        response = world.handlers[letter.api_key](context, request)
        if isinstance(response, CooperativeTask):
            response = run_through(response.steps)
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
