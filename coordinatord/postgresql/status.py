"""What `coordinatord store status` shows."""

from __future__ import annotations

from coordinatord.postgresql import database, schema
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
