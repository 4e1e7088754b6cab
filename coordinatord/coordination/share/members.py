"""Share sessions and what their end means: the member's records are released.

A session ends with a request, or with the connection on which it was opened. When the last session of a group ends, its
share partitions are removed (SharePartitionManager.releaseSession and ShareGroupListenerImpl).
"""

from __future__ import annotations

from coordinatord.coordination.share.leader import SharePartitions
from coordinatord.coordination.share.sessions import SessionKey, ShareSession, ShareSessions
from coordinatord.transport.net.connection import Connection


class ShareMembers:
    """The members that have share sessions on this node."""

    def __init__(self, sessions: ShareSessions, partitions: SharePartitions) -> None:
        self.sessions = sessions
        self.partitions = partitions

    def opened(self, session: ShareSession, connection: Connection) -> None:
        """End the session with its connection. A connection has one session: the last one that it opened."""
        connection.on_lost = lambda: self._lost(session)

    def _lost(self, session: ShareSession) -> None:
        key = session.key
        if self.sessions.get(key) is session:
            self.end(key)
        if not self.sessions.has_members(key[0]):
            self.partitions.remove_group(key[0])

    def end(self, key: SessionKey) -> None:
        """End a member's session, if there is one, and release its records."""
        session = self.sessions.close(key)
        if session is not None:
            self.partitions.release(*key, list(session.partitions))
