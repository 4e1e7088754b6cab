"""The log of each group, of either protocol, with its commit times: one pass over it yields all input of the tables of
rebalances and members.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.group_ops import PandasCogroupedOps

from coordinatord.monitoring.analysis import consumer_group
from coordinatord.monitoring.analysis.generations import Commits, Generation, TopicPartition, generation_of
from coordinatord.monitoring.analysis.group_epochs import Epoch, epochs
from coordinatord.monitoring.offsets_log.decode.row_types import GROUP_GENERATIONS, RECORD
from coordinatord.monitoring.pipeline.tables.inputs import Inputs, part_of
from coordinatord.monitoring.pipeline.tables.table import by_group

GENERATION_COLUMNS = (
    "tombstone",
    "generation",
    "timestamp_ms",
    "current_state_timestamp_ms",
    "protocol",
    "leader",
    "members",
)
OF_THE_RECORD = {field.name for field in RECORD} - {"tombstone"}
NOT_TOLD = frozenset({"log_partition", "log_offset", "group_id", "bucket", *OF_THE_RECORD})
"""Columns that analysis.consumer_group does not need."""
LEDGER = "ledger"


@dataclass(slots=True)
class GroupLog:
    """The log of one group. A group that changed its protocol has both."""

    group_id: str
    generations: list[Generation | None]
    epochs: list[Epoch | None]
    ledger: list[Mapping[str, Any]]
    commits: Commits


def group_rows(inputs: Inputs) -> DataFrame:
    """Return group_id, log_offset and kind; rows of group_generations with the columns that analysis.generations needs;
    and rows of the consumer protocol's kinds and of the ledger as JSON, in the column `text`.
    """
    generations = inputs.facts(GROUP_GENERATIONS).select("group_id", "log_offset", *GENERATION_COLUMNS)
    rows = generations.withColumn("kind", F.lit(GROUP_GENERATIONS))
    texts_by_kind = consumer_texts(inputs)
    if inputs.has_ledger:
        texts_by_kind[LEDGER] = inputs.ledger.select("group_id", F.col("record").alias("text"))
    for kind, texts in texts_by_kind.items():
        rows = rows.unionByName(texts.withColumn("kind", F.lit(kind)), allowMissingColumns=True)
    return rows


def consumer_texts(inputs: Inputs, where: str = "true") -> dict[str, DataFrame]:
    """Return group_id, log_offset, text (JSON) by kind: rows of the consumer protocol's kinds, if the log has such
    groups.
    """
    found = {}
    if inputs.has_consumer_groups:
        for kind in consumer_group.CONSUMER_KINDS:
            facts = inputs.facts(kind).where(where)
            told = F.to_json(F.struct(*[name for name in facts.columns if name not in NOT_TOLD]))
            found[kind] = facts.select("group_id", "log_offset", told.alias("text"))
    return found


def commit_times(inputs: Inputs) -> DataFrame:
    """Return the times of the commits of each partition."""
    time = F.col("made_ms").alias("time_ms")
    return inputs.commits.where("not tombstone").select("group_id", "topic", "partition", time)


def group_logs(inputs: Inputs, chosen: DataFrame | None = None) -> PandasCogroupedOps:
    """Return the rows of the two frames above in parts, for `read_groups`: of all groups, or of those in `chosen`."""
    frames = (group_rows(inputs), commit_times(inputs))
    if chosen is not None:
        frames = tuple(each.join(chosen, "group_id", "semi") for each in frames)
    rows, times = (each.groupBy(part_of("group_id")) for each in frames)
    return rows.cogroup(times)


def read_groups(rows: pa.Table, commits: pa.Table, names: Mapping[str, str], session_ms: int) -> Iterator[GroupLog]:
    """Yield the logs of groups from their rows of the two frames; groups with commits only have none."""
    times = dict(by_group(commits, "topic", "partition", "time_ms"))
    # The ledger's records have no offset here, and come in any order.
    for group_id, own in by_group(rows, "log_offset"):
        yield _read_group(group_id, own.to_pylist(), times.get(group_id), names, session_ms)


def _read_group(
    group_id: str, found: list[dict[str, Any]], commits: pa.Table | None, names: Mapping[str, str], session_ms: int
) -> GroupLog:
    texts = [(row["kind"], json.loads(row["text"])) for row in found if row["kind"] != GROUP_GENERATIONS]
    return GroupLog(
        group_id,
        [generation_of(row) for row in found if row["kind"] == GROUP_GENERATIONS],
        epochs((each for each in texts if each[0] != LEDGER), names, session_ms),
        [record for kind, record in texts if kind == LEDGER],
        _commits(commits),
    )


def _commits(table: pa.Table | None) -> Commits:
    """Return the commits of one group, from the columns topic, partition, time_ms, in this order."""
    times: dict[TopicPartition, Any] = {}
    if table is not None:
        topics = table["topic"].combine_chunks().dictionary_encode()
        codes, partitions = topics.indices.to_numpy(), table["partition"].to_numpy()
        changes = np.flatnonzero((np.diff(codes) != 0) | (np.diff(partitions) != 0)) + 1
        starts = [0, *changes.tolist(), table.num_rows]
        all_times = table["time_ms"].to_numpy()
        for start, end in pairwise(starts):
            topic = topics.dictionary[int(codes[start])].as_py()
            times[topic, int(partitions[start])] = all_times[start:end]
    return Commits(times)
