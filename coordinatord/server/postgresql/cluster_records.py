"""Records of the cluster (SCRAM credentials, quotas, ACLs) at a node that does not lead their partition.

The node of seat 0 leads that partition, and is the controller in responses to clients: it alone appends to the
partition, fenced by its term. The other nodes read the partition's end four times a second (sharing.py), and fetch the
rows that they lack. A node that starts does so before clients can connect. If a snapshot has replaced rows that a node
has not fetched, the node gets all existing rows in one statement, so from one moment.

If the log ends before the last record that this node has read, a standby of PostgreSQL that lacked records was
promoted: the records in this node's memory no longer exist, and the node must restart.
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
    """This node cannot follow the records, or no longer. The node must stop."""


class ClusterRecords:
    """The implementation of metadata.log.Published, and its Read. Other threads fetch, the event loop's thread
    reads.
    """

    def __init__(self) -> None:
        self.metadata_end = 0
        self._guard = threading.Lock()
        self._fetched: list[Values] = []

    def metadata_changed(self, end_offset: int) -> None:
        """Do nothing: the rows are committed, and nothing else is published."""

    def fetch(self, connection: Connection[Any], end_offset: int) -> None:
        """Fetch the rows up to the partition's end. Raises Unreadable, and the driver's errors."""
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
        """Return the rows fetched since the last call. The reader has all earlier ones, or begins anew with the
        first.
        """
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
