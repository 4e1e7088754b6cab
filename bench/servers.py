"""The servers that are measured: each a process, started with the same settings, and what it has used so far.

With two cores or more the generator gets one for itself and the servers all others. They are pinned when they are up,
so that the JVM and Go choose their threads for the machine as it is.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.generator import HOST, Line
from tests import daemon
from tests.clients.families.toolchains import ToolMissing, installed, run, tool
from tests.reference import broker

SETTINGS: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "true",
    # as classic members ask for: no group may end while another server is measured
    "group.consumer.max.session.timeout.ms": "1800000",
    "group.consumer.session.timeout.ms": "1800000",
}

# Kafka as its own start script runs it, and with its default threads: not the lean one of the tests.
KAFKA_JVM = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
KAFKA_SETTINGS: Mapping[str, str] = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "log.cleaner.dedupe.buffer.size": "134217728",
}

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
KFAKE = Path(__file__).parent / "kfake"
POLL_S = 0.001
PRIORITY = -20  # of servers and generator alike
AUTOGROUP = Path("/proc/self/autogroup")


class Unavailable(RuntimeError):
    """This machine cannot run a server; the text says why, in a sentence."""


@functools.cache
def cores() -> tuple[set[int], set[int]]:
    """(the generator's, the servers'). On a machine with one core both are that one."""
    mine = sorted(os.sched_getaffinity(0))  # at the first call, which is before anything is pinned
    return ({mine[-1]}, set(mine[:-1])) if len(mine) > 1 else (set(mine), set(mine))


def pin(pid: int, to: set[int]) -> None:
    """Keep all threads of a process on these cores, and before other people's work where that is allowed. Threads that
    they start later inherit both.
    """
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(task), to)
            with contextlib.suppress(PermissionError):
                os.setpriority(os.PRIO_PROCESS, int(task), PRIORITY)


@contextlib.contextmanager
def unpinned() -> Iterator[None]:
    """For the block this process may use all cores: what it starts inherits that, and looks at the machine as it is."""
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set().union(*cores()))
    try:
        yield
    finally:
        os.sched_setaffinity(0, mine)


@contextlib.contextmanager
def preferred() -> Iterator[None]:
    """Let our whole session go before other people's for the block, where that is allowed: where Linux groups processes
    by session (autogroup), priorities count only within one.
    """
    try:
        fields = AUTOGROUP.read_text().split()
        before = fields[-1] if fields else None  # empty: this process is in no group
        if before is not None:
            AUTOGROUP.write_text(str(PRIORITY))
    except OSError:
        before = None
    try:
        yield
    finally:
        if before is not None:
            with contextlib.suppress(OSError):
                AUTOGROUP.write_text(before)


def cpu_from_proc_s(pid: int) -> float:
    """User and system time of a process, ended threads included, in whole ticks (10 ms)."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / TICKS_PER_S


def cpu_s(pid: int) -> float:
    """The same by the process's CPU clock, to the nanosecond: rounds can be short. Linux makes its id of the pid."""
    try:
        return time.clock_gettime((~pid << 3) | 2)  # CPUCLOCK_SCHED of a process (clock_getcpuclockid(3))
    except OSError:
        return cpu_from_proc_s(pid)


class Server:
    """A running server. `kind` is its column; `settings` are ours only."""

    kind = ""
    label = ""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self.port = port
        self.start_s = 0.0
        #: what rows have prepared on it, by a name of theirs
        self.fixtures: dict[str, object] = {}

    @property
    def pid(self) -> int:
        return self.process.pid

    def cpu_s(self) -> float:
        return cpu_s(self.pid)

    def resident_bytes(self) -> int:
        return daemon.memory_bytes(self.pid, "VmRSS")

    def peak_bytes(self) -> int:
        return daemon.memory_bytes(self.pid, "VmHWM")

    def line(self) -> Line:
        return Line(self.port)

    def settle(self) -> None:
        """Keep it off the generator's core: when it answers, and before each round for what it has started since."""
        pin(self.pid, cores()[1])

    def again(self, settings: Mapping[str, str]) -> None:
        """Stop it in order, and start it on the same data, with these settings more."""
        raise NotImplementedError(self.kind)

    def logged(self) -> str:
        """All that it has logged."""
        raise NotImplementedError(self.kind)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(30)


def wait_until_answering(server: Server, began_s: float, timeout_s: float = 60.0) -> None:
    """Note how long it took from the process's start to the first answer."""
    while not daemon.answers_api_versions(server.port):
        if server.process.poll() is not None or time.monotonic() - began_s > timeout_s:
            raise Unavailable(f"{server.label} did not start")
        time.sleep(POLL_S)
    server.start_s = time.monotonic() - began_s
    server.settle()


class Ours(Server):
    kind = "ours"
    label = "coordinatord"
    daemon: daemon.Daemon

    @classmethod
    def start(cls, directory: Path, settings: Mapping[str, str]) -> Ours:
        others = {name: value for name, value in settings.items() if name != "workers"}
        runs = daemon.Daemon(directory, {**SETTINGS, **others}, workers=int(settings.get("workers", 1)))
        began_s = time.monotonic()
        server = cls(runs.launch(), runs.port)
        server.daemon = runs
        wait_until_answering(server, began_s)
        return server

    def again(self, settings: Mapping[str, str]) -> None:
        self.daemon.stop()
        self.daemon.settings = {**self.daemon.settings, **settings}
        began_s = time.monotonic()
        with unpinned():
            self.process = self.daemon.launch()
            wait_until_answering(self, began_s)

    def logged(self) -> str:
        return self.daemon.log_file.read_text(errors="replace")


class Limit(Server):
    kind = "limit"
    label = "bare limit"

    @classmethod
    def start(cls, directory: Path, settings: Mapping[str, str]) -> Limit:
        port = daemon.free_port()
        command = [sys.executable, "-m", "bench.limit", str(port)]
        process = subprocess.Popen(command, cwd=daemon.REPOSITORY, stdin=subprocess.DEVNULL, process_group=0)
        server = cls(process, port)
        began_s = time.monotonic()
        while True:
            try:
                server.line().close()
            except OSError:
                if process.poll() is not None or time.monotonic() - began_s > 30:
                    raise Unavailable("the bare limit did not start") from None
                time.sleep(POLL_S)
            else:
                break
        server.start_s = time.monotonic() - began_s
        server.settle()
        return server


class Kafka(Server):
    kind = "kafka"
    label = f"Kafka {broker.KAFKA_VERSION}"
    home: broker.BrokerDirectory
    runs: broker.KafkaBroker

    @classmethod
    def start(cls, directory: Path, settings: Mapping[str, str]) -> Kafka:
        try:
            libs = broker.kafka_libs()
        except broker.ReferenceUnavailable as why:
            raise Unavailable(f"{cls.label} is left out: {why}") from why
        home = broker.prepare_broker(libs, directory, {**SETTINGS, **KAFKA_SETTINGS, **settings})
        home.format()
        runs = home.launch(KAFKA_JVM)
        server = cls(runs.process, runs.port)
        server.home, server.runs = home, runs
        wait_until_answering(server, runs.began_s)
        return server

    def again(self, settings: Mapping[str, str]) -> None:
        self.stop()
        with self.home.properties_file.open("a") as properties:
            properties.writelines(f"{name}={value}\n" for name, value in settings.items())  # the last one counts
        with unpinned():
            self.runs = self.home.launch(KAFKA_JVM)
            self.process = self.runs.process
            wait_until_answering(self, self.runs.began_s)

    def logged(self) -> str:
        return self.runs.log_tail(1 << 30)


class Kfake(Server):
    kind = "kfake"
    label = "kfake"

    @classmethod
    def start(cls, directory: Path, settings: Mapping[str, str]) -> Kfake:
        port = daemon.free_port()
        program = kfake()
        began_s = time.monotonic()
        process = subprocess.Popen(
            [program, str(port)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        server = cls(process, port)
        wait_until_answering(server, began_s)
        return server


def kfake() -> str:
    """The binary, built once of what its go.mod and go.sum pin."""
    try:
        compiler = tool("go", "golang-go")
        files = sorted(path for path in KFAKE.iterdir() if path.is_file())

        def install(directory: Path) -> None:
            environment = {"GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}
            run([compiler, "build", "-o", directory / "kfake", "."], cwd=KFAKE, **environment)

        return str(installed("go-kfake", [path.read_text() for path in files], install) / "kfake")
    except ToolMissing as why:
        raise Unavailable(f"kfake is left out: {why}") from why


KINDS: dict[str, type[Server]] = {each.kind: each for each in (Ours, Limit, Kafka, Kfake)}
__all__ = ["HOST", "KINDS", "Server", "Unavailable", "cores", "cpu_from_proc_s", "cpu_s", "pin"]
