"""The output of `coordinatord cluster status`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from coordinatord.base.config import Listener
from coordinatord.server.postgresql import database, registry, schema
from coordinatord.server.postgresql.database import Link

SEATS = (
    "SELECT seat, node_id, epoch, greatest(0, extract(epoch FROM lease_until - clock_timestamp()))::float8"
    " FROM coordinatord_leader ORDER BY seat"
)
SIZES = (
    "SELECT count(*), coalesce(sum(end_offset), 0)::bigint, pg_total_relation_size('coordinatord_batch')"
    " FROM coordinatord_partition"
)
STANDBYS = (
    "SELECT coalesce(application_name, '?'), coalesce(sync_state, '?'),"
    " pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::bigint FROM pg_stat_replication ORDER BY 1"
)

MOVES = 5
"""Number of the latest moves that are shown."""


class Seat(NamedTuple):
    """A share of the partitions, or all of them. `term` is 0 if no node has led it yet; `lease_s` is 0 if none leads it
    now, and `node_id` is the last one.
    """

    seat: int
    node_id: int
    term: int
    lease_s: float


class Standby(NamedTuple):
    """A standby of the database; `state` is PostgreSQL's `sync_state`. `behind_bytes` is the size of the log that it
    has not replayed; None if this role may not see that.
    """

    name: str
    state: str
    behind_bytes: int | None


@dataclass(frozen=True, slots=True)
class Status:
    """The state in the database at one moment."""

    cluster_id: str
    seats: Sequence[Seat]
    nodes: Sequence[registry.KnownNode]
    moves: Sequence[registry.Move]
    """The latest move first."""
    partitions: int
    records: int
    """Number of records appended so far; compaction and retention may have removed some."""
    stored_bytes: int
    """Size in bytes of rows and index."""
    standbys: Sequence[Standby]
    warnings: Sequence[str]

    def as_json(self) -> dict[str, Any]:
        """Return the attributes as JSON under their names; `seat` of a standby node is null."""
        nodes = [
            {
                "node_id": node.node_id,
                "rack": node.rack,
                "addresses": [str(listener) for listener in _listeners(node)],
                "seat": node.seat,
                "up_s": round(node.up_s, 3),
                "lease_s": round(node.lease_s, 3),
            }
            for node in self.nodes
        ]
        return {
            "cluster_id": self.cluster_id,
            "seats": [seat._asdict() for seat in self.seats],
            "nodes": nodes,
            "moves": [move._asdict() for move in self.moves],
            "partitions": self.partitions,
            "records": self.records,
            "stored_bytes": self.stored_bytes,
            "standbys": [standby._asdict() for standby in self.standbys],
            "warnings": list(self.warnings),
        }


def read_status(url: str) -> Status:
    """Read the status from the database. Raises LogError or OSError."""
    link = Link(url)
    try:
        connection = link.open()
        cluster_id = schema.check(connection)
        partitions, records, stored_bytes = connection.execute(SIZES).fetchone() or (0, 0, 0)
        return Status(
            cluster_id,
            [Seat(*row) for row in connection.execute(SEATS)],
            registry.nodes(connection),
            registry.moves(connection, MOVES),
            partitions,
            records,
            stored_bytes,
            [Standby(*row) for row in connection.execute(STANDBYS)],
            database.warnings(connection),
        )
    except link.errors as error:
        raise database.translated(error, "cannot read the status") from error
    finally:
        link.close()


def status_lines(status: Status) -> list[str]:
    """Return the status as lines for humans."""
    several = len(status.seats) > 1
    told = [f"cluster {status.cluster_id}, tables of version {schema.VERSION}"]
    told += [(f"seat {seat.seat}: " if several else "") + _standing(seat) for seat in status.seats]
    told += [_node(node, several) for node in status.nodes]
    told += [_move(move, several) for move in status.moves]
    told.append(
        f"{status.partitions} partitions with {status.records} records appended so far; "
        f"{status.stored_bytes} bytes of rows and index"
    )
    for name, state, behind in status.standbys:
        where = "its position is not shown to this role" if behind is None else f"{behind} bytes behind"
        told.append(f"standby {name} ({state}): {where}")
    return told + [f"warning: {warning}" for warning in status.warnings]


def _standing(seat: Seat) -> str:
    if seat.term == 0:
        return "no node has led yet"
    if seat.lease_s > 0:
        return f"node {seat.node_id} leads in term {seat.term}; its lease lasts {seat.lease_s:.1f} s"
    return f"no node leads; the last one was node {seat.node_id}, in term {seat.term}"


def _listeners(node: registry.KnownNode) -> list[Listener]:
    return [Listener(name, *address) for name, address in sorted(node.addresses.items())]


def _node(node: registry.KnownNode, several: bool) -> str:
    where = ", ".join(map(str, _listeners(node))) or "no address"
    if node.lease_s <= 0:
        return f"node {node.node_id} ({where}): silent; its lease ended {-node.lease_s:.1f} s ago"
    doing = "waits" if node.seat is None else f"leads seat {node.seat}" if several else "leads"
    return f"node {node.node_id} ({where}): {doing}; up {node.up_s:.0f} s, lease {node.lease_s:.1f} s"


def _move(move: registry.Move, several: bool) -> str:
    if move.from_node_id < 0:
        why = "the first to lead"
    elif move.was_given_back:
        why = f"node {move.from_node_id} had given the lead back"
    else:
        why = f"the lease of node {move.from_node_id} had ended"
    what = f"seat {move.seat} to node {move.node_id}" if several else f"node {move.node_id}"
    return f"term {move.term}: {what}, {move.ago_s:.0f} s ago: {why}"
