"""State that several leading nodes share: the catalogue of topics, the blocks of producer ids, the settings of groups,
and the holders of the seats.

Each node has the shared files in its working copy, as workers have them in their directory. A change is made under an
advisory lock of the database, after the newest files have been fetched. The lock only saves futile attempts: each file
has a version, and a change names the version that it was made from (coordinatord_share_file). So a node that was
stopped while it held the lock cannot overwrite changes that others have made meanwhile.

A change with an unknown outcome is reported as failed to its caller. If it was made all the same, the next check finds
it, like a change of another node. Four times a second each node checks for new versions, and reads the registry.

The cluster's records are not in these files, but in a partition of the first seat (cluster_records.py).

Each seat has a small file with its holder's progress in removing the data of deleted topics.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinatord.base.observe.logger import get_logger
from coordinatord.broker.log.disk import replace_bytes
from coordinatord.broker.log.errors import LogError
from coordinatord.broker.log.names import METADATA_TOPIC, METADATA_TOPIC_ID
from coordinatord.broker.topics import catalogue_file, group_configs
from coordinatord.server.postgresql import cluster_records, registry
from coordinatord.server.postgresql.cluster_records import ClusterRecords, Unreadable
from coordinatord.server.postgresql.contract import Away
from coordinatord.server.postgresql.copy_disk import UnflushedDisk
from coordinatord.server.postgresql.database import Link, translated
from coordinatord.server.postgresql.lease import MARGIN, Lease, now_s
from coordinatord.server.postgresql.registry import KnownNode
from coordinatord.server.postgresql.store import FILE_S, FOLLOWED, SEATS, SHARED, PostgresStore
from coordinatord.transport.cluster.nodes import share_of
from coordinatord.transport.cluster.partition_slots import Holder

if TYPE_CHECKING:
    from psycopg import Connection

LOOK_S = 0.25
"""Interval in seconds between two checks."""
TELL_S = 10.0

LOCK = 0x636F6F7266
"""Key of the advisory lock that a node holds while it changes shared files."""
LOCK_MS = 800
"""Longest wait for this lock in milliseconds: the event loop is blocked meanwhile."""
LOCKED = "55P03"
"""SQLSTATE of a lock that was not available within the timeout."""

VERSIONS = (
    "SELECT name, version, CASE WHEN name LIKE %s THEN content END FROM coordinatord_file"
    " WHERE name = ANY(%s) OR name LIKE %s"
    " UNION ALL SELECT '', end_offset, NULL FROM coordinatord_partition WHERE topic_id = %s AND partition = %s"
)
"""The last row, with a name that no file has, is that of the partition with the cluster's records."""
FETCH = "SELECT version, content FROM coordinatord_file WHERE name = %s"
FOLLOWED_BY = SEATS.format("%") + FOLLOWED

log = get_logger("coordinatord.server.postgresql")


class Looked(NamedTuple):
    """Result of a check. `files`: the shared files that have changed."""

    nodes: Sequence[KnownNode]
    files: frozenset[str]


def holders(nodes: Sequence[KnownNode]) -> dict[int, Holder]:
    """Return the holder of each seat, of those that have addresses."""
    found = [each for each in nodes if each.addresses]
    return {each.seat: Holder(each.node_id, each.addresses, each.term) for each in found if each.seat is not None}


class InTouch:
    """lease_guard.Leading of one of several nodes: this node has its lease, and its last successful check began less
    than a lease ago. Otherwise a deleted credential or ACL could stay valid here for as long as checks fail.
    """

    def __init__(self, lease: Lease, shared: SharedFiles) -> None:
        self._lease = lease
        self._shared = shared
        self._most_s = lease.lease_ms / 1000 * (1 - MARGIN)

    @property
    def holds(self) -> bool:
        """True if this node may respond to clients now."""
        return self._lease.holds and now_s() < self._shared.heard_s + self._most_s


class SharedFiles:
    """cluster.shared.Sharing for the nodes of several machines. `path` is that of the working copy."""

    def __init__(self, url: str, store: PostgresStore, path: str, seats: int) -> None:
        self.change = 0
        self.groups_change = 0
        """Number of times that a file of groups' settings has come from another node."""
        self.nodes: Sequence[KnownNode] = ()
        """The registry in the state that responses to this node's clients show (leading.py)."""
        self.cluster_records = None if share_of(METADATA_TOPIC, 0, seats) == store.seat else ClusterRecords()
        """None at the node that leads the partition with these records."""
        self.heard_s = now_s()
        """Start of the last successful check (`now_s`). Other threads read it."""
        self._store = store
        self._path = path
        self._seats = seats
        self._disk = UnflushedDisk()
        self._guard = threading.Lock()
        self._versions: dict[str, int] = {}
        self._followed: dict[int, int] = {}
        self._own_followed = -1
        self._depth = 0
        self._locking = Link(url)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="store-lock")
        self._looking = Link(url)
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    # cluster.shared.Sharing

    def changed(self, change: int) -> None:
        """See Sharing."""
        self.change = max(self.change, change)

    def groups_changed(self) -> None:
        """See Sharing. Nothing to do: the other nodes watch the file."""

    def follow(self, worker: int, change: int) -> None:
        """See Sharing. The other nodes see the change later."""
        if change != self._own_followed:
            self._own_followed = self._followed[worker] = change
            self._store.put_later(FOLLOWED, b"%d" % change)

    @property
    def followed_by_all(self) -> int:
        """See Sharing."""
        return min(self._followed.get(seat, 0) for seat in range(self._seats))

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """See Sharing. Raises Away after a second."""
        self.take()
        try:
            yield
        finally:
            self.give()

    def take(self) -> bool:
        """See Sharing. Waits for other nodes, and raises Away after a second."""
        if self._depth == 0:
            self._acquire()
        self._depth += 1
        return True

    def give(self) -> None:
        """See Sharing."""
        self._depth -= 1
        if self._depth == 0:
            with contextlib.suppress(RuntimeError):  # this node stops
                self._worker.submit(self._end)

    def _acquire(self) -> None:
        try:
            future = self._worker.submit(self._begin)
        except RuntimeError:
            raise Away("stopped") from None
        try:
            future.result(FILE_S)
        except TooLate:
            if not future.cancel():
                self._locking.interrupt()
            self._worker.submit(self._end)
            raise Away(f"the shared files are not to be had: no answer in {FILE_S} s") from None
        except LogError as error:
            raise Away(str(error)) from error

    def _begin(self, attempts: int = 2) -> None:
        """Take the lock and fetch the files. The first attempt may use a connection that the server has closed."""
        try:
            connection = self._locking.open()
            connection.execute("BEGIN")
            connection.execute("SELECT set_config('lock_timeout', %s, true)", (str(LOCK_MS),))
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            self.fetch(connection)
        except self._locking.errors as error:
            self._locking.close()
            told = translated(error, "the shared files are not to be had")
            if attempts == 1 or not isinstance(told, Away) or getattr(error, "sqlstate", None) == LOCKED:
                raise told from error
            self._begin(attempts - 1)

    def _end(self) -> None:
        """Release the lock. If COMMIT fails, closing the connection releases the lock."""
        try:
            self._locking.open().execute("COMMIT")
        except (self._locking.errors, LogError, OSError):
            self._locking.close()

    # The files

    def put(self, name: str, content: bytes, then: Callable[[], object]) -> None:
        """Replace a shared file in the database, then call `then` to replace the local one. Raises Away; then nothing
        is changed here.
        """
        with self._guard:
            version = self._versions.get(name, 0)
            try:
                self._store.share_file(name, content, version)
            except LogError as error:  # callers expect the errors of a disk; the lease reports the cause to the daemon
                raise Away(str(error)) from error
            then()
            self._versions[name] = version + 1

    def fetch(self, connection: Connection[Any]) -> frozenset[str]:
        """Fetch the shared files that other nodes have changed. Returns their names."""
        changed = set()
        asked = (FOLLOWED_BY, list(SHARED), FOLLOWED_BY, METADATA_TOPIC_ID, cluster_records.PARTITION)
        for name, version, content in connection.execute(VERSIONS, asked).fetchall():
            if not name:
                if self.cluster_records is not None:
                    self.cluster_records.fetch(connection, int(version))
            elif content is not None:
                seat = int(name.split("/")[1])
                self._followed[seat] = max(self._followed.get(seat, 0), int(bytes(content)))
            elif version > self._versions.get(name, 0):
                found = connection.execute(FETCH, (name,)).fetchone()
                if found is not None and self._adopt(name, int(found[0]), bytes(found[1])):
                    changed.add(name)
        return frozenset(changed)

    def _adopt(self, name: str, version: int, content: bytes) -> bool:
        with self._guard:
            if version <= self._versions.get(name, 0):
                return False
            path = f"{self._path}/{name}"
            replace_bytes(self._disk, f"{path}.fetched", content)  # a local change of the file uses another name
            self._disk.rename(f"{path}.fetched", path)
            self._versions[name] = version
            if name == catalogue_file.FILE:
                self.changed(catalogue_file.parsed(content, name).change)
            elif name == group_configs.FILE:
                self.groups_change += 1
            return True

    # Checks

    def begin(self, told: Callable[[Looked], object], failed: Callable[[LogError], object]) -> None:
        """Start the thread that checks until `close`. It calls `told` after each check, and `failed` if the records of
        the cluster cannot be read: then the checks end.
        """
        self._thread = threading.Thread(target=self._run, args=(told, failed), name="store-look", daemon=True)
        self._thread.start()

    def _run(self, told: Callable[[Looked], object], failed: Callable[[LogError], object]) -> None:
        told_s = -TELL_S
        while not self._stopped.is_set():
            try:
                told(self.look())
            except Unreadable as error:
                failed(error)
                return
            except Exception as error:
                self._looking.close()
                if not self._stopped.is_set() and time.monotonic() - told_s >= TELL_S:
                    told_s = time.monotonic()
                    log.warning("what other nodes do is not known", error=str(error))
            self._stopped.wait(LOOK_S)

    def look(self) -> Looked:
        """Check once. Raises Away, Unusable, or the driver's errors."""
        asked_s = now_s()
        connection = self._looking.open()
        found = Looked(registry.nodes(connection), self.fetch(connection))
        self.heard_s = asked_s
        return found

    def close(self) -> None:
        """Stop the checks and release the lock."""
        self._stopped.set()
        if self._thread is not None:
            self._looking.cut()
            self._thread.join()
        self._looking.close()
        self._locking.cut()
        self._worker.shutdown(wait=True, cancel_futures=True)
        self._locking.close()
