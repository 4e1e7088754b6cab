"""The input of the rules of status about the members of each group: the existence of members, the way in which the last
of them ended, and the topics to which the present ones subscribe.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coordinatord.monitoring.analysis.group_epochs import generations
from coordinatord.monitoring.analysis.members import how_they_went, lives
from coordinatord.monitoring.pipeline.tables.group_log import group_logs, read_groups
from coordinatord.monitoring.pipeline.tables.inputs import Inputs, nothing


def members_now(inputs: Inputs) -> DataFrame:
    """Return group_id, has_members, empty_ms, how, topics: a row for each group with known data; see
    analysis.status.Members.
    """
    found = inputs.members.join(_went(inputs), "group_id", "left").join(inputs.subscribed, "group_id", "left")
    topics = F.when(F.col("has_members"), F.col("topics")).alias("topics")
    return found.select("group_id", "has_members", "empty_ms", "how", topics)


def _went(inputs: Inputs) -> DataFrame:
    """Return group_id, how: of groups that have lost all members. Only their part of the log is read."""
    names, session_ms = inputs.topic_names, inputs.options.consumer_session_ms
    schema = pa.schema([("group_id", pa.string()), ("how", pa.string())])

    def make(rows: pa.Table, commits: pa.Table) -> pa.Table:
        made = []
        for found in read_groups(rows, commits, names, session_ms):
            logs = (found.generations, list(generations(found.epochs)))
            of_group = [life for log in logs for life in lives(log, found.commits)]
            made.append({"group_id": found.group_id, "how": how_they_went(of_group)})
        return pa.Table.from_pylist(made, schema)

    empty = [row["group_id"] for row in inputs.members.where(~F.col("has_members")).select("group_id").collect()]
    if not empty:
        return nothing(inputs.spark, "group_id string, how string")
    chosen = F.broadcast(inputs.spark.createDataFrame(pa.table({"group_id": pa.array(empty, pa.string())})))
    return group_logs(inputs, chosen).applyInArrow(make, "group_id string, how string")
