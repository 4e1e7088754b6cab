"""What all tables of the pipeline cost as a log grows: a history of known truth, a sixteenth of it, a quarter, and all.

From one size to the next there are twice the groups, and twice the history of each of them, so that what grows faster
than either shows. Costs are CPU seconds of Spark and its Python workers, which other programs hardly change; the
session is warmed up with the smallest history. What a run costs however little is new hides growth in the cost per
record: so there is also what each record more has cost, from one size to the next. What the tables say is compared with
the truth each time.
"""

from __future__ import annotations

import gc
import os
import shutil
import time
from itertools import pairwise

from bench.generator import WrongAnswer
from bench.registry import Arena, Column, Sample, at_most, row
from bench.rows.pipeline import tree_cpu_s
from bench.servers import Unavailable, cores, pin

SIXTEEN = (10_000, 250)
"""Groups, and commits of each of its four partitions."""
MEMORY = "3g"

RUN = Column("ours", "ours", "pipeline run, 2 cores")


@row(
    "pipeline-scale",
    "pipeline run: all tables of 10 million commits of 10,000 groups",
    "µs of CPU per record",
    columns=[RUN],
    targets=[at_most(1.15, of="at 4×"), at_most(1.15, of="each more, 1× to 4×", what="each more, 4× to 16×")],
    rounds=1,
    quick=False,
)
def pipeline_scale(arena: Arena, column: Column, seconds: float) -> Sample:
    try:
        from coordinatord.cli.pipeline import QUIET
        from coordinatord.monitoring.pipeline.source.frames import start_spark
    except ImportError as missing:
        raise Unavailable(f"Spark is left out: {missing} (pip install 'coordinatord[spark]')") from missing
    arena.close()  # with a thousand descriptors of other rows, py4j's select() waits for the JVM for ever
    gc.collect()
    pin(os.getpid(), cores()[0] | cores()[1])  # the JVM and its workers inherit both cores
    spark = start_spark(**{**QUIET, "spark.master": "local[2]", "spark.driver.memory": MEMORY})
    spark.sparkContext.setLogLevel("ERROR")
    also: dict[str, float] = {}
    _run(arena, spark, 16)  # warms up
    done = {16 // part: _run(arena, spark, part) for part in (16, 4, 1)}
    spark.stop()
    pin(os.getpid(), cores()[0])
    for times, (records, took_s, used_s) in done.items():
        also |= {f"at {times}×": used_s / records * 1e6, f"s at {times}×": took_s, f"/s at {times}×": records / took_s}
    for smaller, larger in pairwise(done):
        more = (done[larger][2] - done[smaller][2]) / (done[larger][0] - done[smaller][0])
        also[f"each more, {smaller}× to {larger}×"] = more * 1e6
    return Sample(also["at 16×"], also=also)


def _run(arena: Arena, spark: object, part: int) -> tuple[int, float, float]:
    """(records, seconds, CPU seconds) of a history that is so many times smaller."""
    from coordinatord.monitoring.pipeline.run.ingest import Job
    from coordinatord.monitoring.pipeline.run.update import run
    from coordinatord.monitoring.pipeline.source.frames import Source
    from tests.monitoring.pipeline.known import Shape, write
    from tests.monitoring.pipeline.known_tables import check

    smaller = round(part**0.5)
    shape = Shape(SIXTEEN[0] // smaller, SIXTEEN[1] // smaller // 2 * 2)
    data, out = arena.directory / "history", arena.directory / "tables"
    records = write(data, shape)
    try:
        began_s, used_s = time.perf_counter(), tree_cpu_s()
        run(spark, Job(Source(str(data)), out, str(data)), now_ms=shape.now_ms)
        took_s, used_s = time.perf_counter() - began_s, tree_cpu_s() - used_s
        try:
            check(spark, out, shape, records)
        except AssertionError as wrong:
            raise WrongAnswer(str(wrong)) from wrong
    finally:
        shutil.rmtree(data)
        shutil.rmtree(out, ignore_errors=True)
    return records, took_s, used_s
