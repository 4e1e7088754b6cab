"""rebalances: what happened, for how long, and why: from our ledger, or inferred from a plain Kafka log."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coordinatord.pipeline.analysis.generations import Commits, TopicPartition, generation_of
from coordinatord.pipeline.analysis.rebalances import rebalances
from coordinatord.pipeline.kinds import GROUP_GENERATIONS
from coordinatord.pipeline.tables.inputs import Inputs
from coordinatord.pipeline.tables.table import Column, Table, pick

COLUMNS = (
    Column("group_id", "string", ""),
    Column("generation_before", "int", "null where the log does not have it any more"),
    Column("generation", "int", "the one that came of it"),
    Column(
        "outcome",
        "string",
        "`completed`; `empty`: nobody was left; from our ledger also `superseded` by another one, and `stopped`: the "
        "coordinator stopped serving the group",
    ),
    Column("began_ms", "bigint", "when it began; of an inferred one an estimate within the bounds"),
    Column("began_after_ms", "bigint", "it began at this moment or later"),
    Column("began_before_ms", "bigint", "it began at this moment or before"),
    Column("joined_ms", "bigint", "when all members had rejoined; null where they did not, or the log does not tell"),
    Column("ended_ms", "bigint", "when it was over, and the generation was logged"),
    Column("initial", "boolean", "the group was empty before"),
    Column("protocol", "string", "the assignor that was chosen"),
    Column("leader", "string", "the member that assigned"),
    Column("members_before", "int", ""),
    Column("members", "int", "after it"),
    Column("added", "int", "members that are new; a static one that restarted is added and removed"),
    Column("removed", "int", "members that are gone"),
    Column("kept", "int", "members that stayed"),
    Column("skipped_generations", "int", "generations in between that came to nothing, and were not logged"),
    Column("partitions_before", "int", "that were assigned"),
    Column("partitions_moved", "int", "of those: assigned to another member; a static one stays the same"),
    Column("partitions_revoked", "int", "of those: assigned to nobody"),
    Column("stickiness", "double", "share of those that stayed where they were, 0 to 1"),
    Column("missed_commit_ms", "bigint", "by how much their commits came later than usual, summed over partitions"),
    Column("trigger", "string", "`new member`, `member left`, `session expired`, …: in the ledger's words"),
    Column("trigger_member_id", "string", "the member that did it, where it was one"),
    Column("trigger_client_id", "string", "its client.id"),
    Column("client_reason", "string", "the client's own reason (KIP-800); only our ledger has it"),
    Column("cause", "string", "in words: what happened, or what it is inferred from"),
    Column("how", "string", "`observed` by our ledger, or `inferred`"),
    Column("confidence", "double", "that the trigger is right: 1 where it was observed"),
)
TYPES = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "boolean": pa.bool_(), "double": pa.float64()}


def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """Of columns of plain types."""
    return pa.schema([pa.field(column.name, TYPES[column.type]) for column in columns])


def arrow_table(columns: tuple[Column, ...], rows: list[tuple[Any, ...]]) -> pa.Table:
    schema = arrow_schema(columns)
    values = zip(*rows, strict=True) if rows else ([] for _ in columns)
    return pa.table([pa.array(list(each), field.type) for each, field in zip(values, schema, strict=True)], schema)


def commits_of(table: pa.Table) -> Commits:
    """Of one group: columns topic, partition, time_ms."""
    times: dict[TopicPartition, Any] = {}
    if table.num_rows:
        table = table.sort_by([("topic", "ascending"), ("partition", "ascending"), ("time_ms", "ascending")])
        topics = table["topic"].combine_chunks().dictionary_encode()
        codes, partitions = topics.indices.to_numpy(), table["partition"].to_numpy()
        changes = np.flatnonzero((np.diff(codes) != 0) | (np.diff(partitions) != 0)) + 1
        starts = [0, *changes.tolist(), table.num_rows]
        all_times = table["time_ms"].to_numpy()
        for start, end in pairwise(starts):
            topic = topics.dictionary[int(codes[start])].as_py()
            times[topic, int(partitions[start])] = all_times[start:end]
    return Commits(times)


def generations(inputs: Inputs) -> DataFrame:
    """Rows of group_generations with what analysis.generations wants."""
    columns = ["tombstone", "generation", "timestamp_ms", "current_state_timestamp_ms", "protocol", "leader", "members"]
    return inputs.facts(GROUP_GENERATIONS).select("group_id", "log_offset", *columns)


def commit_times(inputs: Inputs) -> DataFrame:
    """When each partition was committed."""
    time = F.coalesce("commit_timestamp_ms", "timestamp_ms").alias("time_ms")
    return inputs.commits.where("not tombstone").select("group_id", "topic", "partition", time)


def _build(inputs: Inputs) -> DataFrame:
    ledger = inputs.ledger.select("group_id", F.col("record").alias("ledger"))
    both = generations(inputs).unionByName(ledger, allowMissingColumns=True)

    def tell(log: pa.Table, commits: pa.Table) -> pa.Table:
        rows = log.sort_by("log_offset").to_pylist()
        told = [json.loads(row["ledger"]) for row in rows if row["ledger"] is not None]
        found = [generation_of(row) for row in rows if row["ledger"] is None]
        made = rebalances(found, commits_of(commits), told) if rows else ()
        group_id = rows[0]["group_id"] if rows else None
        return arrow_table(COLUMNS, [(group_id, *pick(COLUMNS[1:], each)) for each in made])

    ddl = ", ".join(f"`{column.name}` {column.type}" for column in COLUMNS)
    return both.groupBy("group_id").cogroup(commit_times(inputs).groupBy("group_id")).applyInArrow(tell, ddl)


REBALANCES = Table("rebalances", "one row per rebalance of a group of the classic protocol", COLUMNS, _build)
