"""The input of tables: the facts read from the log, the ends of partitions, and the user's options."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from coordinatord.monitoring.analysis import consumer_group, share_log
from coordinatord.monitoring.analysis.consumer_group import SESSION_MS
from coordinatord.monitoring.analysis.load import LOAD_RATE
from coordinatord.monitoring.analysis.share_state import Replayed
from coordinatord.monitoring.analysis.status import Rules
from coordinatord.monitoring.offsets_log.decode.row_types import (
    GROUP_GENERATIONS,
    KINDS,
    OFFSET_COMMITS,
    QUARANTINE,
    TRANSACTION_MARKERS,
)
from coordinatord.monitoring.offsets_log.source.share_state_topic import SharePartition
from coordinatord.monitoring.offsets_log.source.topic_names import read_names
from coordinatord.monitoring.pipeline.source.frames import with_outcome
from coordinatord.monitoring.pipeline.source.partition_ends import ENDS_DDL
from coordinatord.monitoring.pipeline.source.stored_facts import BUCKETS

if TYPE_CHECKING:
    from coordinatord.monitoring.pipeline.tables.table import Table

FACTS = (
    OFFSET_COMMITS,
    GROUP_GENERATIONS,
    TRANSACTION_MARKERS,
    QUARANTINE,
    *consumer_group.CONSUMER_KINDS,
    share_log.MEMBERS,
)
"""Kinds of records that are stored. All others can be read with the source, but are in no table yet."""

LEDGER_DDL = "ledger_partition int, ledger_offset bigint, group_id string, record string"


PARTS = 256
"""Number of parts in which groups and partitions are passed to Python: one call for each would cost more than its
work.
"""


def part_of(*names: str) -> Any:
    """Return the part of a group, or of a topic and partition, as a column."""
    return F.pmod(F.xxhash64(*names), F.lit(PARTS)).alias("part")


def bucket_of(group_id: Any) -> Any:
    """Return the bucket of a group, as a column; null for rows without a group."""
    return F.pmod(F.xxhash64(group_id), F.lit(BUCKETS)).cast("int")


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The user's options for the tables. Times in milliseconds."""

    rules: Rules = field(default_factory=Rules)
    retention_ms: int = 10_080 * 60_000
    """offsets.retention.minutes of the cluster."""
    history_step_ms: int = 60_000
    slo_lag: int = 1_000
    """Largest lag of a good minute, in records."""
    slo_target: float = 0.99
    """The share of minutes that should be good."""
    consumer_session_ms: int = SESSION_MS
    """group.consumer.session.timeout.ms of the cluster."""
    load_rate: int = LOAD_RATE
    """Number of records per second that a coordinator loads at a start."""


@dataclass(frozen=True, slots=True)
class Shared:
    """The share partitions of a log: their records, their topics' names (ids if these are unknown), and the delivery
    count limits of groups that are known.
    """

    replayed: Mapping[SharePartition, Replayed] = field(default_factory=dict)
    named: Mapping[SharePartition, str] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)


class Inputs:
    """The input of one run. `buckets` are those to rebuild, `wanted` the tables to make; None for all. `shared` reads
    the share partitions. Several threads may make tables from one instance.
    """

    def __init__(
        self,
        spark: SparkSession,
        out: Path,
        tables: dict[str, Table],
        *,
        now_ms: int,
        options: TableOptions,
        log_directories: tuple[str, ...] = (),
        buckets: tuple[int, ...] | None = None,
        wanted: Collection[str] | None = None,
        shared: Callable[[], Shared] = Shared,
    ) -> None:
        self.spark = spark
        self.out = out
        self.now_ms = now_ms
        self.options = options
        self.log_directories = log_directories
        self.buckets = buckets
        self.shared = shared
        self._wanted = wanted
        self._tables = tables
        self._built: dict[str, DataFrame] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def facts(self, kind: str) -> DataFrame:
        """Return all rows of a kind, with `bucket`."""
        path = self.out / "facts" / kind
        columns = fact_columns(kind)
        if not any(path.glob("batch=*/*")):
            return nothing(self.spark, f"{columns}, bucket int")
        rows = self.spark.read.schema(f"{columns}, bucket int").parquet(str(path))
        if self.buckets is not None and "group_id" in KINDS[kind].schema.names:
            rows = rows.where(F.col("bucket").isin(*self.buckets))
        return rows

    @cached_property
    def outcomes(self) -> DataFrame:
        """All commits in the log, with `outcome` (source/frames.py); also those of aborted transactions."""
        commits = self.facts(OFFSET_COMMITS)
        if commits.where("transactional").limit(1).count():
            return with_outcome(commits, self.facts(TRANSACTION_MARKERS))
        return commits.withColumn("outcome", F.lit("plain"))

    @cached_property
    def commits(self) -> DataFrame:
        """Commits that have taken effect, and tombstones, in the order of `log_offset`; with `made_ms`, the time of the
        commit, and `effective_ms`, the time at which it took effect: that of the marker for a transaction's commit.

        `committed_offset` is null for a tombstone, and if it is negative, which no client accepts as an offset.
        """
        commits = self.outcomes
        effective_ms = made_ms = F.coalesce("commit_timestamp_ms", "timestamp_ms")
        if "outcome_log_offset" in commits.columns:
            commits = _effective(commits)
            effective_ms = F.greatest(made_ms, "outcome_timestamp_ms")
        offset = F.when(F.col("committed_offset") >= 0, F.col("committed_offset"))
        return (
            commits.withColumn("made_ms", made_ms)
            .withColumn("effective_ms", effective_ms)
            .withColumn("committed_offset", offset)
        )

    @cached_property
    def last_generations(self) -> DataFrame:
        """The last row of group_generations of each classic group that still exists."""
        return _last(self.facts(GROUP_GENERATIONS), "group_id").where(~F.col("tombstone"))

    @cached_property
    def members(self) -> DataFrame:
        """group_id, has_members: of groups with known members; and empty_ms, the time since which there are none."""
        has_members = F.size("members") > 0
        since_ms = F.coalesce("current_state_timestamp_ms", "timestamp_ms")
        classic = self.last_generations.select(
            "group_id", has_members.alias("has_members"), F.when(~has_members, since_ms).alias("empty_ms")
        )
        consumer = (
            _last(self.facts(consumer_group.MEMBER), "group_id", "member_id")
            .groupBy("group_id")
            .agg(F.max(~F.col("tombstone")).alias("has_members"), F.max("timestamp_ms").alias("empty_ms"))
        )
        return (
            classic.unionByName(consumer)
            .groupBy("group_id")
            .agg(F.max("has_members").alias("has_members"), F.max("empty_ms").alias("empty_ms"))
            .withColumn("empty_ms", F.when(~F.col("has_members"), F.col("empty_ms")))
        )

    @cached_property
    def assigned(self) -> DataFrame:
        """group_id, topic, partition: the assigned partitions of the members of each group."""
        of_classic = (
            self.last_generations.select("group_id", F.explode("members.assignment").alias("_of"))
            .select("group_id", F.explode("_of.assigned_partitions").alias("_of"))
            .select("group_id", "_of.topic", F.explode("_of.partitions").alias("partition"))
        )
        if not self.topic_names:
            return of_classic.distinct()
        members = _last(self.facts(consumer_group.MEMBER), "group_id", "member_id").where(~F.col("tombstone"))
        current = _last(self.facts(consumer_group.CURRENT), "group_id", "member_id").where(~F.col("tombstone"))
        ids, topics = (pa.array(each, pa.string()) for each in zip(*self.topic_names.items(), strict=True))
        names = self.spark.createDataFrame(pa.table({"topic_id": ids, "topic": topics}))
        of_consumers = (
            current.join(members.select("group_id", "member_id"), ["group_id", "member_id"])
            .select("group_id", F.explode("assigned_partitions").alias("_of"))
            .select("group_id", "_of.topic_id", F.explode("_of.partitions").alias("partition"))
            .join(F.broadcast(names), "topic_id")
            .select("group_id", "topic", "partition")
        )
        return of_classic.unionByName(of_consumers).distinct()

    @cached_property
    def consumer_topics(self) -> DataFrame:
        """group_id, topics: the topics that the members of each group of the consumer protocol read, by name or by
        pattern. Groups without topics are omitted.
        """
        groups = _last(self.facts(consumer_group.METADATA), "group_id").where(~F.col("tombstone")).select("group_id")
        patterns = _last(self.facts(consumer_group.REGEX), "group_id", "regular_expression").where(~F.col("tombstone"))
        resolved = patterns.select(
            "group_id", F.col("regular_expression").alias("_regex"), F.col("topics").alias("_of")
        )
        members = _last(self.facts(consumer_group.MEMBER), "group_id", "member_id").where(~F.col("tombstone"))
        nothing = F.array().cast("array<string>")
        named = F.coalesce("subscribed_topic_names", nothing)
        read = (
            members.withColumn("_regex", F.col("subscribed_topic_regex"))
            .join(resolved, ["group_id", "_regex"], "left")
            .select("group_id", F.concat(named, F.coalesce("_of", nothing)).alias("_read"))
            .groupBy("group_id")
            .agg(F.array_distinct(F.flatten(F.collect_list("_read"))).alias("topics"))
        )
        return groups.join(read, "group_id", "left").select("group_id", F.coalesce("topics", nothing).alias("topics"))

    @cached_property
    def subscribed(self) -> DataFrame:
        """group_id, topics: the topics to which the members of each group subscribe; null if the topics of any member
        are unknown.
        """
        topics = F.transform("members", lambda member: member["subscription"]["topics"])
        is_known = (F.col("protocol_type") == "consumer") & F.forall(topics, lambda each: F.size(each) > 0)
        classic = self.last_generations.select(
            "group_id", F.when(is_known, F.array_distinct(F.flatten(topics))).alias("topics")
        )
        if not self.has_consumer_groups:
            return classic
        consumer = self.consumer_topics.select(
            "group_id", F.when(F.size("topics") > 0, F.col("topics")).alias("topics")
        )
        return classic.join(consumer.select("group_id"), "group_id", "anti").unionByName(consumer)

    @cached_property
    def topic_names(self) -> dict[str, str]:
        """Topic names by id: those that runs have found (source/topic_names.py), and those in the records."""
        if not self.has_consumer_groups:
            return {}
        committed = self.facts(OFFSET_COMMITS).where("topic_id is not null").select("topic_id", "topic")
        listed = self.facts(consumer_group.PARTITION_METADATA).select(F.explode("topics").alias("of"))
        told = committed.unionByName(listed.select("of.topic_id", F.col("of.topic_name").alias("topic")))
        return read_names(self.out) | {row["topic_id"]: row["topic"] for row in told.distinct().collect()}

    @property
    def has_consumer_groups(self) -> bool:
        """True if the log has any group of the consumer protocol."""
        return any((self.out / "facts" / consumer_group.METADATA).glob("batch=*/*"))

    @property
    def has_ledger(self) -> bool:
        return any((self.out / "ledger").glob("run=*/*"))

    @cached_property
    def ledger(self) -> DataFrame:
        """LEDGER_DDL with `bucket`: the records of coordinatord's ledger as JSON; none for a plain Kafka log."""
        path = self.out / "ledger"
        ddl = f"{LEDGER_DDL}, bucket int"
        if not self.has_ledger:
            return nothing(self.spark, ddl)
        rows = self.spark.read.schema(ddl).parquet(str(path))
        return rows if self.buckets is None else rows.where(F.col("bucket").isin(*self.buckets))

    @cached_property
    def endings(self) -> DataFrame:
        """topic, partition, log_start_offset, end_offset, tail, retention_ms, sampled_ms (the last known), and
        `points`: all of them.
        """
        path = self.out / "end_offsets"
        if not any(path.glob("*")):
            return nothing(self.spark, ENDS_DDL)
        samples = self.spark.read.schema(ENDS_DDL).option("recursiveFileLookup", True).parquet(str(path))
        sample = F.struct(F.col("end_offset").alias("offset"), F.col("sampled_ms").alias("time_ms"))
        return samples.groupBy("topic", "partition").agg(
            F.max("sampled_ms").alias("sampled_ms"),
            F.max_by("log_start_offset", "sampled_ms").alias("log_start_offset"),
            F.max_by("end_offset", "sampled_ms").alias("end_offset"),
            F.max_by("tail", "sampled_ms").alias("tail"),
            F.max_by("retention_ms", "sampled_ms").alias("retention_ms"),
            # A directory gives its whole history each time: that of the last sample is enough.
            F.concat(F.max_by("points", "sampled_ms"), F.collect_list(sample)).alias("points"),
        )

    def wants(self, tables: frozenset[str]) -> bool:
        """Return whether any of these tables is to be made."""
        return self._wanted is None or not tables.isdisjoint(self._wanted)

    def table(self, name: str) -> DataFrame:
        """Return another table, of the same buckets."""
        return self._tables[name].build(self).select(*self._tables[name].names)

    def once(self, name: str, build: Callable[[], DataFrame]) -> DataFrame:
        """Return the result of `build`, which is called and computed once, however many tables need it."""
        with self._locks[name]:
            if name not in self._built:
                self._built[name] = build().persist()
            return self._built[name]

    def release(self) -> None:
        """Free the cached data, when no table needs it any more."""
        for rows in self._built.values():
            rows.unpersist()
        self._built.clear()


def nothing(spark: SparkSession, ddl: str) -> DataFrame:
    """Return no rows, with these columns. Spark's optimizer recognizes that there are none, and removes from a query
    the work that only these rows would need. An empty `createDataFrame` would be a task of Python workers instead.
    """
    columns = (F.lit(None).cast(each.dataType).alias(each.name) for each in StructType.fromDDL(ddl))
    return spark.range(1).select(*columns).where(F.lit(False))


def fact_columns(kind: str) -> str:
    """Return the columns of a kind in Spark's DDL, without `bucket`."""
    schema = from_arrow_schema(KINDS[kind].schema)
    return ", ".join(f"`{each.name}` {each.dataType.simpleString()}" for each in schema.fields)


def _effective(commits: DataFrame) -> DataFrame:
    """Return the commits that were ever the group's offset. As in Kafka, a transaction's commit was, unless a later
    write (a commit outside of it, a tombstone) was effective before the transaction's marker. So commits take effect in
    the order of the log, whatever the order of the markers.
    """
    place = F.coalesce("outcome_log_offset", "log_offset")
    before = Window.partitionBy("log_partition", "group_id", "topic", "partition").orderBy(place, "log_offset")
    newest = F.max("log_offset").over(before.rowsBetween(Window.unboundedPreceding, -1))
    done = commits.where(F.col("outcome").isin("plain", "COMMIT")).withColumn("_newest", newest)
    return done.where("_newest is null or log_offset > _newest").drop("_newest")


def _last(rows: DataFrame, *keys: str) -> DataFrame:
    """Return the last row in the log for each key."""
    newest = Window.partitionBy(*keys).orderBy(F.col("log_offset").desc())
    return rows.withColumn("_rank", F.row_number().over(newest)).where("_rank = 1").drop("_rank")
