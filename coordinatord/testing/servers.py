"""Servers of tests: in a thread of this process, in a separate process, or an external broker."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import http.client
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from coordinatord.base.config import Settings
from coordinatord.base.config.setting_types import written
from coordinatord.testing.links import HttpLink, Link, ThreadLink
from coordinatord.testing.problems import KafkaError, OnlyHere
from coordinatord.testing.settings import HOST, TEST_SETTINGS, own_listener_of, settings_of, text_of

if TYPE_CHECKING:
    from coordinatord.server.control.control import Control
    from coordinatord.server.daemon.daemon import Daemon

START_TIMEOUT_S = 90.0
START_ATTEMPTS = 3
STOP_TIMEOUT_S = 60.0
LOOK_S = 0.005
"""Interval in seconds between two checks whether a process has started and loaded its groups."""

SHOWN_CHARACTERS = 10_000


class Server(Protocol):
    """A server that a test uses."""

    @property
    def has_several_nodes(self) -> bool:
        """True if a group's coordinator may be at another address than `address`."""
        ...

    @property
    def address(self) -> tuple[str, int]:
        """Host and port for clients."""
        ...

    @property
    def own_address(self) -> tuple[str, int]:
        """Host and port for the test's own requests: those of a PLAINTEXT listener."""
        ...

    @property
    def security_dir(self) -> Path:
        """Folder with the files that test.users creates. Raises KafkaError if there are no users."""
        ...

    @property
    def link(self) -> Link:
        """Link to its control."""
        ...

    def start(self) -> None:
        """Start it; returns once clients can connect. Raises KafkaError."""
        ...

    def stop(self) -> None:
        """Stop it gracefully. Raises KafkaError if it does not stop."""
        ...

    def restart(self, *, crash: bool) -> None:
        """Stop it, or crash it, and start it at the same address with its durable data. Raises KafkaError."""
        ...

    def log(self) -> str:
        """Return the end of its log; "" if its log lines go to this process's loggers."""
        ...


class InThread:
    """A coordinator in a thread, on its own event loop. Its disk is in memory unless `data_dir` is given."""

    def __init__(self, own: Mapping[str, object], seed: int, data_dir: Path | None) -> None:
        from coordinatord.broker.log.simulated_disk import SimulatedDisk
        from coordinatord.server.control.faults import Faults
        from coordinatord.server.daemon.embedded import EmbeddedOptions

        placed = {**own} if data_dir is None else {**own, "log.dirs": str(data_dir)}
        self._settings = settings_of(placed, in_memory=data_dir is None)
        self._made_dir: str | None = None
        if self._settings.workers > 1:
            raise KafkaError('A server in a thread is one process: `workers` needs Kafka("process", …).')
        self._disk = SimulatedDisk() if data_dir is None else None
        self._guest = EmbeddedOptions(self._disk, Faults(seed))
        self._daemon: Daemon | None = None
        self._thread: threading.Thread | None = None
        self._crashes = False
        self._failed: BaseException | None = None
        self.link: Link = ThreadLink(self._control)
        self.has_several_nodes = False
        self.address = (HOST, 0)
        self.own_address = (HOST, 0)

    @property
    def security_dir(self) -> Path:
        """Folder with the files that test.users creates. Raises KafkaError if there are no users."""
        return security_dir_of(self._settings)

    def start(self) -> None:
        """Start it; returns once clients can connect and the groups are loaded. Raises KafkaError."""
        settings = self._settings
        if self._disk is not None and settings.test_users and settings.test_security_dir is None:
            self._made_dir = tempfile.mkdtemp(prefix="coordinatord-")
            self._settings = dataclasses.replace(settings, test_security_dir=self._made_dir)
        begun = threading.Event()
        self._crashes, self._failed = False, None
        self._thread = threading.Thread(target=self._run, args=(begun,), name="coordinatord", daemon=True)
        self._thread.start()
        begun.wait(START_TIMEOUT_S)
        if self._failed is not None:
            raise KafkaError(f"The coordinator has not started: {self._failed}") from self._failed
        if self._daemon is None:
            raise KafkaError(f"The coordinator has not started within {START_TIMEOUT_S:g} s.")
        ports = {name: port for name, _host, port in self._daemon.bound}
        self.address = (HOST, self._daemon.bound[0][2])
        self.own_address = (HOST, self._daemon.bound[own_listener_of(self._settings)][2])
        # The next start uses the same ports.
        again = tuple(dataclasses.replace(each, port=ports[each.name]) for each in self._settings.listeners)
        self._settings = dataclasses.replace(self._settings, listeners=again)

    def stop(self) -> None:
        """Drain and stop it; remove the files for clients. Raises KafkaError if it does not stop in time."""
        self._end()
        if self._made_dir is not None:
            shutil.rmtree(self._made_dir, ignore_errors=True)

    def _end(self) -> None:
        daemon, thread = self._daemon, self._thread
        if daemon is None or thread is None:
            return
        self._daemon = None
        with contextlib.suppress(RuntimeError):  # the daemon has stopped already: its log has failed
            daemon.loop.call_soon_threadsafe(daemon.request_stop, "the test ends")
        thread.join(STOP_TIMEOUT_S)
        if thread.is_alive():
            raise KafkaError(f"The coordinator has not stopped within {STOP_TIMEOUT_S:g} s.")

    def restart(self, *, crash: bool) -> None:
        """Stop it, and start it on the same port with the same disk; after a crash, only written data remains."""
        self._crashes = crash
        self._end()
        if crash and self._disk is not None:
            self._disk.crash("kill")
        self.start()

    def log(self) -> str:
        """Return "": the log lines go to this process's loggers below `coordinatord`."""
        return ""

    def _control(self) -> Control:
        daemon = self._daemon
        if daemon is None or daemon.control is None:
            raise KafkaError("The coordinator does not run: use it within its `with` block.")
        return daemon.control

    def _run(self, begun: threading.Event) -> None:
        try:
            import uvloop
        except ImportError:
            new_loop = asyncio.new_event_loop
        else:
            new_loop = uvloop.new_event_loop
        try:
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(self._serve(begun))
        except BaseException as error:  # the test's thread raises it
            self._failed = error
        finally:
            begun.set()

    async def _serve(self, begun: threading.Event) -> None:
        from coordinatord.server.daemon.daemon import Daemon
        from coordinatord.server.daemon.embedded import InlineWorker, abort

        worker = InlineWorker() if self._disk is not None else None
        daemon = Daemon(self._settings, asyncio.get_running_loop(), log_worker=worker, guest=self._guest)
        try:
            await daemon.start()
            while daemon.coordinator.is_loading or daemon.transactions.is_loading:  # noqa: ASYNC110  # a few turns
                await asyncio.sleep(0)
            self._daemon = daemon
            begun.set()
            await daemon.wait()
        finally:
            if self._crashes:
                await abort(daemon)
            else:
                await daemon.stop()


class InProcess:
    """`coordinatord serve` as a separate process, or several with `workers`, controlled over HTTP.
    Its data is on disk.
    """

    def __init__(self, own: Mapping[str, object], seed: int, data_dir: Path | None) -> None:
        self._settings = settings_of(own, in_memory=False)  # a mistake raises here, not in a log
        self._own = {name: text_of(value) for name, value in own.items()}
        if own_listener_of(self._settings):
            self._own["listeners"] = written(self._settings.listeners)
            self._own["listener.security.protocol.map"] = written(self._settings.listener_security_protocol_map)
        if set(self._settings.protocols.values()) != {"PLAINTEXT"}:
            self._own.setdefault("test.control.token", secrets.token_urlsafe())
        self._directory = Path(tempfile.mkdtemp(prefix="coordinatord-"))
        self._data_dir = data_dir or self._directory / "data"
        self._seed = seed
        self._process: subprocess.Popen[bytes] | None = None
        self._ports = (0, 0)
        self._admin = (HOST, 0, "")
        self.link: Link = HttpLink(lambda: self._admin)
        self.has_several_nodes = self._settings.workers > 1
        self.address = (HOST, 0)
        self.own_address = (HOST, 0)

    @property
    def security_dir(self) -> Path:
        """Folder with the files that test.users creates. Raises KafkaError if there are no users."""
        return security_dir_of(dataclasses.replace(self._settings, log_dirs=str(self._data_dir)))

    def start(self) -> None:
        """Start it; returns once clients can connect and the groups are loaded. Raises KafkaError."""
        for attempt in range(1, START_ATTEMPTS + 1):
            if self.has_several_nodes and not self.address[1]:
                # Workers have consecutive ports, and a restarted worker uses its port again.
                workers = self._settings.workers
                first = free_ports(2 * workers)
                self._ports = first, first + workers
            try:
                return self._start()
            except KafkaError as error:
                # Another program may have taken a port in between.
                if self.address[1] or "in use" not in str(error) or attempt == START_ATTEMPTS:
                    raise
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _start(self) -> None:
        ready = self._directory / "ready.json"
        settings = {**TEST_SETTINGS, **self._own, "test.control.enable": "true", "test.control.seed": str(self._seed)}
        if "listeners" not in self._own:
            settings["listeners"] = f"{HOST}:{self._ports[0]}"
        command = [sys.executable, "-m", "coordinatord", "serve", "--ready-file", str(ready)]
        command += ["--admin", f"{HOST}:{self._ports[1]}"]
        command += ["--data-dir", str(self._data_dir), "--log-format", "json"]
        command += [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0)
        self._wait_until(ready.exists, "started")
        told = json.loads(ready.read_text())
        addresses = [each.rpartition(":") for each in told["listeners"]]
        found = [(host, int(port)) for host, _colon, port in addresses]
        self.address = found[0]
        self.own_address = found[own_listener_of(self._settings)]
        if not self._ports[0]:
            self._ports = self.address[1], 0
        admin_url = urlsplit(told["admin"][0])
        self._admin = (admin_url.hostname or HOST, admin_url.port or 0, self._own.get("test.control.token", ""))
        for each in told["admin"]:  # one for each worker
            self._wait_until(partial(_is_loaded, each), "loaded its groups")

    def stop(self) -> None:
        """Stop it with SIGTERM, and remove the directory."""
        self._end(signal.SIGTERM)
        shutil.rmtree(self._directory, ignore_errors=True)

    def restart(self, *, crash: bool) -> None:
        """Restart it with the same port and data; a crash is SIGKILL. Raises KafkaError while faults are active."""
        if any(each["is_active"] for each in self.link.call("all_faults")["faults"]):
            raise KafkaError("A restart of a process forgets its faults: leave their blocks first.")
        self._end(signal.SIGKILL if crash else signal.SIGTERM)
        (self._directory / "ready.json").unlink(missing_ok=True)
        self.start()

    def log(self) -> str:
        """Return the last SHOWN_CHARACTERS characters of its log."""
        path = self._directory / "log"
        return path.read_text(errors="replace")[-SHOWN_CHARACTERS:] if path.exists() else ""

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if number == signal.SIGKILL:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)  # its workers, too
        else:
            process.send_signal(number)
        try:
            process.wait(STOP_TIMEOUT_S)
            if self.has_several_nodes and number == signal.SIGKILL:
                self._until_unlocked()
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_TIMEOUT_S)
            raise KafkaError(f"The coordinator has not stopped within {STOP_TIMEOUT_S:g} s:\n{self.log()}") from None

    def _until_unlocked(self) -> None:
        """Wait until workers that were killed have ended: until then they hold the lock of the data."""
        from coordinatord.broker.log.checkpoint import LOCK
        from coordinatord.broker.log.disk import OsDisk

        ends_s = time.monotonic() + STOP_TIMEOUT_S
        while time.monotonic() < ends_s:
            try:
                OsDisk().lock(f"{self._data_dir}/{LOCK}", str(os.getpid())).release()
            except BlockingIOError:
                time.sleep(LOOK_S)
            except OSError:
                return  # no such directory: the start failed before it was created
            else:
                return

    def _wait_until(self, condition: Callable[[], bool], what: str) -> None:
        process = self._process
        assert process is not None, "it was started"
        ends_s = time.monotonic() + START_TIMEOUT_S
        while not condition():
            if process.poll() is not None:
                raise KafkaError(f"The coordinator has ended at its start:\n{self.log()}")
            if time.monotonic() > ends_s:
                self._end(signal.SIGKILL)
                raise KafkaError(f"The coordinator has not {what} within {START_TIMEOUT_S:g} s:\n{self.log()}")
            time.sleep(LOOK_S)


def _is_loaded(admin_url: str) -> bool:
    """Return whether this worker no longer responds with COORDINATOR_LOAD_IN_PROGRESS."""
    asking = http.client.HTTPConnection(urlsplit(admin_url).netloc, timeout=START_TIMEOUT_S)
    try:
        asking.request("GET", "/readyz")
        return asking.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False  # the caller checks whether the process has ended before the next attempt
    finally:
        asking.close()


class Elsewhere:
    """An external broker, which runs already. Its link raises OnlyHere for commands that only coordinatord has."""

    def __init__(self, host: str, port: int) -> None:
        from coordinatord.testing.external_broker import ElsewhereLink

        self.address = self.own_address = (host, port)
        self.has_several_nodes = True
        self.link: Link = ElsewhereLink(lambda: self.address)

    @property
    def security_dir(self) -> Path:
        """Raise OnlyHere: the files of the broker are unknown."""
        raise OnlyHere("Only coordinatord makes certificates for tests.")

    def start(self) -> None:
        """Do nothing: the broker runs already."""

    def stop(self) -> None:
        """Do nothing: the broker continues to run."""

    def restart(self, *, crash: bool) -> None:
        """Raise OnlyHere: a test must not stop the broker."""
        raise OnlyHere("Only coordinatord can be restarted by a test.")

    def log(self) -> str:
        """Return "": the log of the broker is not accessible."""
        return ""


def security_dir_of(settings: Settings) -> Path:
    """Return the folder with the files that test.users creates. Raises KafkaError if there are no users."""
    from coordinatord.transport.security.material import material_of

    material = material_of(settings)
    if material is None:
        raise KafkaError('There are no users: give settings={"listeners": "SASL_SSL://127.0.0.1:0", "test.users": …}.')
    return material.folder


def free_ports(count: int) -> int:
    """Return the first of `count` consecutive free ports. Raises KafkaError if there are none."""
    for _ in range(100):
        with contextlib.ExitStack() as bound, contextlib.suppress(OSError, OverflowError):
            first = bound.enter_context(socket.socket())
            first.bind((HOST, 0))
            port: int = first.getsockname()[1]
            for number in range(1, count):
                bound.enter_context(socket.socket()).bind((HOST, port + number))
            return port
    raise KafkaError(f"There are no {count} free ports in a row.")


def server_for(where: str, own: Mapping[str, object], seed: int, data_dir: Path | None) -> Server:
    """Return a server for `where`: thread, process or HOST:PORT. Raises KafkaError for any other value."""
    if where == "thread":
        return InThread(own, seed, data_dir)
    if where == "process":
        return InProcess(own, seed, data_dir)
    host, colon, port = where.rpartition(":")
    if not colon or not port.isdigit():
        raise KafkaError(f"Where Kafka runs is thread, process or HOST:PORT, not {where!r}.")
    return Elsewhere(host.strip("[]") or "127.0.0.1", int(port))
