"""Log cleaning in a separate process, and that process: `python -m coordinatord.broker.log.cleaner_process`.

The process reads JSON lines, `{"job": …}` or `{"next": true}`, writes one line for each (a rewritten group, the final
statistics, or an error), and exits at the end of its input. The daemon starts the process when a log must be cleaned (a
tenth of a second, 25 MiB) and ends it when no log is left. The process runs at a lower priority and accesses only the
files of that log; the log does not use its output before the parent process has swapped it in, so the process may be
killed at any time.

Measured with heartbeats of four groups on two cores, while 58 MB were cleaned and while idle: the median was 0.2 ms
both times, p99 0.3 to 0.7 ms and 0.4 to 1.0 ms. With the same cleaning on a thread of the daemon the median was 8 ms
and p99 18 to 80 ms, because a decoding thread gives up the interpreter's lock only every 5 ms.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coordinatord.broker.log.cleaner import CleaningStopped
from coordinatord.broker.log.cleaning import Cleaned, Job, SegmentSize, Statistics, clean
from coordinatord.broker.log.disk import OsDisk
from coordinatord.broker.log.errors import CleanerLost, LogDamaged, LogError

NICENESS = 10


class CleanerDied(LogError):
    """Raised when the cleaning process failed, or its response cannot be parsed."""


class Process:
    """A `cleaner.Workshop` that runs in another process."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def clean(self, job: Job) -> Iterator[Cleaned | Statistics]:
        """Rewrite one log, as `cleaning.clean` does. Raises its LogDamaged and OSError, CleanerLost if the process ends
        unexpectedly, and CleanerDied if the process fails.
        """
        message: dict[str, Any] = {"job": dataclasses.asdict(job)}
        while True:
            answer = self._ask(message)
            if "statistics" in answer:
                yield Statistics(**answer["statistics"])
                return
            if "cleaned" not in answer:
                raise _error(answer)
            yield Cleaned(**answer["cleaned"])
            message = {"next": True}

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        if self._closed:
            raise CleaningStopped
        if self._process is None:
            self._process = _start()
            if self._closed:  # close() ran in the meantime and did not kill this process
                self._process.kill()  # type: ignore[unreachable]  # another thread closes
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except (BrokenPipeError, ValueError):
            line = b""
        if not line.endswith(b"\n"):
            self.rest()
            if self._closed:
                raise CleaningStopped
            raise CleanerLost(f"the cleaner's process ended with {process.returncode}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def rest(self) -> None:
        """End the process until the next job."""
        process, self._process = self._process, None
        if process is not None:
            _end(process)

    def close(self) -> None:
        """Kill the process; a thread that waits for its response gets CleaningStopped."""
        self._closed = True
        process = self._process
        if process is not None:
            process.kill()


def _start() -> subprocess.Popen[bytes]:
    package = str(Path(__file__).parents[3])
    path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    # Open files are not inherited anyway (PEP 446), and closing them one by one would take time.
    return subprocess.Popen(
        [sys.executable, "-P", "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        close_fds=False,
        env={**os.environ, "PYTHONPATH": path},
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    process.stdout.close()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _error(answer: dict[str, Any]) -> Exception:
    match answer:
        case {"damaged": [str(path), int(position), str(reason)]}:
            return LogDamaged(path, position, reason)
        case {"system": [int(number), str(text), path]}:
            return OSError(number, text, path)
        case {"failed": str(text)}:
            return CleanerDied(f"the cleaner's process failed: {text}")
    return CleanerDied(f"the cleaner's process said {str(answer)[:200]!r}")


# --- the child process ------------------------------------------------------------------------------------------------


class _Orphaned(BaseException):
    """Raised when the parent process has ended."""


def _serve() -> None:
    parent = os.getppid()

    def pulse() -> None:
        if os.getppid() != parent:
            raise _Orphaned

    disk = OsDisk()
    results: Iterator[Cleaned | Statistics] = iter(())
    for line in sys.stdin.buffer:
        message = json.loads(line)
        answer: dict[str, object]
        try:
            if "job" in message:
                job = Job(**message["job"])
                job.segments = [SegmentSize(**segment) for segment in message["job"]["segments"]]
                results = clean(disk, job, pulse=pulse)
            result = next(results)
            kind = "cleaned" if isinstance(result, Cleaned) else "statistics"
            answer = {kind: dataclasses.asdict(result)}
        except LogDamaged as damage:
            answer = {"damaged": [damage.path, damage.position, damage.reason]}
        except OSError as error:
            answer = {"system": [error.errno or 0, error.strerror or str(error), error.filename]}
        except Exception as error:
            answer = {"failed": repr(error)}
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()


def _main() -> None:
    # Ctrl-C and a supervisor's SIGTERM are meant for the daemon, which ends this process when it is not needed.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.nice(NICENESS)
    try:
        _serve()
    except (_Orphaned, BrokenPipeError):
        sys.exit(1)


if __name__ == "__main__":
    _main()
