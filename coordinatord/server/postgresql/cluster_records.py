"""Records of the cluster (SCRAM credentials, quotas, ACLs) at a node that does not lead the partition which has them.

The node of seat 0 leads it, and is the controller that clients are told of: it alone appends to it, behind the fence of
its term. The others look four times a second where it ends (sharing.py), and fetch the rows that they have not. A start
does so before clients can connect. If a snapshot has replaced rows that a node has not fetched, it gets all that are
there, in one statement, so from one moment.

A log that ends before what was read is that of a standby which was promoted and lacked records: what this node knows
was never so. It has to begin anew.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from coordinatord.broker.log.errors import LogDamaged
from coordinatord.broker.log.names import METADATA_TOPIC, METADATA_TOPIC_ID
from coordinatord.broker.metadata.reading import Values, values_of
from coordinatord.server.postgresql.contract import Unusable

if TYPE_CHECKING:
    from psycopg import Connection

PARTITION = 0
ROWS = (
    "SELECT batch FROM coordinatord_batch WHERE topic_id = %s AND partition = %s AND base_offset >= %s"
    " ORDER BY base_offset"
)


class Unreadable(Unusable):
    """The records are not, or are no longer, what this node can follow. It must not go on."""


class ClusterRecords:
    """metadata.log.Published, and its Read. Threads fetch, the event loop's thread reads."""

    def __init__(self) -> None:
        self.metadata_end = 0
        self._guard = threading.Lock()
        self._fetched: list[Values] = []

    def metadata_changed(self, end_offset: int) -> None:
        """The rows are committed: there is nothing else to publish."""

    def fetch(self, connection: Connection[Any], end_offset: int) -> None:
        """Fetch the rows up to where the partition ends. Raises Unreadable, and the driver's errors."""
        with self._guard:
            known = self.metadata_end
            if end_offset == known:
                return
            if end_offset < known:
                raise Unreadable(
                    f"the records of the cluster end at {end_offset} in the database, and this node has read {known}"
                )
            found = self._rows(connection, known)
            if not found or found[0].base_offset != known:
                found = self._rows(connection, 0)
            if found:
                self._fetched += found
                self.metadata_end = found[-1].next_offset

    def read(self, next_offset: int) -> Iterable[Values]:
        """What was fetched since the last call. The reader has all before, or begins anew with the first."""
        with self._guard:
            found, self._fetched = self._fetched, []
        return found

    @staticmethod
    def _rows(connection: Connection[Any], first: int) -> list[Values]:
        rows = connection.execute(ROWS, (METADATA_TOPIC_ID, PARTITION, first)).fetchall()
        try:
            return [values_of(bytes(batch), f"{METADATA_TOPIC}-{PARTITION}") for (batch,) in rows]
        except LogDamaged as error:
            raise Unreadable(str(error)) from error
