"""The tables of `coordinatord pipeline run`. TABLES.md describes them, written by `coordinatord pipeline tables`.

table.py       the definition of a table: a name, a grain, columns with their meaning, and a build function
inputs.py      the input of tables: facts of the log, the ends of partitions, the user's options
group_log.py   the log of each group, of either protocol, with its commit times
departures.py  input of the rules of status about members: the ends of the last ones, and the subscribed topics
life.py        the result of one pass over each group's log: rebalances, members, member_events
rebalances.py  the columns of rebalances
members.py     members, member_events, churn; and rebalances
lag.py         lag, lag_history, status, group_status
slo.py         slo
expiry.py      expiry
commits.py     commits, offsets_load
share_partitions.py  share_partitions
events.py      events, which `pipeline run --follow` writes
describe.py    TABLES.md
"""

from coordinatord.monitoring.pipeline.tables.commits import COMMITS, OFFSETS_LOAD
from coordinatord.monitoring.pipeline.tables.expiry import EXPIRY
from coordinatord.monitoring.pipeline.tables.lag import GROUP_STATUS, LAG, LAG_HISTORY, STATUS
from coordinatord.monitoring.pipeline.tables.members import CHURN, MEMBER_EVENTS, MEMBERS, REBALANCES
from coordinatord.monitoring.pipeline.tables.share_partitions import SHARE_PARTITIONS
from coordinatord.monitoring.pipeline.tables.slo import SLO
from coordinatord.monitoring.pipeline.tables.table import Table

SHARING: tuple[tuple[Table, ...], ...] = (
    (LAG, STATUS, GROUP_STATUS, LAG_HISTORY, SLO),
    (EXPIRY,),
    (REBALANCES, MEMBERS, MEMBER_EVENTS, CHURN),
    (COMMITS,),
    (OFFSETS_LOAD,),
    (SHARE_PARTITIONS,),
)
"""Tables of one pass over the log each: the first of them that is made does the work for all of them."""
TABLES: dict[str, Table] = {table.name: table for tables in SHARING for table in tables}
