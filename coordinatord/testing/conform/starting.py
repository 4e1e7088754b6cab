"""A separate broker for each set of settings: runs a command of the user, and ends it afterwards."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from coordinatord.testing.conform.target import Target, Unsuitable

_START_S = 90
_STOP_S = 20
_TAIL_LINES = 15


def check(command: str) -> None:
    """Raise Unsuitable if the command does not contain {port}."""
    if "{port}" not in command:
        raise Unsuitable("--start does not say {port}: the broker has to listen on that port of 127.0.0.1.")


def takes_settings(command: str) -> bool:
    """Return whether the command receives the settings that stories need; otherwise the broker has its own."""
    return "{properties}" in command


def properties(settings: Mapping[str, str]) -> str:
    """Return the settings as a broker's properties file."""
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def free_port() -> int:
    """Return a free port of 127.0.0.1."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@contextlib.contextmanager
def started(command: str, settings: Mapping[str, str], timeout_s: float) -> Iterator[Target]:
    """Run the command until the block ends, with an empty directory, a free port and a file with the settings. Raises
    Unsuitable if the broker does not listen within 90 s.
    """
    with tempfile.TemporaryDirectory(prefix="coordinatord-conform-") as folder:
        directory = Path(folder)
        file, output = directory / "broker.properties", directory / "output"
        (directory / "data").mkdir()
        port = free_port()
        file.write_text(properties(settings))
        places = {"{port}": str(port), "{properties}": str(file), "{directory}": str(directory / "data")}
        arguments = [_filled(part, places) for part in shlex.split(command)]
        with output.open("wb") as out:
            try:
                process = subprocess.Popen(
                    arguments, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
                )
            except OSError as error:
                raise Unsuitable(f"{arguments[0]} cannot be run: {error.strerror}.") from None
        try:
            _until_it_listens(process, port, output)
            yield Target("127.0.0.1", port, timeout_s)
        finally:
            _end(process)


def _filled(part: str, places: Mapping[str, str]) -> str:
    for place, value in places.items():
        part = part.replace(place, value)
    return part


def _until_it_listens(process: subprocess.Popen[bytes], port: int, output: Path) -> None:
    deadline_s = time.monotonic() + _START_S
    while time.monotonic() < deadline_s:
        if process.poll() is not None:
            raise Unsuitable(f"the broker ended with status {process.returncode}:\n{_tail(output)}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise Unsuitable(f"the broker does not listen on 127.0.0.1:{port} after {_START_S} s:\n{_tail(output)}")


def _tail(output: Path) -> str:
    lines = output.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
    return "\n".join(f"  {line}" for line in lines) or "  (no output)"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM to the command and its children, which have their own process group; SIGKILL after 20 s."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_S)
            return
