"""The working copy that a standby node makes ahead of its lead, so that little is left to do when it takes the lead.

The thread reads all rows in one transaction, and opens the copy as a leader does, so that the indexes exist. Then it
rests, for a hundred times the processor time of its work, and starts again. The copy is a hint: when this node leads,
all rows are read again, and every difference from the copy is written (working_copy.make). So nothing depends on the
age of the copy, nor on the point at which the reading was stopped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

from coordinatord.base.observe.logger import get_logger
from coordinatord.broker.log.data_dir import DataDirectory
from coordinatord.broker.log.ownership import ReadCatalogued
from coordinatord.server.postgresql import working_copy
from coordinatord.server.postgresql.contract import PartitionKey, Unusable
from coordinatord.server.postgresql.copy_disk import UnflushedDisk
from coordinatord.server.postgresql.database import Link
from coordinatord.server.postgresql.transfer import Snapshot

RESTS = 100
"""Ratio of the rest to the processor time of the work."""
LEAST_REST_S = 5.0

END_S = 60.0
"""Longest wait of `close` in seconds. Once the connection is cut only the disk can delay the thread, and the indexes
that it makes.
"""

log = get_logger("coordinatord.server.postgresql")


class _Stopped(Exception):
    """This node leads now, or stops."""


class StandbyCopy:
    """The thread that makes the working copy at `path`. No other code may write there until `close` has returned."""

    def __init__(self, url: str, path: Path, node_id: int, catalogued: ReadCatalogued) -> None:
        self._link = Link(url)
        self._path = path
        self._node_id = node_id
        self._catalogued = catalogued
        self._stopped = threading.Event()
        self._is_sound = True
        self.is_ready = False
        """True if there is a copy that is not being changed. Other threads read this attribute."""
        self._thread: threading.Thread | None = None

    def begin(self, cluster_id: str) -> None:
        """Begin, on a thread. Further calls have no effect."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, args=(cluster_id,), name="store-ahead", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop, and discard a copy whose indexes were not finished. Raises Unusable if the disk does not respond."""
        self._stopped.set()
        thread, self._thread = self._thread, None
        # A signal may have interrupted its start: a thread that only begins now finds that it has to stop.
        if thread is not None and thread.is_alive():
            self._link.cut()
            thread.join(END_S)
            if thread.is_alive():
                self._is_sound = True  # the thread still writes there: the next start discards it
                raise Unusable(f"{self._path} has not been finished for {END_S:.0f} s: does its disk answer?")
        if not self._is_sound:
            working_copy.discard(self._path)
            self._is_sound = True

    def make(self, cluster_id: str) -> None:
        """Make the copy, or bring it up to date. Raises any error that prevents it."""
        connection = self._link.open()
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        source = _Stopping(connection, self._stopped)
        disk = UnflushedDisk()
        working_copy.make(source, self._path, cluster_id=cluster_id, node_id=self._node_id, disk=disk)
        connection.execute("COMMIT")
        self._is_sound = False
        opened = DataDirectory.open(str(self._path), node_id=self._node_id, catalogued=self._catalogued, disk=disk)
        opened.close()
        self._is_sound = True

    def _run(self, cluster_id: str) -> None:
        rest_s = 0.0
        while not self._stopped.wait(rest_s):
            began_s = time.thread_time()
            try:
                if not self._is_sound:
                    working_copy.discard(self._path)
                self.is_ready = False
                self.make(cluster_id)
                self.is_ready = True
            except _Stopped:
                return
            except Exception as error:
                self._link.close()
                if not self._stopped.is_set():
                    log.warning("the working copy was not made ahead", error=str(error))
            rest_s = max(LEAST_REST_S, RESTS * (time.thread_time() - began_s))


class _Stopping(Snapshot):
    """A snapshot that stops being read when `stopped` is set."""

    def __init__(self, connection: object, stopped: threading.Event) -> None:
        super().__init__(connection)
        self._stopped = stopped

    def batches(self) -> Iterator[tuple[PartitionKey, int, bytes]]:
        """Return the batches (Snapshot). Raises _Stopped."""
        for found in super().batches():
            if self._stopped.is_set():
                raise _Stopped
            yield found
