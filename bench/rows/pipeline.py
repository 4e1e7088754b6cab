"""The pipeline's data source, on what Kafka itself wrote: commits of 4 partitions by 200 groups, as the hot path's rows
send them, in the 50 partitions of `__consumer_offsets`. One partition after the other is laid behind itself, with its
offsets moved on, until there are RECORDS: the batches are Kafka's, byte for byte, but for the base offset.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.generator import drive
from bench.registry import KAFKA, Arena, Column, Sample, at_least, row
from bench.rows.steady import commit_flows
from bench.servers import Unavailable, cores, cpu_s, pin
from kafka_wire.records.batch import assign_offset, iterate_batches

#: of commits at Kafka, before its segments are read
COMMIT_S = 6.0
RECORDS = 1_200_000
#: the plain road is some thirty times slower, and says the same of a tenth
PLAIN_SHARE = 20
#: The JVM compiles what is run often, in steps.
WARM_UPS = 4

COMPILED = Column("ours", "kafka", "columnar decoder (numba)")
PLAIN = Column("plain", "kafka", "record by record, plain Python")
SPARK = Column("ours", "kafka", "consumer_offsets in Spark, 2 cores")


def logs(arena: Arena) -> Path:
    """A directory with the partitions' logs, made at the first call of a run."""
    made = arena.directory / "offsets"
    if made.exists():
        return made
    server = arena.server(KAFKA)
    drive(commit_flows(server), COMMIT_S, 8)
    partial = arena.directory / "offsets.partial"
    segments = {
        path.parent.name: bytearray(path.read_bytes())
        for path in sorted(arena.directory.glob("*-kafka/**/__consumer_offsets-*/*.log"))
        if path.stat().st_size
    }
    written = sum(header.record_count for data in segments.values() for _, header in iterate_batches(data))
    for name, data in segments.items():
        directory = partial / name
        directory.mkdir(parents=True)
        with (directory / f"{0:020d}.log").open("wb") as file:
            for number in range(-(-RECORDS // written)):
                file.write(moved(data, number))
    shutil.move(partial, made)
    return made


def moved(data: bytearray, times: int) -> bytearray:
    """The same batches, `times` of the log's length behind."""
    out = bytearray(data)
    batches = list(iterate_batches(data))
    length = batches[-1][1].next_offset
    for position, header in batches:
        head = out[position : position + 16]
        assign_offset(head, header.base_offset + times * length, header.leader_epoch)
        out[position : position + 16] = head
    return out


def stretches(arena: Arena) -> Iterator[Any]:
    for path in sorted(logs(arena).glob("*/*.log")):
        yield np.frombuffer(bytearray(path.read_bytes()), np.uint8)


@row(
    "decode",
    "records of a Kafka segment to Arrow, per CPU second of one process",
    "/s",
    columns=[COMPILED, PLAIN],
    targets=[at_least(1_000_000)],
    more_is_better=True,
)
def decode(arena: Arena, column: Column, seconds: float) -> Sample:
    from coordinatord.monitoring.offsets_log.decode import chunk, compiling
    from coordinatord.monitoring.offsets_log.decode.projection import Wanted
    from coordinatord.monitoring.offsets_log.source.segments import CHUNK_BYTES

    compiled = column is COMPILED
    if compiled and not compiling.compile_loops():
        raise Unavailable("numba is not installed")
    wanted = Wanted(frozenset({"offset_commits"}), log_partition=0)
    used_s = rows = records = size = 0.0
    for number, buffer in enumerate(stretches(arena)):
        if not number and compiled:
            chunk.decode(buffer, 0, min(len(buffer), 100_000), 0, wanted, compiled=True)  # compiles, or loads
        at, end = 0, len(buffer) if compiled else len(buffer) // PLAIN_SHARE
        began_s = time.process_time()
        while at < end:
            stop = min(end, at + CHUNK_BYTES)
            decoded = chunk.decode(buffer, at, stop, 0, wanted, compiled=compiled)
            records += decoded.records
            rows += sum(batch.num_rows for batch in decoded.tables.get("offset_commits", ()))
            if decoded.at == at:
                break  # a batch that the plain road's share cuts in two
            at = decoded.at
        used_s += time.process_time() - began_s
        size += end
    assert rows > 0.95 * records, "these are commits"
    return Sample(records / used_s, also={"bytes per record": size / records, "records": records})


@row(
    "spark",
    "records through Spark, wall clock, warm",
    "/s",
    columns=[SPARK],
    targets=[at_least(500_000)],
    quick=False,
    more_is_better=True,
)
def spark(arena: Arena, column: Column, seconds: float) -> Sample:
    """Every column of every commit into Spark and thrown away there (its `noop` sink)."""
    try:
        from coordinatord.monitoring.pipeline.source.frames import Source, start_spark
    except ImportError as missing:
        raise Unavailable(f"Spark is left out: {missing} (pip install 'coordinatord[spark]')") from missing
    source = Source(str(logs(arena)))
    pin(os.getpid(), cores()[0] | cores()[1])  # the JVM and its workers inherit both cores
    session = start_spark(
        **{
            "spark.master": "local[2]",
            "spark.driver.memory": "1g",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
    )
    session.sparkContext.setLogLevel("ERROR")
    records = source.read(session, "offset_commits", columns=("log_offset",)).count()
    frame = source.read(session, "offset_commits")
    for _ in range(WARM_UPS):
        frame.write.format("noop").mode("overwrite").save()
    began_s, used_s = time.perf_counter(), tree_cpu_s()
    frame.write.format("noop").mode("overwrite").save()
    took_s, used_s = time.perf_counter() - began_s, tree_cpu_s() - used_s
    pin(os.getpid(), cores()[0])
    return Sample(
        records / took_s,
        server_busy=used_s / took_s,
        also={"records": float(records), "CPU µs per record": used_s / records * 1e6},
    )


def tree_cpu_s() -> float:
    """CPU time of the JVM and of its Python workers: of all processes below this one."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry)] = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
    below = {os.getpid()}
    while True:
        more = {pid for pid, parent in parents.items() if parent in below} - below
        if not more:
            break
        below |= more
    used = 0.0
    for pid in below - {os.getpid()}:
        with contextlib.suppress(OSError):
            used += cpu_s(pid)
    return used
