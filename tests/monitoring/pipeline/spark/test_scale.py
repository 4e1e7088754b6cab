"""A longer history of more groups costs work in proportion to its records, counted in records and not in seconds.

What the tables of such histories say is test_truth.py's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinatord.monitoring.pipeline.run.ingest import Job
from coordinatord.monitoring.pipeline.run.update import run
from coordinatord.monitoring.pipeline.source.frames import Source
from tests.monitoring.pipeline.truth.world import SECONDS, World


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


@pytest.mark.timeout(900)  # all tables twice: a minute, and many times that on a busy machine
def test_twice_the_groups_and_twice_the_time_cost_the_same_for_each_record(spark: Any, tmp_path: Path) -> None:
    done: list[tuple[int, int, int]] = []
    for number, world in enumerate((World(1), World(1, 20, 2 * SECONDS))):
        data = tmp_path / f"data{number}"
        world.write(data)
        work = Work(spark)
        summary = run(
            spark, Job(Source(str(data)), tmp_path / f"out{number}", str(data), is_small=False), now_ms=world.now_ms
        )
        done.append((sum(summary.new.values()), *work.done()))
    (records, moved, tasks), (more_records, more_moved, more_tasks) = done
    assert 3.5 < more_records / records < 6
    assert moved > 10 * records, "each table reads the facts: this counts"
    # What grows with the square of the groups or of the time would be twice as much for each record.
    assert more_moved / more_records <= moved / records * 1.25
    assert more_tasks <= tasks * 1.25, "tasks come with buckets and log partitions, not with records"
