"""Worlds whose log is in a database: its model (tests/server/postgresql/model.py), and the store's own code above it,
that for commits whose fate is not known as well (tests/server/postgresql/client.py).

Each process that starts takes the lead with a new term and makes its working copy from the rows, as a node on another
machine does; what it had on its disk is gone with it. StoreFlusher, CopyDisk, working_copy and the cleaner are the
daemon's own. The copy is in a directory of this machine, which no invariant knows of.

Besides what happens in every world, connections to the database are lost before or after a commit, also several times
in a row; a process dies before its commit, after it, or with its statement under way, which then arrives when another
node leads, or before; another node takes the lead while this one writes, also between a commit whose answer was lost
and the next attempt. What must hold is what must hold in every world, and: nothing of a former leader changes a row, a
leader finds the tables as it believes them to be, and at rest its copy has the rows and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from coordinatord.broker.log.data_dir import DataDirectory
from coordinatord.broker.topics import Topics, catalogue_file
from coordinatord.server.daemon.storage import DirectoryStorage
from coordinatord.server.postgresql import working_copy
from coordinatord.server.postgresql.contract import Fenced, Growth, Held, PartitionKey, Row, Unusable
from coordinatord.server.postgresql.copy_disk import CopyDisk, UnflushedDisk
from coordinatord.server.postgresql.store_flusher import StoreFlusher
from tests.server.postgresql.client import ClientStore
from tests.server.postgresql.model import LOST_AFTER, LOST_BEFORE, ModelDatabase, ModelStore
from tests.testing.simulation.disk import DiskWorker
from tests.testing.simulation.invariants import Watch
from tests.testing.simulation.nodes import CLUSTER_ID, Machine, Restarts
from tests.testing.simulation.plan import MINUTE_MS, Plan
from tests.testing.simulation.troubles import Troubles
from tests.testing.simulation.world import World

if TYPE_CHECKING:
    from tests.testing.simulation.nodes import Node, SimulatedDaemon

T = TypeVar("T")

OFTEN = 0.7
"""How often something happens to the database's connections with another trouble."""

MEMORY = "/dev/shm"
"""Where Linux keeps files in memory: a thousand copies need no disk."""

LATE_MS = (0, 20, 300, 5_000)
"""How much later a statement of a process that has died arrives."""


class Dead(BaseException):
    """The process dies here: nobody catches it but the thread that runs."""


class WorldDatabase(ModelDatabase):
    """The model. A mistake is put here that leaves its fence out (tests/mutants/simulation.py)."""

    def change(self, term: int, work: Callable[[], T], *, may_be_lost: bool = False) -> T:
        return ModelDatabase.change(self, term, work, may_be_lost=may_be_lost)


class WorldStore(ClientStore):
    """The store of one process. `fates` are those of its next appends: see StoreWorker."""

    def __init__(self, database: ModelDatabase, term: int, machine: StoreMachine) -> None:
        super().__init__(database, term)
        self.machine = machine
        self.fates: deque[str] = deque()
        self.died = False
        self.on_wait = self._between

    def append(self, growths: Sequence[Growth], rows: Sequence[Row]) -> None:
        fate = self.fates.popleft() if self.fates else ""
        counts = self.machine.counts
        if fate:
            counts[fate] += 1
        if fate == "dies before":
            self._die()
        if fate == "dies with its statement under way":
            self.machine.comes_late(self.term, list(growths), [row._replace(batch=bytes(row.batch)) for row in rows])
            self._die()
        if fate == "is followed":
            self.machine.other_node_leads()
        lost = {"is lost before": LOST_BEFORE, "is lost after": LOST_AFTER}.get(fate)
        if lost is not None:
            self._database.faults.append(lost)
        super().append(growths, rows)
        self.machine.counts["looked into"] += self.client.resolved
        self.client.resolved = 0
        if fate == "dies after":
            self._die()

    def _between(self) -> None:
        """An attempt has failed, and the next one is due: meanwhile anything may have happened."""
        happens = self.machine.chance.choice(("nothing", "nothing", "lost again", "follower", "death"))
        self.machine.counts[f"then {happens}"] += 1
        if happens == "lost again":
            self._database.faults.append(self.machine.chance.choice((LOST_BEFORE, LOST_AFTER)))
        elif happens == "follower":
            self.machine.other_node_leads()
        elif happens == "death":
            self._die()

    def _die(self) -> None:
        self._database.faults.clear()
        self.died = True
        raise Dead


FATES = (
    "dies before", "dies after", "dies with its statement under way", "dies with its statement under way",
    "is followed", "is lost before", "is lost after", "is lost after",
)  # fmt: skip


class StoreWorker(DiskWorker):
    """The thread that commits. LogWriter catches what is raised in its job; a process that has died tells nobody."""

    def __init__(self, machine: StoreMachine, node: Node) -> None:
        super().__init__(machine.world.engine, machine.disk, node.random, node.crash)
        self._machine = machine

    def _do(self, job: Callable[[], None]) -> None:
        store = self._machine.store
        assert store is not None
        fault, self.fault = self.fault, None
        if fault == "dies":
            store.fates.append(self.random.choice([fate for fate in FATES if fate.startswith("dies")]))
        elif fault == "fails":
            store.fates.append("is followed")
        self.jobs_done += 1
        job()
        if store.died:
            self.on_death()


class StoreMachine(Machine):
    """The nodes of a cluster, of which one leads at a time, behind an address that follows it; and the database."""

    restarts = Restarts((20, 200, 1_000, 5_000))

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.database = WorldDatabase()
        self.store: WorldStore | None = None
        self.chance = world.engine.chance("store")
        self.counts: Counter[str] = Counter()
        self.crashes = 0
        self.scratch = Path(
            tempfile.mkdtemp(prefix="coordinatord-world-", dir=MEMORY if os.path.isdir(MEMORY) else None)
        )

    def open_storage(self, daemon: SimulatedDaemon) -> DirectoryStorage:
        settings = self.world.settings
        self.database.epoch += 1
        store = self.store = WorldStore(self.database, self.database.epoch, self)
        path = self.scratch / f"copy-{store.term}"
        working_copy.make(store, path, cluster_id=CLUSTER_ID, node_id=settings.node_id, disk=UnflushedDisk())
        disk = CopyDisk(store, str(path))
        data = DataDirectory.open(
            str(path), node_id=settings.node_id, cluster_id=CLUSTER_ID, disk=disk,
            config_for=lambda topic: Topics.log_config(settings, topic), catalogued=catalogue_file.catalogued,
        )  # fmt: skip
        storage = DirectoryStorage(data)
        storage.flusher = StoreFlusher(store, data, disk)  # type: ignore[assignment]
        return storage

    def worker_of(self, node: Node) -> DiskWorker:
        return StoreWorker(self, node)

    def process_gone(self, daemon: SimulatedDaemon | None) -> None:
        if daemon is not None:
            self.crashes += daemon.failed is not None or not daemon.node.stopping
            with contextlib.suppress(OSError):
                daemon.data.close()
            shutil.rmtree(daemon.data.path, ignore_errors=True)

    def other_node_leads(self) -> None:
        """It is the process that starts next; it has taken the lead already."""
        self.world.story.say("database", f"another node takes the lead from term {self.database.epoch}")
        self.database.epoch += 1

    def comes_late(self, term: int, growths: Sequence[Growth], rows: Sequence[Row]) -> None:
        """A statement whose process has died: the server has it, or will get it."""
        at_ms = self.world.engine.now_ms + self.chance.choice(LATE_MS)
        self.world.engine.at(at_ms, self._comes, term, growths, rows)

    def _comes(self, term: int, growths: Sequence[Growth], rows: Sequence[Row]) -> None:
        statement = ModelStore(self.database, term)
        try:
            self.database.change(term, lambda: statement._append(growths, rows))
        except Fenced:
            self.counts["late and fenced"] += 1
            return
        except Unusable:
            self.world.watch.fail(
                f"a statement of term {term} arrives in term {self.database.epoch}, and is not fenced"
            )
        self.counts["late and committed"] += 1
        self.world.watch.checks += 1
        if term != self.database.epoch:
            self.world.watch.fail(f"a statement of term {term} changes rows in term {self.database.epoch}")


class StoreWatch(Watch):
    """What must hold everywhere, and of the store."""

    world: StoreWorld

    def ended(self, node: Node, daemon: SimulatedDaemon | None) -> None:
        if daemon is None or not isinstance(daemon.failed, Fenced):
            super().ended(node, daemon)

    def at_rest(self) -> None:
        super().at_rest()
        machine = self.world.machine
        for node in machine.workers:
            assert node.daemon is not None
            data = node.daemon.data
            held = {(each.topic, each.key.partition): each for each in ModelStore(machine.database, 0).partitions()}
            for name, log in data.logs.items():
                self.checks += 1
                if name not in held:
                    if log.end_offset:
                        self.fail(f"{log.name} has records, and the database has none")
                    continue
                rows = self._rows(held[name])
                copy = b"".join(
                    Path(segment.log_path).read_bytes()[: segment.visible_bytes] for segment in log.segments
                )
                if copy != rows or held[name].end_offset != log.end_offset:
                    self.fail(f"{log.name}: the copy is not what the database has")

    def _rows(self, held: Held) -> bytes:
        rows = self.world.machine.database.rows.get(PartitionKey(held.key.topic_id, held.key.partition), {})
        return b"".join(bytes(row.batch) for _base, row in sorted(rows.items()))


class StoreTroubles(Troubles):
    """Those of every world, and more of those that the next append meets."""

    world: StoreWorld

    def befall(self) -> None:
        super().befall()
        machine = self.world.machine
        node = self._any_node()
        if node is not None and machine.store is not None and machine.chance.random() < OFTEN:
            fate = machine.chance.choice(FATES)
            self.world.story.say(node.name, f"its next commit {fate}")
            machine.store.fates.append(fate)
            self.work()


class StoreWorld(World):
    """See the module."""

    watch_type = StoreWatch
    machine_type = StoreMachine
    machine: StoreMachine
    watch: StoreWatch

    def __init__(self, seed: int, *, plan: Plan | None = None, trace: bool = False) -> None:
        plan = plan or Plan.of(seed)
        plan = replace(plan, nodes=1, most_nodes=1, flush="always")
        super().__init__(seed, plan=plan, trace=trace)
        self.troubles = StoreTroubles(self)

    def run(self) -> Any:
        try:
            return super().run()
        finally:
            for fate, count in self.machine.counts.items():
                self.counts.troubles[fate] = count
            shutil.rmtree(self.machine.scratch, ignore_errors=True)

    def _calm(self) -> None:
        if self.machine.store is not None:
            self.machine.store.fates.clear()
            self.machine.database.faults.clear()
        super()._calm()


def crash_plan(seed: int, minutes: int) -> Plan:
    """For many crashes in little time: short sessions, no quiet hours, something every other second."""
    plan = Plan.of(seed)
    groups = tuple(
        replace(each, session_ms=6_000, rebalance_ms=5_000, auto_commit_ms=5_000, members=min(each.members, 2))
        for each in plan.groups[:1]
    )
    return replace(
        plan, groups=groups, chapters=1, mayhem_ms=minutes * MINUTE_MS, quiet_ms=MINUTE_MS, troubles_per_minute=60
    )
