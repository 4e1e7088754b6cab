"""Finds errors before Spark is started, which takes ten seconds: no log, no answer at an address, no place for the
tables.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from coordinatord.pipeline.run.alone import alone
from coordinatord.pipeline.run.amount import Amount, of_broker, of_bytes
from coordinatord.pipeline.run.ingest import Job
from coordinatord.pipeline.run.progress import Progress
from coordinatord.pipeline.run.state import read_state
from coordinatord.pipeline.source.options import PATIENCE_S, check_address, read_options
from coordinatord.pipeline.source.segments import SourceError

QUICKLY_S = 3
"""A reachable broker answers within this time. For a slower one, the user is told of the wait."""

Answer = TypeVar("Answer")


def check_run(job: Job, progress: Progress) -> Amount:
    """How much there is to read, at most. Raises SourceError if the run would end with one."""
    progress.stage("looking at the source")
    options = read_options(job.source.options)
    if options.bootstrap is None:
        amount = of_bytes(options)
    else:
        amount = _patiently(lambda patience_s: of_broker(replace(options, patience_s=patience_s)), progress)
    if job.end_offsets is not None and not job.log_directories:
        check_address("--end-offsets", job.end_offsets, or_else="a broker's log directory")
        if job.end_offsets != options.bootstrap:
            _patiently(lambda patience_s: _connect(job, patience_s), progress)
    check_out(job.out)
    return amount


def _connect(job: Job, patience_s: int) -> None:
    from coordinatord.pipeline.source.connecting import connected

    assert job.end_offsets is not None
    with connected(job.end_offsets, job.broker, patience_s):
        """It answers."""


def _patiently(ask: Callable[[int], Answer], progress: Progress) -> Answer:
    began_s = time.monotonic()
    try:
        return ask(QUICKLY_S)
    except SourceError as error:
        if time.monotonic() - began_s < QUICKLY_S / 2:
            raise  # it failed without waiting: another attempt would not help
        progress.stage(f"{error}; asking again for {PATIENCE_S} s")
        return ask(PATIENCE_S)


def check_out(out: Path) -> None:
    """Make the directory for the tables. Raises SourceError if that fails, if it cannot be written to, if it has tables
    of another version, or if another run uses it.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SourceError(f"--out {out} cannot be made: {error.strerror or error}") from None
    if not os.access(out, os.W_OK | os.X_OK):
        raise SourceError(f"--out {out} cannot be written to")
    with alone(out):
        read_state(out)
