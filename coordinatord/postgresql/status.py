"""What `coordinatord store status` shows."""

from __future__ import annotations

from coordinatord.config import Listener
from coordinatord.postgresql import database, registry, schema
from coordinatord.postgresql.database import Link

SEATS = (
    "SELECT seat, node_id, epoch, greatest(0, extract(epoch FROM lease_until - clock_timestamp()))::float8"
    " FROM coordinatord_leader ORDER BY seat"
)
SIZES = (
    "SELECT count(*), coalesce(sum(end_offset), 0), pg_total_relation_size('coordinatord_batch')"
    " FROM coordinatord_partition"
)
STANDBYS = (
    "SELECT coalesce(application_name, '?'), coalesce(sync_state, '?'),"
    " pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) FROM pg_stat_replication ORDER BY 1"
)

MOVES = 5
"""So many of the latest moves are shown."""


def status(url: str) -> list[str]:
    """Lines for people. Raises LogError or OSError."""
    link = Link(url)
    try:
        connection = link.open()
        lines = [f"cluster {schema.check(connection)}, tables of version {schema.VERSION}"]
        seats = connection.execute(SEATS).fetchall()
        several = len(seats) > 1
        for seat, *standing in seats:
            lines.append((f"seat {seat}: " if several else "") + _standing(*standing))
        lines += [_node(node, several) for node in registry.nodes(connection)]
        lines += [_move(move, several) for move in registry.moves(connection, MOVES)]
        row = connection.execute(SIZES).fetchone()
        if row is not None:
            lines.append(f"{row[0]} partitions with {row[1]} records appended so far; {row[2]} bytes of rows and index")
        for name, state, behind in connection.execute(STANDBYS):
            told = "its position is not shown to this role" if behind is None else f"{behind} bytes behind"
            lines.append(f"standby {name} ({state}): {told}")
        return lines + [f"warning: {warning}" for warning in database.warnings(connection)]
    except link.errors as error:
        raise database.translated(error, "cannot read the status") from error
    finally:
        link.close()


def _standing(node_id: int, term: int, left_s: float) -> str:
    if term == 0:
        return "no node has led yet"
    if left_s > 0:
        return f"node {node_id} leads in term {term}; its lease lasts {left_s:.1f} s"
    return f"no node leads; the last one was node {node_id}, in term {term}"


def _node(node: registry.KnownNode, several: bool) -> str:
    where = ", ".join(str(Listener(name, *address)) for name, address in sorted(node.addresses.items()))
    if node.lease_s <= 0:
        return f"node {node.node_id} ({where or 'no address'}): silent; its lease ended {-node.lease_s:.1f} s ago"
    doing = "waits" if node.seat is None else f"leads seat {node.seat}" if several else "leads"
    return f"node {node.node_id} ({where or 'no address'}): {doing}; up {node.up_s:.0f} s, lease {node.lease_s:.1f} s"


def _move(move: registry.Move, several: bool) -> str:
    if move.from_node_id < 0:
        why = "the first to lead"
    elif move.was_given_back:
        why = f"node {move.from_node_id} had given the lead back"
    else:
        why = f"the lease of node {move.from_node_id} had ended"
    what = f"seat {move.seat} to node {move.node_id}" if several else f"node {move.node_id}"
    return f"term {move.term}: {what}, {move.ago_s:.0f} s ago: {why}"
