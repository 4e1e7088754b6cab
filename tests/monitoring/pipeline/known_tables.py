"""Whether the tables of a generated history (known.py) say what is known of it; and what making them took."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from tests.monitoring.pipeline.known import GENERATIONS, PARTITIONS, Shape


def check(spark: Any, out: Path, shape: Shape, records: int) -> None:
    """Every group's lag, commits, generations and members, and how much of the log it has. AssertionError."""
    from coordinatord.monitoring.pipeline.run.update import read_table

    def rows(name: str, *columns: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in read_table(spark, out, name).select(*columns).collect()]

    places = [
        (group, partition, shape.name(group), shape.topic(group))
        for group in range(shape.groups)
        for partition in range(PARTITIONS)
    ]
    same("lag", rows("lag", "group_id", "topic", "partition", "lag", "committed_offset"), [
        (name, topic, partition, None, None)  # a member has it
        if shape.forgets(group, partition)
        else (name, topic, partition, shape.lag(group), int(shape.committed(group, shape.rounds - 1)))
        for group, partition, name, topic in places
    ])  # fmt: skip
    same("commits", rows("commits", "group_id", "topic", "partition", "commits", "no_op_commits", "forgotten"), [
        (name, topic, partition, shape.rounds, shape.no_ops(group), int(shape.forgets(group, partition)))
        for group, partition, name, topic in places
    ])  # fmt: skip
    groups = [shape.name(group) for group in range(shape.groups)]
    same("rebalances", rows("rebalances", "group_id", "generation", "added", "removed", "partitions_moved"), [
        (name, generation, 1, 1, 2) if generation > 1 else (name, generation, 2, 0, None)
        for name in groups
        for generation in range(1, GENERATIONS + 1)
    ])  # fmt: skip
    same("members", rows("members", "group_id"), [(name,) for name in groups for _ in range(GENERATIONS + 1)])
    loads = rows("offsets_load", "group_id", "records")
    assert len(loads) == shape.groups, f"offsets_load has {len(loads)} rows for {shape.groups} groups"
    assert sum(count for _, count in loads) == records, "each record of the log is in offsets_load once"


def same(table: str, found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> None:
    wrong, missing = Counter(found) - Counter(expected), Counter(expected) - Counter(found)
    assert not wrong, f"{table}: {wrong.total()} rows that should not be there, as {list(wrong)[:3]}"
    assert not missing, f"{table}: {missing.total()} rows are missing, as {list(missing)[:3]}"


class Work:
    """What a session does from now on: records that its stages read and that go through shuffles, and tasks. Cost is
    counted by them where time cannot be trusted.
    """

    def __init__(self, spark: Any) -> None:
        self._context = spark.sparkContext
        self._first = max((each.stageId() for each in self._stages()), default=-1) + 1

    def _stages(self) -> list[Any]:
        jvm, gateway = self._context._jvm, self._context._gateway
        store = self._context._jsc.sc().statusStore()
        found = store.stageList(None, False, False, gateway.new_array(jvm.double, 0), jvm.java.util.ArrayList())
        return [found.apply(index) for index in range(found.size())]

    def done(self) -> tuple[int, int]:
        """(records, tasks) so far."""
        stages = [each for each in self._stages() if each.stageId() >= self._first]
        kept = int(self._context.getConf().get("spark.ui.retainedStages", "1000"))
        assert len(stages) < kept, "Spark has forgotten the first stages"
        records = sum(each.inputRecords() + each.shuffleReadRecords() + each.shuffleWriteRecords() for each in stages)
        return records, sum(each.numCompleteTasks() for each in stages)
