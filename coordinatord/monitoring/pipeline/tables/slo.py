"""slo: the number of minutes in which a group met its lag target, and the remaining share of its error budget."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coordinatord.monitoring.pipeline.tables.inputs import Inputs, TableOptions, part_of
from coordinatord.monitoring.pipeline.tables.lag import standings
from coordinatord.monitoring.pipeline.tables.table import Column, Table

COLUMNS = (
    Column("group_id", "string", ""),
    Column("day", "date", "UTC"),
    Column("lag_target", "bigint", "records: a moment is good if no partition's lag exceeds this"),
    Column(
        "moments",
        "bigint",
        "moments of that day (lag_history) of which it is known whether they are good: both bounds of each lag are "
        "within the target, or those of one are beyond it",
    ),
    Column("good_moments", "bigint", "moments within the target"),
    Column("good_minutes", "double", "the time of good moments"),
    Column("bad_minutes", "double", ""),
    Column("good_share", "double", "0 to 1"),
    Column("budget_minutes", "double", "minutes that may be bad under the target share"),
    Column("budget_left", "double", "remaining share of the budget: 1 untouched, 0 used up, negative overdrawn"),
)


DAY_MS = 86_400_000


def _build(inputs: Inputs) -> DataFrame:
    options = inputs.options
    ddl = ", ".join(f"`{column.name}` {column.type}" for column in COLUMNS)
    history = standings(inputs).select("group_id", "_at_ms", "_lag", "_least_lag").where(F.size("_at_ms") > 0)
    return history.groupBy(part_of("group_id")).applyInArrow(lambda rows: days(rows, options), ddl)


def days(rows: pa.Table, options: TableOptions) -> pa.Table:
    """Return the days of groups. Each row is a partition's history, of one moment at least, as from `lag.standings`."""
    groups = rows["group_id"].combine_chunks().dictionary_encode()
    group_of = groups.indices.to_numpy()
    lists = [rows[name].combine_chunks() for name in ("_at_ms", "_lag", "_least_lag")]
    counts = lists[0].value_lengths().to_numpy()
    at_ms, lag, least_lag = (each.flatten().to_numpy() for each in lists)
    # Partitions may have different steps: use the widest.
    ends = np.cumsum(counts)
    spans = at_ms[ends - 1] - at_ms[ends - counts]
    step_ms = np.full(len(groups.dictionary), options.history_step_ms)
    np.maximum.at(step_ms, group_of, spans // np.maximum(counts - 1, 1))

    group = np.repeat(group_of, counts)
    moment = at_ms // step_ms[group]
    order = np.lexsort((moment, group))
    group, moment, lag, least_lag = (each[order] for each in (group, moment, lag, least_lag))
    starts = _starts(group, moment)
    lag, least_lag = np.maximum.reduceat(lag, starts), np.maximum.reduceat(least_lag, starts)
    is_known = (lag <= options.slo_lag) | (least_lag > options.slo_lag)
    group, moment, lag = (each[is_known] for each in (group[starts], moment[starts], lag))

    day = moment * step_ms[group] // DAY_MS
    starts = _starts(group, day)
    moments = np.diff(starts, append=len(day))
    good = np.add.reduceat(lag <= options.slo_lag, starts, dtype=np.int64) if len(starts) else moments
    group, day = group[starts], day[starts]
    minutes = step_ms[group] / 60_000
    budget, bad = moments * minutes * (1 - options.slo_target), (moments - good) * minutes
    values = {
        "group_id": groups.dictionary.take(pa.array(group)),
        "day": pa.array(day.astype("datetime64[D]"), pa.date32()),
        "lag_target": np.full(len(day), options.slo_lag),
        "moments": moments,
        "good_moments": good,
        "good_minutes": good * minutes,
        "bad_minutes": bad,
        "good_share": good / moments,
        "budget_minutes": budget,
        "budget_left": 1 - bad / budget,
    }
    return pa.table(values)


def _starts(*keys: np.ndarray) -> np.ndarray:
    """Return the indexes at which any of the sorted keys begins a new value."""
    changes = np.logical_or.reduce([np.diff(key, prepend=key[:1] - 1) != 0 for key in keys])
    return np.flatnonzero(changes)


SLO = Table("slo", "one row per group and day", COLUMNS, _build, True)
