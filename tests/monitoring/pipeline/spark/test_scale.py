"""All tables of generated histories of known truth: they say what is known, and four times as much costs four times as
much work, counted in records and not in seconds. `python -m bench --only pipeline-scale` has millions of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinatord.monitoring.pipeline.run.ingest import Job
from coordinatord.monitoring.pipeline.run.update import run
from coordinatord.monitoring.pipeline.source.frames import Source
from tests.monitoring.pipeline.known import Shape, write
from tests.monitoring.pipeline.known_tables import Work, check

ONE, FOUR = Shape(groups=60, rounds=20, log_partitions=5), Shape(groups=120, rounds=40, log_partitions=5)
"""Twice the groups, and twice the history of each."""


@pytest.mark.timeout(900)  # all tables twice: a minute, and many times that on a busy machine
def test_four_times_the_history_is_four_times_the_work(spark: Any, tmp_path: Path) -> None:
    done: list[tuple[int, int, int]] = []
    for number, shape in enumerate((ONE, FOUR)):
        data, out = tmp_path / f"data{number}", tmp_path / f"out{number}"
        records = write(data, shape)
        work = Work(spark)
        summary = run(spark, Job(Source(str(data)), out, str(data), is_small=False), now_ms=shape.now_ms)
        moved, tasks = work.done()
        assert sum(summary.new.values()) == records
        check(spark, out, shape, records)
        done.append((records, moved, tasks))
    (records, moved, tasks), (more_records, more_moved, more_tasks) = done
    assert 3.5 < more_records / records < 4.1
    assert moved > 10 * records, "each table reads the facts: this counts"
    assert more_moved / moved <= more_records / records * 1.05
    assert more_tasks <= tasks * 1.05, "tasks come with buckets and log partitions, not with records"
