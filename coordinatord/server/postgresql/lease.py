"""The lease: the time until which this node may respond. The term alone protects the records; the lease makes the
responses correct.

A lease is of a *seat*: a share of the partitions, which one node at a time leads. A database has one seat, or several
(schema.py), so that several nodes lead at once. A process has one seat at most. Each take-over of any seat has a term
that was never used before: an advisory lock makes the take-overs of all seats sequential, and each term is above the
terms of all seats.

The database's clock determines the end of a lease, and no other node takes the lead before. This node counts from the
moment before its request, on its own clock that also runs while the machine sleeps (CLOCK_BOOTTIME), and stops
responding MARGIN of the lease earlier. So a node that was stopped (SIGSTOP, a paused machine) finds its lease over
before it serves the next request; a request that it had begun to serve arrived while no other node led, so its response
was correct when the request was sent. The margin is the largest permitted difference of the two clocks within one
lease: a fifth. A database whose clock jumps forward by more, as after the promotion of a standby with a wrong clock,
could end a lease too early; then reads at the former leader may be outdated for that long, and its writes still change
nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from coordinatord.base.observe.logger import get_logger
from coordinatord.server.postgresql import registry
from coordinatord.server.postgresql.contract import Away, Fenced
from coordinatord.server.postgresql.database import Link, translated
from coordinatord.server.postgresql.registry import KnownNode, Registration

if TYPE_CHECKING:
    from psycopg import Connection

MARGIN = 0.2
RENEWALS = 5
"""Number of renewals within the duration of a lease."""

log = get_logger("coordinatord.server.postgresql")

TERM_LOCK = 0x636F6F7265
"""Key of the advisory lock that serializes take-overs of seats: held until the new term is committed."""

FREE = (
    "SELECT l.seat FROM coordinatord_leader AS l"
    " WHERE (l.lease_until < clock_timestamp() OR l.holder = %(holder)s)"
    " AND NOT EXISTS (SELECT 1 FROM coordinatord_leader AS o WHERE o.seat <> l.seat AND o.node_id = %(node_id)s"
    " AND o.holder <> %(holder)s AND o.lease_until >= clock_timestamp())"
    " ORDER BY l.holder <> %(holder)s, l.node_id <> %(node_id)s, l.seat LIMIT 1"
)
"""Query for the seat that this process may take: the one whose take-over succeeded without a response, or the one that
its node had before, or the first one without a leader. No row while another process leads with the same node id:
clients could not distinguish the two.
"""

TAKE = (
    "UPDATE coordinatord_leader AS l"
    " SET epoch = greatest(l.epoch, (SELECT max(epoch) FROM coordinatord_leader)) + 1,"
    " node_id = %(node_id)s, holder = %(holder)s, from_node_id = l.node_id,"
    " was_given_back = l.epoch > 0 AND l.holder = '',"
    " lease_until = clock_timestamp() + %(lease_ms)s * interval '1 millisecond'"
    " WHERE l.seat = %(seat)s AND (l.lease_until < clock_timestamp() OR l.holder = %(holder)s) RETURNING l.epoch"
)
OWN_PARTITIONS = "UPDATE coordinatord_partition SET leader_epoch = %s WHERE seat = %s"
RENEW = (
    "UPDATE coordinatord_leader SET lease_until = clock_timestamp() + %s * interval '1 millisecond'"
    " WHERE epoch = %s RETURNING epoch"
)
RELEASED = "coordinatord_released"
"""The channel on which standby nodes receive a notification that a lease was released."""

RELEASE = (
    "WITH released AS (UPDATE coordinatord_leader SET lease_until = clock_timestamp(), holder = ''"
    " WHERE epoch = %s RETURNING epoch) SELECT pg_notify('coordinatord_released', epoch::text) FROM released"
)
STANDING = (
    "SELECT node_id, epoch, greatest(0, extract(epoch FROM lease_until - clock_timestamp()))::float8"
    " FROM coordinatord_leader ORDER BY lease_until, seat LIMIT 1"
)

_CLOCK = getattr(time, "CLOCK_BOOTTIME", None)


def now_s() -> float:
    """Return seconds of a clock that also runs while the machine sleeps, where the system has one."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


class Lease:
    """A lease that was taken. `ends_s` is the time by now_s() at which this node must stop responding; other threads
    read it.
    """

    def __init__(self, link: Link, term: int, asked_s: float, lease_ms: int, seat: int = 0) -> None:
        self.term = term
        self.seat = seat
        self.lease_ms = lease_ms
        self.lost = False
        """True if another node leads."""
        self.registration: Registration | None = None
        """This node's entry in the registry, while it has one."""
        self.nodes: Sequence[KnownNode] = ()
        """The registry at the last renewal. Other threads read this attribute."""
        self._link = link
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._guard = threading.Lock()
        self.ends_s = self._end(asked_s)

    @property
    def holds(self) -> bool:
        """True if this node may respond now."""
        return not self.lost and now_s() < self.ends_s

    def begin(self, on_lost: Callable[[Fenced], object]) -> None:
        """Renew the lease on a thread until `close`; `on_lost` is called there when another node leads."""
        self._thread = threading.Thread(target=self._run, args=(on_lost,), name="store-lease", daemon=True)
        self._thread.start()

    def renew(self) -> None:
        """Renew the lease once. Raises Fenced, Away or Unusable."""
        asked_s = now_s()
        row = self._on(lambda connection: connection.execute(RENEW, (self.lease_ms, self.term)).fetchone())
        if row is None:
            self.lost = True
            raise Fenced("another node leads now")
        self.ends_s = self._end(asked_s)

    def close(self, *, release: bool) -> None:
        """Stop renewing; with `release`, let another node lead at once. This node must not respond any more."""
        self._stopped.set()
        self.ends_s = 0.0
        if self._thread is not None:
            self._thread.join(1.0)
            if self._thread.is_alive():  # the database does not respond
                self._link.cut()
                self._thread.join(5.0)
                release = False
        if release and not self.lost:
            try:
                self._on(lambda connection: connection.execute(RELEASE, (self.term,)))
                if self.registration is not None:
                    registry.leave(self._link, self.registration.holder)
            except Exception as error:
                log.warning("the lease was not released: another node waits for its end", error=str(error))
        self._link.close()

    def _run(self, on_lost: Callable[[Fenced], object]) -> None:
        pause_s = self.lease_ms / 1000 / RENEWALS
        self.look_around()
        while not self._stopped.wait(pause_s):
            try:
                self.renew()
            except Fenced as error:
                on_lost(error)
                return
            except Exception as error:
                log.warning("the lease was not renewed", error=str(error), answers_until_s=round(self.left_s, 1))
            else:
                self.look_around()

    def look_around(self) -> None:
        """Register this node as running, and read the registry of the others. A failure does not affect the lease."""
        if (registration := self.registration) is None:
            return

        def look(connection: Connection[Any]) -> list[KnownNode]:
            registration.keep(connection)
            return registry.nodes(connection)

        try:
            self.nodes = self._on(look)
        except Exception as error:
            log.warning("the registry of nodes was not reached", error=str(error))

    @property
    def left_s(self) -> float:
        """The time in seconds for which this node may still respond."""
        return max(0.0, self.ends_s - now_s())

    def _end(self, asked_s: float) -> float:
        return 0.0 if self._stopped.is_set() else asked_s + self.lease_ms / 1000 * (1 - MARGIN)

    def _on(self, work: Callable[[Connection[Any]], Any]) -> Any:
        with self._guard:
            try:
                return work(self._link.open())
            except self._link.errors as error:
                self._link.close()
                raise translated(error, "the lease") from error


def take(link: Link, *, node_id: int, holder: str, lease_ms: int) -> Lease | None:
    """Take a seat without a leader: with a term above all earlier ones, in one transaction with the leader epochs of
    the seat's partitions. Return None while the leases of all seats last. `holder` identifies this process, so that a
    repeated take-over need not wait for its own lease.
    """
    asked_s = now_s()
    asking = {"node_id": node_id, "holder": holder, "lease_ms": lease_ms}
    try:
        connection = link.open()
        if connection.execute(FREE, asking).fetchone() is None:
            return None
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (TERM_LOCK,))
            free = connection.execute(FREE, asking).fetchone()
            taken = None if free is None else connection.execute(TAKE, {**asking, "seat": free[0]}).fetchone()
            if free is None or taken is None:
                return None
            seat, term = int(free[0]), int(taken[0])
            connection.execute(OWN_PARTITIONS, (term, seat))
            registry.moved(connection, term)
    except link.errors as error:
        link.close()
        raise translated(error, "cannot take the lead") from error
    return Lease(link, term, asked_s, lease_ms, seat)


def standing(link: Link) -> tuple[int, int, float]:
    """Return the leader: (node, its term, remaining seconds of its lease); of several seats, the one whose lease ends
    first.
    """
    try:
        row = link.open().execute(STANDING).fetchone()
    except link.errors as error:
        link.close()
        raise translated(error, "cannot read who leads") from error
    if row is None:
        raise Away("no node has led yet")
    return int(row[0]), int(row[1]), float(row[2])
