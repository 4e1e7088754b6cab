"""Checks for errors before Spark is started, which takes ten seconds: no log, no response from an address, no place for
the tables.
"""

from __future__ import annotations

import os
from pathlib import Path

from coordinatord.monitoring.offsets_log.lag.connect_retry import reach
from coordinatord.monitoring.offsets_log.source.options import read_options
from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.pipeline.run.ingest import Job
from coordinatord.monitoring.pipeline.run.input_size import Amount, of_broker, of_bytes
from coordinatord.monitoring.pipeline.run.progress import Progress
from coordinatord.monitoring.pipeline.run.run_lock import alone
from coordinatord.monitoring.pipeline.run.state import read_state


def check_run(job: Job, progress: Progress) -> Amount:
    """Return the largest size of the input. Raises SourceError if the run would end with one."""
    progress.stage("looking at the source")
    options = read_options(job.source.options)
    if options.bootstrap is None:
        amount = of_bytes(options)
    else:
        reach(options.bootstrap, options.broker, progress.stage)
        amount = of_broker(options)
    job.check_ends()
    if job.end_offsets not in (None, options.bootstrap) and not job.log_directories:
        reach(job.end_offsets, job.broker, progress.stage)
    check_out(job.out)
    return amount


def check_out(out: Path) -> None:
    """Make the directory for the tables. Raises SourceError if that fails, if the directory cannot be written to, if it
    has tables of another version, or if another run uses it.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SourceError(f"--out {out} cannot be made: {error.strerror or error}") from None
    if not os.access(out, os.W_OK | os.X_OK):
        raise SourceError(f"--out {out} cannot be written to")
    with alone(out):
        read_state(out)
