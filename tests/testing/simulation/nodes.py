"""The nodes of the simulated world: the real daemon with its router, connections, actors, timers,
 loader, log writer and cleaner, on a virtual loop, a simulated disk and no sockets.

What is left out of it is what the operating system does: listening (the network's cables come to `Node.accept`), the
workers' Unix sockets, and following the wall clock. `Machine` is the supervisor: it opens the directory, hands it out,
starts its workers, and starts those again that end. Another number of workers at the next start moves partitions from
one node to another, as `--workers` does it.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import coordinatord.server.daemon.daemon
from coordinatord.base.config import Settings
from coordinatord.broker.log import worker_checkpoints
from coordinatord.broker.log.cleaner import InProcess
from coordinatord.broker.log.data_dir import DataDirectory
from coordinatord.broker.log.simulated_disk import SimulatedDisk
from coordinatord.broker.log.worker_checkpoints import WorkerShare
from coordinatord.broker.topics import Topics, catalogue_file
from coordinatord.broker.topics.catalogue import Catalogue
from coordinatord.server.daemon.compaction import Compaction
from coordinatord.server.daemon.daemon import Daemon
from coordinatord.server.daemon.storage import DirectoryStorage
from coordinatord.server.daemon.worker import WorkerConfig
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.net.connection import Connection
from tests.testing.simulation.clocks import Clock, NodeLoop
from tests.testing.simulation.disk import DiskWorker
from tests.testing.simulation.gate import WatchedConnection
from tests.testing.simulation.network import Cable

if TYPE_CHECKING:
    from tests.testing.simulation.world import World

PATH = "/data"
LISTENER = "PLAINTEXT"
FIRST_PORT = 9092
CLUSTER_ID = "simulated"
BEGIN_EXIT_MS = 5


class SharedWords:
    """Stands for coordinatord.transport.cluster.shared.Shared: workers take turns on one virtual clock, so a lock is
    free.
    """

    def __init__(self, workers: int) -> None:
        self.change = 0
        self.metadata_end = 0
        self.groups_change = 0
        self._followed = [0] * workers
        self.told: list[Callable[[], object]] = []

    def changed(self, change: int) -> None:
        self.change = change
        self._tell()

    def metadata_changed(self, end_offset: int) -> None:
        self.metadata_end = end_offset
        self._tell()

    def _tell(self) -> None:
        for tell in list(self.told):
            tell()

    def begin(self, change: int) -> None:
        self.change = change

    def follow(self, worker: int, change: int) -> None:
        self._followed[worker] = change

    @property
    def followed_by_all(self) -> int:
        return min(self._followed)

    def groups_changed(self) -> None:
        self.groups_change += 1
        self._tell()

    def worker_started(self, change: int) -> bool:
        self.change = max(self.change, change)
        self.groups_changed()
        return True

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        yield

    def take(self) -> bool:
        return True

    def give(self) -> None:
        """Nobody else had it."""


class SimulatedDaemon(Daemon):
    """The daemon without what the operating system would do for it."""

    def __init__(self, node: Node, settings: Settings, part: WorkerConfig | None, loop: NodeLoop) -> None:
        self.node = node
        world = node.machine.world
        super().__init__(settings, loop, loop.clock, log_worker=node.worker, part=part, guest=world.guest)
        self.coordinator.new_id = node.machine.new_id

    def _open_storage(self) -> DirectoryStorage:
        return self.node.machine.open_storage(self)

    def open_data(self) -> DataDirectory:
        """The machine's directory, or this worker's share of it."""
        node, settings, part = self.node, self.settings, self.part
        disk = node.machine.disk

        def config_for(topic: str) -> Any:
            return Topics.log_config(settings, topic)

        if part is None:
            return DataDirectory.open(
                PATH,
                disk=disk,
                node_id=settings.node_id,
                cluster_id=CLUSTER_ID,
                config_for=config_for,
                catalogued=catalogue_file.catalogued,
            )
        share = WorkerShare(part.worker, self.nodes.owns, part.is_recovered)
        return DataDirectory.open_share(
            PATH,
            share,
            cluster_id=CLUSTER_ID,
            node_id=settings.node_id,
            disk=disk,
            config_for=config_for,
            catalogued=catalogue_file.catalogued,
        )

    def _make_aside(self, worker: Any) -> None:
        """The workers' lock is held while the catalogue is written. InProcess nobody can wait for it: the write is made
        in the turn of the event loop that has it.
        """

    def _make_compaction(self) -> Compaction:
        return Compaction(
            self.settings,
            self.data,
            self.writer,
            self.loop,
            self.topics,
            self.metrics,
            self.now_ms,
            workshop=InProcess(self.data.disk),
            worker=self.node.cleaner_worker,
        )


class Node:
    """One worker's place: its process comes and goes, its port stays."""

    def __init__(self, machine: Machine, number: int) -> None:
        self.machine = machine
        self.number = number
        self.name = f"node-{number}"
        world = machine.world
        self.random = world.engine.chance(self.name)
        self.clock = Clock(
            world.engine, 1 + self.random.uniform(-1, 1) * world.plan.drift, self.random.randrange(-2_000, 2_000)
        )
        self.daemon: SimulatedDaemon | None = None
        self.loop: NodeLoop | None = None
        self.worker: DiskWorker
        self.cleaner_worker: DiskWorker
        self.life = 0
        self.cables: set[Cable] = set()
        self.backlog: list[Cable] = []
        self.listens = False
        self.stopping = False
        self.disturbed_ms = 0  # when it last stood still, or came back
        self.gone_ms = 0  # when its process last ended

    # As the network sees it

    @property
    def holds_sockets(self) -> bool:
        """The supervisor does, while a worker is down."""
        return self.machine.is_on and self.machine.is_started and self.machine.count > 1

    def is_up(self) -> bool:
        return self.machine.is_on

    @property
    def is_writing(self) -> bool:
        """Something is on its way to the disk."""
        writer = None if self.daemon is None else self.daemon.writer
        return writer is not None and writer.is_writing

    def soon(self, call: Callable[..., object], *args: Any) -> None:
        if self.loop is not None:
            self.loop.call_soon(call, *args)

    def when_it_reads(self, call: Callable[..., object], *args: Any) -> None:
        if self.loop is not None:
            self.loop.when_it_reads(call, *args)

    def accept(self, cable: Cable) -> Connection:
        assert self.daemon is not None
        cable.life = self.life
        return WatchedConnection(self, LISTENER)

    # Its process

    def start(self, *, is_recovered: bool) -> None:
        """Open the log and serve; the groups are loaded while others are served."""
        machine, world = self.machine, self.machine.world
        world.lives += 1
        self.life = world.lives
        self.disturbed_ms = world.engine.now_ms
        self.stopping = False
        self.loop = loop = NodeLoop(world.engine, self.clock)
        self.worker = machine.worker_of(self)
        self.cleaner_worker = DiskWorker(world.engine, machine.disk, self.random, self.crash)
        count = machine.count
        settings = replace(world.settings, node_id=self.number)
        part = None
        if count > 1:
            part = WorkerConfig(
                self.number, count, CLUSTER_ID, {}, {}, None, [f"peer-{n}" for n in range(count)], machine.shared,
                None, is_recovered,
            )  # type: ignore[arg-type]  # fmt: skip
        daemon = self.daemon = SimulatedDaemon(self, settings, part, loop)
        daemon.nodes.advertise(LISTENER, *((f"node-{n}", FIRST_PORT) for n in range(count)))
        if part is not None:
            catalogue: Any = daemon.topics.catalogue
            machine.shared.told.append(lambda: self._heard(daemon))
            catalogue.refresh()
        world.story.say(self.name, f"starts (life {self.life})")
        world.watch.started(self, daemon)
        daemon.begin()
        loop.create_task(self._live(daemon))
        self.listens = True
        world.node_started()
        backlog, self.backlog = self.backlog, []
        for cable in backlog:
            cable.accepted()

    def _heard(self, daemon: SimulatedDaemon) -> None:
        """The supervisor passes on that the catalogue has changed."""
        if self.daemon is daemon:
            catalogue: Any = daemon.topics.catalogue
            self.soon(catalogue.refresh)

    async def _live(self, daemon: SimulatedDaemon) -> None:
        """What cli.serve does: wait, stop in order, exit."""
        await daemon.wait()
        self.listens = False
        self.stopping = True
        self.machine.world.story.say(self.name, "stops" if daemon.failed is None else f"fails: {daemon.failed}")
        code = await daemon.stop()
        self.machine.world.engine.at(self.machine.world.engine.now_ms + BEGIN_EXIT_MS, self._exited, daemon, code)

    def _exited(self, daemon: SimulatedDaemon, code: int) -> None:
        if self.daemon is daemon:
            self.machine.world.story.say(self.name, f"exits with {code}")
            self._gone(told=True)
            self.machine.ended(self, code)

    def stop(self) -> None:
        """SIGTERM."""
        if self.daemon is not None:
            self.daemon.request_stop("told to")

    def crash(self) -> None:
        """SIGKILL, or worse."""
        if self.daemon is not None:
            self.machine.world.story.say(self.name, "is killed")
            self._gone(told=True)
            self.machine.ended(self, -9)

    def _gone(self, *, told: bool) -> None:
        assert self.loop is not None
        daemon, self.daemon = self.daemon, None
        self.gone_ms = self.machine.world.engine.now_ms
        self.listens = False
        self.loop.end()
        self.worker.end()
        self.cleaner_worker.end()
        self.machine.world.watch.ended(self, daemon)
        self.machine.process_gone(daemon)
        for cable in sorted(self.cables, key=lambda each: each.number):
            cable.node_died(told)
        self.cables.clear()

    def pause(self, for_ms: int) -> None:
        """The process stands still."""
        if self.loop is not None and self.daemon is not None:
            self.machine.world.story.say(self.name, f"stands still for {for_ms / 1000:g} s")
            self.loop.pause(for_ms)
            self.disturbed_ms = max(self.disturbed_ms, self.loop.paused_until_ms)

    def crawl(self, turn_ms: int, until_ms: int) -> None:
        """Each turn of the loop takes so long for a while."""
        if self.loop is not None:
            self.loop.turn_ms = turn_ms
            self.disturbed_ms = max(self.disturbed_ms, until_ms)
            self.machine.world.engine.at(until_ms, self.loop.at_full_speed)

    def power_off(self) -> None:
        if self.daemon is not None:
            self._gone(told=False)
        self.backlog.clear()


@dataclass(slots=True)
class Restarts:
    """How long a worker is away, in milliseconds."""

    usual: tuple[int, ...] = (50, 200, 1_000, 5_000, 40_000)


class Machine:
    """All workers, one disk, one supervisor (where there are several workers)."""

    restarts = Restarts()

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.engine.chance("machine")
        self.disk = SimulatedDisk(self.random.randrange(1 << 30))
        self.count = world.plan.nodes
        self.nodes: list[Node] = [Node(self, number) for number in range(world.plan.most_nodes)]
        self.is_on = True
        self.is_started = False
        self.stopping = False
        self.after_stop: Callable[[], None] | None = None
        self.shared: Any = SharedWords(1)
        self._codes: dict[int, int] = {}
        self._ids = world.engine.chance("ids")

    def new_id(self) -> str:
        return f"{self._ids.getrandbits(128):032x}"

    def urandom(self, count: int) -> bytes:
        """Stands for os.urandom."""
        return self._ids.randbytes(count)

    def open_storage(self, daemon: SimulatedDaemon) -> DirectoryStorage:
        """What a process keeps its log in."""
        return DirectoryStorage(daemon.open_data())

    def worker_of(self, node: Node) -> DiskWorker:
        """The thread that writes a process' log."""
        return DiskWorker(self.world.engine, self.disk, node.random, node.crash)

    def process_gone(self, daemon: SimulatedDaemon | None) -> None:
        """What the operating system does for it."""

    @property
    def workers(self) -> list[Node]:
        return self.nodes[: self.count]

    def start(self) -> None:
        """Recover the directory, and start all."""
        self.is_on = self.is_started = True
        self.stopping = False
        self._codes.clear()
        if self.count > 1:
            settings = self.world.settings
            data = DataDirectory.open(
                PATH, disk=self.disk, node_id=settings.node_id, cluster_id=CLUSTER_ID,
                config_for=lambda topic: Topics.log_config(settings, topic), catalogued=catalogue_file.catalogued,
            )  # fmt: skip
            catalogue = Catalogue(settings, data, Nodes(settings.node_id), lambda: self.urandom(16))
            self.shared = SharedWords(self.count)
            self.shared.begin(catalogue.change)
            worker_checkpoints.hand_out(
                self.disk, PATH, self.count, Nodes(settings.node_id, workers=self.count).worker_of
            )
            data.files.close()
            self._supervisors_lock = data
        for node in self.workers:
            node.start(is_recovered=True)

    def ended(self, node: Node, code: int) -> None:
        """A worker has: start it again, unless all shall stop."""
        self._codes[node.number] = code
        if self.count > 1:
            self.shared.follow(node.number, 0)
        else:
            self.disk.unlock(f"{PATH}/.lock")
        if self.stopping:
            if all(each.daemon is None for each in self.workers):
                self._all_stopped()
            return
        after_ms = self.random.choice(self.restarts.usual)
        self.world.engine.at(self.world.engine.now_ms + after_ms, self._start_again, node)

    def _start_again(self, node: Node) -> None:
        if self.is_on and self.is_started and not self.stopping and node.daemon is None and node in self.workers:
            node.start(is_recovered=False)

    def stop(self, then: Callable[[], None]) -> None:
        """SIGTERM to the supervisor; `then` when all have stopped."""
        if self.stopping or not self.is_on:
            return
        self.stopping = True
        self.after_stop = then
        running = [node for node in self.workers if node.daemon is not None]
        for node in running:
            node.stop()
        if not running:
            self._all_stopped()

    def _all_stopped(self) -> None:
        self.is_started = False
        for node in self.nodes:
            node.backlog.clear()
        if self.count > 1:
            if all(code == 0 for code in self._codes.values()):
                worker_checkpoints.put_together(self.disk, PATH)
            self._supervisors_lock.close()
        if self.after_stop is not None:
            self.after_stop()

    def power_off(self) -> None:
        """Everything at once; the disk forgets what was not flushed."""
        self.world.story.say("machine", "loses its power")
        for node in self.workers:
            node.power_off()
        self.is_on = self.is_started = self.stopping = False
        self.disk.crash("power")


@contextlib.contextmanager
def chance_of(machine: Machine) -> Iterator[None]:
    """Topic ids and cluster ids come from the seed."""
    before = coordinatord.server.daemon.daemon.os
    coordinatord.server.daemon.daemon.os = types.SimpleNamespace(urandom=machine.urandom)  # type: ignore[assignment]
    try:
        yield
    finally:
        coordinatord.server.daemon.daemon.os = before
