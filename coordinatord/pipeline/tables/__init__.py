"""The tables of `coordinatord pipeline run`. TABLES.md describes them, written by `coordinatord pipeline tables`."""

from coordinatord.pipeline.tables.commits import COMMITS, OFFSETS_LOAD
from coordinatord.pipeline.tables.expiry import EXPIRY
from coordinatord.pipeline.tables.lag import GROUP_STATUS, LAG, LAG_HISTORY, STATUS
from coordinatord.pipeline.tables.members import CHURN, MEMBER_EVENTS, MEMBERS, REBALANCES
from coordinatord.pipeline.tables.slo import SLO
from coordinatord.pipeline.tables.table import Table

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        LAG,
        STATUS,
        GROUP_STATUS,
        LAG_HISTORY,
        SLO,
        EXPIRY,
        REBALANCES,
        MEMBERS,
        MEMBER_EVENTS,
        CHURN,
        COMMITS,
        OFFSETS_LOAD,
    )
}
