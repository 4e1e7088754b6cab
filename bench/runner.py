"""Runs rows, A B A B, and puts their rounds together."""

from __future__ import annotations

import datetime
import functools
import os
import platform
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.generator import WrongAnswer, percentiles_ms
from bench.registry import Arena, Column, Row, Sample, Target
from bench.servers import Unavailable, cores
from coordinatord.base.observe.compiled import is_compiled
from kafka_wire.errors import DecodeError

Json = dict[str, Any]


def machine() -> Json:
    """What the figures belong to."""
    cpu = "unknown CPU"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.partition(":")[2].strip()
            break
    pages, page_bytes = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    generator, servers = cores()
    return {
        "cpu": cpu,
        "cores": len(generator | servers),
        "memory_gib": round(pages * page_bytes / 2**30, 1),
        "kernel": platform.release(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "build": "compiled" if is_compiled() else "interpreted",
        "pinned": f"generator on core {sorted(generator)}, servers on {sorted(servers)}",
    }


@functools.cache  # what is running, whatever is checked out meanwhile
def commit() -> str:
    """The commit that runs, with a plus sign where the tree differs from it."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        if shutil.which("git") is None:
            return ""
        done = subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    found = git("rev-parse", "--short=10", "HEAD")
    if not found:
        return "unknown"
    return found + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")


def run_row(
    arena: Arena, row: Row, columns: Sequence[Column], rounds: int, seconds: float, say: Callable[[str], None]
) -> Json:
    """All rounds of a row: each round goes once over the columns. A column that does not do the work has no figure."""
    wrong: dict[str, str] = {}
    samples: dict[str, list[Sample]] = {column.key: [] for column in columns}
    rounds = min(rounds, row.rounds)
    for number in range(rounds):
        for column in columns:
            if column.kind in arena.absent or column.key in wrong:
                continue
            say(f"{row.title} · {column.label} · round {number + 1} of {rounds}")
            try:
                samples[column.key].append(row.measure(arena, column, seconds))
            except Unavailable as why:
                if column.kind not in arena.absent:  # it is the row that cannot be
                    arena.absent[f"{row.name} {column.key}"] = f"{row.title}, {column.label}: {why}"
            except (WrongAnswer, DecodeError, OSError) as why:
                wrong[column.key] = f"{row.title}, {column.label}: {why}"
    measured = {c.key: put_together(c, samples[c.key]) for c in columns if samples[c.key] and c.key not in wrong}
    return {
        "name": row.name,
        "title": row.title,
        "unit": row.unit,
        "more_is_better": row.more_is_better,
        "columns": measured,
        "targets": [
            judge(target, row.columns[0].key, measured)
            for target in row.targets
            # One that compares with a server that nobody wants to see is left out.
            if target.of is None or target.of not in {each.key for each in row.columns} - {c.key for c in columns}
        ],
        "wrong": list(wrong.values()),
        "commit": commit(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def put_together(column: Column, samples: Sequence[Sample]) -> Json:
    """Medians of the rounds; percentiles over the latencies of all of them."""
    latencies = [each for sample in samples for each in sample.latencies]
    found: Json = {
        "label": column.label,
        "value": statistics.median(each.value for each in samples),
        "rounds": [each.value for each in samples],
    }
    for name in ("per_s", "server_busy", "generator_busy"):
        known = [value for each in samples if (value := getattr(each, name)) is not None]
        if known:
            found[name] = statistics.median(known)
    if latencies:
        found["latency_ms"] = percentiles_ms(latencies)
    # A client may send some kind of request in one round only, as PushTelemetry is sent at random times.
    names = dict.fromkeys(name for each in samples for name in each.also)
    also = {name: statistics.median(each.also.get(name, 0.0) for each in samples) for name in names}
    if also:
        found["also"] = also
    return found


def judge(target: Target, subject: str, measured: Json) -> Json:
    """The target with what was reached; `met` is None where it could not be told."""
    told: Json = {"limit": target.limit, "of": target.of, "at_least": target.at_least, "what": target.what}
    mine = _figure(measured.get(subject), target.what)
    against: float | None = 1.0
    if target.of is not None:
        against = (measured.get(subject, {}).get("also") or {}).get(target.of)
        if against is None:
            against = _figure(measured.get(target.of), target.what)
    if mine is None or not against:
        return {**told, "reached": None, "met": None}
    spread = _spread(target, measured[subject], measured.get(target.of or ""))
    return {**told, "reached": mine / against, "met": target.met(mine / against), "spread": spread}


def _spread(target: Target, mine: Json, other: Json | None) -> list[float] | None:
    """The least and the greatest that was reached by a round, compared with the other server's round that followed it;
    None for figures that only all rounds together have.
    """
    if target.what != "value" or (other is None and target.of is not None):
        return None
    reached: list[float] = list(mine["rounds"])
    if other is not None:
        reached = [one / against for one, against in zip(reached, other["rounds"], strict=False) if against]
    return [min(reached), max(reached)] if len(reached) > 1 else None


def _figure(column: Json | None, what: str) -> float | None:
    if column is None:
        return None
    if what == "value":
        return float(column["value"])
    if what in column.get("latency_ms", {}):
        return float(column["latency_ms"][what])
    return (column.get("also") or {}).get(what)


def heading(rounds: int, seconds: float) -> Json:
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": machine(),
        "rounds": rounds,
        "seconds": seconds,
        "command": " ".join(["python -m bench", *sys.argv[1:]]),
    }
