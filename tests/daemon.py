"""The daemon as users run it: `python -m coordinatord serve`, a process of its own, on 127.0.0.1 with a data directory.

    with running(tmp_path, {"num.partitions": "4"}) as daemon:
        KafkaConsumer("orders", bootstrap_servers=daemon.bootstrap, ...)
        daemon.kill()       # SIGKILL, as a crash
        daemon.start()      # the same port, data directory and settings

Its log goes to a file, as JSON lines that :meth:`Daemon.events` reads; :meth:`Daemon.log_tail` is for failures.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.waiting import PATIENCE_S

HOST = "127.0.0.1"
POLL_INTERVAL_S = 0.01
START_ATTEMPTS = 5  # another process can take a free port before the daemon binds it
COORDINATOR_LOAD_IN_PROGRESS = 14
REPOSITORY = Path(__file__).parents[1]

LOWEST_PORT = 10_240
EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port(count: int = 1) -> int:
    """A TCP port of 127.0.0.1 that was free a moment ago and is not ephemeral; the first of `count` consecutive ones.

    The kernel could give an ephemeral port to a client that keeps connecting while the daemon is down: the client would
    then be connected with itself.
    """
    ephemeral = range(32_768, 61_000)
    if EPHEMERAL_RANGE.exists():
        first, last = map(int, EPHEMERAL_RANGE.read_text().split())
        ephemeral = range(first, last + 1)
    candidates = [port for port in range(LOWEST_PORT, 65_536) if port not in ephemeral]
    for port in random.SystemRandom().sample(candidates, k=min(200, len(candidates))):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError, OverflowError):
            for following in range(port, port + count):
                stack.enter_context(socket.socket()).bind((HOST, following))
            return port
    with socket.socket() as probe:  # every other port is an ephemeral one here
        probe.bind((HOST, 0))
        anything: int = probe.getsockname()[1]
        return anything


def answers_api_versions(port: int, timeout_s: float = 5.0) -> bool:
    """Whether ApiVersions v0 gets error code 0: sends twelve bytes, reads ten."""
    request = struct.pack(">hhih", 18, 0, 1, -1)
    try:
        with socket.create_connection((HOST, port), timeout=timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            head = connection.recv(10, socket.MSG_WAITALL)
    except OSError:
        return False
    return len(head) == 10 and struct.unpack(">iih", head)[1:] == (1, 0)


LISTINGS = (
    (struct.pack(">hhih", 16, 0, 1, -1), 10, ">iih"),  # ListGroups v0: no body; correlation id, error code
    (struct.pack(">hhihx", 66, 0, 1, -1) + b"\x01\x01\x00", 15, ">iixih"),  # ListTransactions v0: no filters
)
"""Requests that have an error while a daemon loads: what is sent, how many bytes tell, and what they are."""


def still_loads(port: int, timeout_s: float = 5.0) -> bool:
    """Whether the daemon that listens there loads its groups or transactional ids. Meanwhile it answers what is about
    them with COORDINATOR_LOAD_IN_PROGRESS; clients ask again, bare connections do not. False if it cannot be asked so.
    """
    for request, size, told in LISTINGS:
        try:
            with socket.create_connection((HOST, port), timeout=timeout_s) as connection:
                connection.sendall(struct.pack(">i", len(request)) + request)
                head = connection.recv(size, socket.MSG_WAITALL)
        except TimeoutError:
            return True
        except OSError:
            return False  # a secured listener
        if len(head) == size and struct.unpack(told, head)[-1] == COORDINATOR_LOAD_IN_PROGRESS:
            return True
    return False


def is_running(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (ProcessLookupError, FileNotFoundError):
        return False


def memory_bytes(pid: int, field: str) -> int:
    """A field of /proc/PID/status, Linux only."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found.group(1)) * 1024


class StartFailed(RuntimeError):
    """The daemon ended, or did not answer in time."""


@dataclass(slots=True)
class Daemon:
    """A daemon that can be stopped, killed and restarted. `arguments` follow `serve`, as users type them."""

    directory: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    arguments: Sequence[str] = ()
    workers: int = 1
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0

    def __post_init__(self) -> None:
        self.port = self.port or free_port(self.workers)

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def data_dir(self) -> Path:
        return self.directory / "data"

    @property
    def log_file(self) -> Path:
        return self.directory / "daemon.log"

    @property
    def pid(self) -> int:
        assert self.process is not None, "not started"
        return self.process.pid

    def command(self) -> list[str]:
        command = [sys.executable, "-m", "coordinatord", "serve"]
        command += ["--listen", self.bootstrap, "--data-dir", str(self.data_dir), "--log-format", "json"]
        if self.workers > 1:
            command += ["--workers", str(self.workers)]
        # The supervisor kills workers that take longer, and a slow disk does.
        patience = {"shutdown.timeout.ms": "60000"} if self.workers > 1 else {}
        for name, value in {**patience, **self.settings}.items():
            command += ["--set", f"{name}={value}"]
        return [*command, *self.arguments]

    def start(self, *, loaded: bool = True) -> float:
        """Start, and wait until it answers, and is loaded unless the test looks at how it loads. Returns the seconds
        from the start of the process to its first answer.
        """
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                return self._start(loaded)
            except StartFailed as failure:
                # Its first start may choose another port; later ones must use the port that clients know.
                if "in use" not in str(failure) or self.starts or attempt == START_ATTEMPTS:
                    raise
                self.port = free_port(self.workers)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _start(self, loaded: bool) -> float:
        began_s = time.monotonic()
        self.launch()
        ports = range(self.port, self.port + self.workers)
        try:
            self._until(lambda: all(map(answers_api_versions, ports)), began_s, "did not answer")
            took_s = time.monotonic() - began_s
            if loaded:
                self._until(lambda: not any(map(still_loads, ports)), began_s, "did not load its groups")
        except BaseException:  # pytest's timeout and Ctrl-C as well: whoever asked for it has nothing to stop yet
            self.kill()
            raise
        self.starts += 1
        return took_s

    def _until(self, condition: Callable[[], bool], began_s: float, what: str) -> None:
        assert self.process is not None
        while not condition():
            ended = self.process.poll() is not None
            if ended or time.monotonic() - began_s > PATIENCE_S:
                told = "ended" if ended else f"{what} within {PATIENCE_S:g} s"
                raise StartFailed(f"the daemon {told}:\n{self.log_tail()}")
            time.sleep(POLL_INTERVAL_S)

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the process without waiting."""
        assert self.process is None, "it runs already"
        self.directory.mkdir(parents=True, exist_ok=True)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("COORDINATORD_")}
        with self.log_file.open("ab") as log:
            # Its own process group: Ctrl-C is for the test run, which then stops it.
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=REPOSITORY,
                env=environment,
                process_group=0,
            )
        return self.process

    def stop(self) -> int:
        """Stop it in order (SIGTERM). Returns its exit code. If it does not end in time, kill it and raise."""
        process = self._taken()
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(PATIENCE_S)
            raise AssertionError(f"no end {PATIENCE_S:g} s after SIGTERM:\n{self.log_tail()}") from None

    def kill(self) -> None:
        """Kill it and its workers (SIGKILL), as a crash would."""
        process = self._taken()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE_S)
        if self.workers > 1:
            deadline_s = time.monotonic() + PATIENCE_S
            pids = [pid for each in self.events("worker started") if isinstance(pid := each["pid"], int)]
            while any(map(is_running, pids)):
                assert time.monotonic() < deadline_s, "a worker outlives SIGKILL"
                time.sleep(POLL_INTERVAL_S)

    def _taken(self) -> subprocess.Popen[bytes]:
        assert self.process is not None, "it does not run"
        process, self.process = self.process, None
        return process

    def worker_pid(self, worker: int) -> int:
        """The process id of a worker's last start."""
        pid = self.events("worker started", worker=worker)[-1]["pid"]
        assert isinstance(pid, int)
        return pid

    def resident_bytes(self) -> int:
        """Resident memory (VmRSS), Linux only."""
        return memory_bytes(self.pid, "VmRSS")

    def peak_bytes(self) -> int:
        """The most resident memory since `reset_peak` (VmHWM), Linux only."""
        return memory_bytes(self.pid, "VmHWM")

    def reset_peak(self) -> None:
        """Begin `peak_bytes` anew."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def events(self, name: str | None = None, **fields: object) -> list[dict[str, object]]:
        """Its log lines since the first start, in order; only those of one event and with these fields, if given."""
        found = []
        for line in self.log_file.read_text(errors="replace").splitlines():
            if not line.startswith("{"):
                continue
            try:
                event = json.loads(line)
            except json.JSONDecodeError:  # a line that a SIGKILL cut off
                continue
            if (name is None or event.get("event") == name) and fields.items() <= event.items():
                found.append(event)
        return found

    def log_tail(self, characters: int = 6_000) -> str:
        return self.log_file.read_text(errors="replace")[-characters:] if self.log_file.exists() else ""


def logged_at_s(event: Mapping[str, object]) -> float:
    """When a log line was written, in seconds since 1970."""
    return datetime.datetime.fromisoformat(str(event["timestamp"])).timestamp()


@contextlib.contextmanager
def running(
    directory: Path,
    settings: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
    *,
    workers: int = 1,
) -> Iterator[Daemon]:
    """A daemon for the duration of the block. At its end SIGTERM must stop it with exit code 0."""
    daemon = Daemon(directory, settings or {}, arguments, workers)
    daemon.start()
    try:
        yield daemon
    except BaseException:
        if daemon.process is not None:
            daemon.kill()
        raise
    if daemon.process is not None:
        code = daemon.stop()
        assert code == 0, f"the daemon ended with {code} after SIGTERM:\n{daemon.log_tail()}"
