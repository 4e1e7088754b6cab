"""What `coordinatord store status` shows."""

from __future__ import annotations

from coordinatord.config import Listener
from coordinatord.postgresql import database, registry, schema
from coordinatord.postgresql.database import Link
from coordinatord.postgresql.lease import standing

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
        node_id, term, left_s = standing(link)
        if term == 0:
            lines.append("no node has led yet")
        elif left_s > 0:
            lines.append(f"node {node_id} leads in term {term}; its lease lasts {left_s:.1f} s")
        else:
            lines.append(f"no node leads; the last one was node {node_id}, in term {term}")
        lines += [_node(node) for node in registry.nodes(connection)]
        lines += [_move(move) for move in registry.moves(connection, MOVES)]
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


def _node(node: registry.KnownNode) -> str:
    where = ", ".join(str(Listener(name, *address)) for name, address in sorted(node.addresses.items()))
    if node.lease_s <= 0:
        return f"node {node.node_id} ({where or 'no address'}): silent; its lease ended {-node.lease_s:.1f} s ago"
    doing = "leads" if node.leads else "waits"
    return f"node {node.node_id} ({where or 'no address'}): {doing}; up {node.up_s:.0f} s, lease {node.lease_s:.1f} s"


def _move(move: registry.Move) -> str:
    if move.from_node_id < 0:
        why = "the first to lead"
    elif move.was_given_back:
        why = f"node {move.from_node_id} had given the lead back"
    else:
        why = f"the lease of node {move.from_node_id} had ended"
    return f"term {move.term}: node {move.node_id}, {move.ago_s:.0f} s ago: {why}"
