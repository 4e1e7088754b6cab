"""The running nodes and the moves of the leadership, for operators and clients. No leadership is decided here.

Each node, leading or standby, has a row in coordinatord_node with a lease of its own by the database's clock. A row
whose lease is over belongs to a node that no longer renews it; the row is removed an hour later. The key of a row is
its *holder*, a random name of the process, so nodes that were given the same id remain distinct.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinatord.server.postgresql.contract import Unusable
from coordinatord.server.postgresql.database import Link, translated

if TYPE_CHECKING:
    from psycopg import Connection

MOST_MOVES = 1_000
"""Maximum number of moves that are stored."""

MOST_NODES = 1_000
"""Maximum number of nodes that are returned. Leading nodes come first, so they are always among them."""

KEEP = (
    "INSERT INTO coordinatord_node (holder, node_id, rack, addresses, since, lease_until)"
    " VALUES (%s, %s, %s, %s, clock_timestamp(), clock_timestamp() + %s * interval '1 millisecond')"
    " ON CONFLICT (holder) DO UPDATE SET addresses = excluded.addresses, lease_until = excluded.lease_until"
)
LEAVE = "DELETE FROM coordinatord_node WHERE holder = %s"
PRUNE = "DELETE FROM coordinatord_node WHERE lease_until < clock_timestamp() - interval '1 hour'"
MOVED = (
    "INSERT INTO coordinatord_move (epoch, node_id, from_node_id, was_given_back, at, seat)"
    " SELECT epoch, node_id, from_node_id, was_given_back, clock_timestamp(), seat"
    " FROM coordinatord_leader WHERE epoch = %s"
)
FORGET_MOVES = "DELETE FROM coordinatord_move WHERE epoch <= %s"
NODES = (
    "SELECT node_id, rack, addresses, extract(epoch FROM clock_timestamp() - since)::float8,"
    " extract(epoch FROM lease_until - clock_timestamp())::float8, holder, seat, term"
    " FROM (SELECT n.*, l.seat, coalesce(l.epoch, 0) AS term FROM coordinatord_node n"
    " LEFT JOIN coordinatord_leader l ON l.holder = n.holder"
    " AND l.lease_until > clock_timestamp() ORDER BY l.seat IS NULL, n.lease_until DESC, n.holder LIMIT %s) AS found"
    " ORDER BY node_id, since, holder"
)
"""Leading nodes come first, then those with a valid lease: each killed process leaves a row."""
MOVES = (
    "SELECT epoch, node_id, from_node_id, was_given_back, extract(epoch FROM clock_timestamp() - at)::float8, seat"
    " FROM coordinatord_move ORDER BY epoch DESC LIMIT %s"
)

Addresses = Mapping[str, tuple[str, int]]
"""Advertised (host, port) by listener."""


class KnownNode(NamedTuple):
    """A row of the registry. Times are seconds by the database's clock; `lease_s` is negative if the lease is over."""

    node_id: int
    rack: str | None
    addresses: dict[str, tuple[str, int]]
    up_s: float
    lease_s: float
    holder: str
    seat: int | None
    """The seat that the node leads; None for a standby node."""
    term: int = 0
    """Term of the seat."""

    @property
    def leads(self) -> bool:
        """True if the node has a seat."""
        return self.seat is not None


class Move(NamedTuple):
    """Take-over of a seat by `node_id`, `ago_s` seconds ago. `from_node_id` is -1 when no node had the seat before."""

    term: int
    node_id: int
    from_node_id: int
    was_given_back: bool
    """True after a planned stop. Otherwise the former leader's lease had ended."""
    ago_s: float
    seat: int


@dataclass(slots=True)
class Registration:
    """The entry of this process. `addresses` is completed later if a listener has port 0, when that port is bound."""

    holder: str
    node_id: int
    lease_ms: int
    rack: str | None = None
    addresses: Addresses = field(default_factory=dict)

    def keep(self, connection: Connection[Any]) -> None:
        """Insert this node's row, or renew its lease."""
        connection.execute(KEEP, (self.holder, self.node_id, self.rack, json.dumps(self.addresses), self.lease_ms))


def moved(connection: Connection[Any], term: int) -> None:
    """Record that a leadership was taken, within the transaction that took it."""
    connection.execute(MOVED, (term,))
    connection.execute(FORGET_MOVES, (term - MOST_MOVES,))
    connection.execute(PRUNE)


def nodes(connection: Connection[Any]) -> list[KnownNode]:
    """Return all nodes that registered and did not leave, by id. Raises Unusable for rows that coordinatord did not
    write.
    """
    found = []
    for node_id, rack, addresses, up_s, lease_s, holder, seat, term in connection.execute(NODES, (MOST_NODES,)):
        try:
            told = {str(name): (str(host), int(port)) for name, (host, port) in json.loads(addresses).items()}
        except (ValueError, TypeError, AttributeError) as error:
            raise Unusable(f"coordinatord_node has addresses that are none, of node {node_id}: {error!r}") from None
        found.append(KnownNode(node_id, rack, told, up_s, lease_s, holder, seat, term))
    return found


def moves(connection: Connection[Any], count: int) -> list[Move]:
    """Return the latest `count` moves of the leadership, the last one first."""
    return [Move(*row) for row in connection.execute(MOVES, (count,))]


def leave(link: Link, holder: str) -> None:
    """Delete the row of `holder`, in a planned stop. Raises Away."""
    try:
        link.open().execute(LEAVE, (holder,))
    except link.errors as error:
        link.close()
        raise translated(error, "the registry") from error
