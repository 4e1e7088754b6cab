"""The result of one pass over each group's log: its rebalances, its members' lives, and the patterns among them.

Three tables are parts of this result. It is made once per run, however many of them are requested: half of the cost of
each would be to collect and read a group's rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coordinatord.monitoring.analysis import members
from coordinatord.monitoring.analysis.epoch_rebalances import epoch_rebalances
from coordinatord.monitoring.analysis.group_epochs import generations
from coordinatord.monitoring.analysis.rebalances import rebalances
from coordinatord.monitoring.pipeline.tables.group_log import GroupLog, group_logs, read_groups
from coordinatord.monitoring.pipeline.tables.inputs import Inputs
from coordinatord.monitoring.pipeline.tables.table import Column, arrow_schema, pick

REBALANCE, MEMBER, EVENT = "rebalance", "member", "event"
Parts = dict[str, tuple[Column, ...]]


def part(inputs: Inputs, name: str, parts: Parts) -> DataFrame:
    """Return the rows of one table. `parts` has the columns of all, which begin with group_id."""
    rows = inputs.once("life", lambda: _all(inputs, parts))
    return rows.where(F.col("part") == name).select("group_id", f"{name}.*")


def _all(inputs: Inputs, parts: Parts) -> DataFrame:
    names, session_ms = inputs.topic_names, inputs.options.consumer_session_ms
    types = {name: pa.struct(list(arrow_schema(columns[1:]))) for name, columns in parts.items()}
    schema = pa.schema([("group_id", pa.string()), ("part", pa.string()), *types.items()])

    def make(rows: pa.Table, commits: pa.Table) -> pa.Table:
        made = [row for found in read_groups(rows, commits, names, session_ms) for row in _rows_of(found, parts)]
        return pa.Table.from_pylist(made, schema)

    nested = ", ".join(
        f"{name} struct<{', '.join(f'`{column.name}`: {column.type}' for column in columns[1:])}>"
        for name, columns in parts.items()
    )
    return group_logs(inputs).applyInArrow(make, f"group_id string, part string, {nested}")


def _rows_of(found: GroupLog, parts: Parts) -> Iterator[dict[str, Any]]:
    def row(name: str, value: Any) -> dict[str, Any]:
        columns = parts[name][1:]
        values = zip((column.name for column in columns), pick(columns, value), strict=True)
        return {"group_id": found.group_id, "part": name, name: dict(values)}

    of_epochs = [record for record in found.ledger if record.get("group_type") == "consumer"]
    of_generations = [record for record in found.ledger if record.get("group_type") != "consumer"]
    for rebalance in rebalances(found.generations, found.commits, of_generations):
        yield row(REBALANCE, rebalance)
    for rebalance in epoch_rebalances(found.epochs, found.commits, of_epochs):
        yield row(REBALANCE, rebalance)
    for log in (found.generations, list(generations(found.epochs))):
        lives = members.lives(log, found.commits)
        for life in lives:
            yield row(MEMBER, life)
        for event in members.events(lives, log, found.commits):
            yield row(EVENT, event)
