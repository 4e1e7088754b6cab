"""The parent process of the workers: binds, recovers, forks, restarts, stops. It serves no requests itself.

It has no event loop and no threads, so that forking is safe at any time. It waits for three things: a signal, a message
from a worker, the time to restart a worker.

A worker that dies is restarted: at once if it had been running for a while, otherwise after a rising delay. After the
sixth death in a row the whole daemon stops, since a daemon that silently serves half of its groups is worse than one
that is down. A worker that reports why it cannot start (a damaged log, an address in use) is not restarted at all.
"""

from __future__ import annotations

import contextlib
import gc
import os
import secrets
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from coordinatord.base.config import Listener, Settings
from coordinatord.base.observe import logs
from coordinatord.base.observe.logger import get_logger
from coordinatord.broker.log import ownership, worker_checkpoints
from coordinatord.broker.log.data_dir import DataDirectory
from coordinatord.broker.log.report_recovery import log_recovery, log_unknown_files, opening_progress
from coordinatord.broker.topics import catalogue_file
from coordinatord.broker.topics.catalogue import Catalogue
from coordinatord.broker.topics.names import OFFSETS_TOPIC
from coordinatord.server.daemon.worker import CHANGED, LISTENING, WorkerConfig
from coordinatord.server.workers.peer_sockets import Rendezvous
from coordinatord.transport.cluster.moved_partitions import MovedPartitions
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.cluster.shared import Shared
from coordinatord.transport.net.listening import bound

STEADY_S = 10.0
"""Seconds: a worker that has run for this long is restarted at once."""

DELAYS_S = (0.0, 0.1, 0.2, 0.4, 0.8)
"""Delays in seconds before the restart after the first death, the second in a row, and so on. The sixth death has no
restart.
"""

KILL_AFTER_S = 3.0
"""Seconds beyond shutdown.timeout.ms after which a worker that has not stopped is killed."""

CANNOT_START = 3
"""A worker's exit status when it has reported why it cannot start."""

LOCK_FILE = ".workers-lock"

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)

log = get_logger("coordinatord.supervisor")


class CannotBind(Exception):
    """A worker's address cannot be bound."""

    def __init__(self, worker: int, error: OSError) -> None:
        super().__init__(str(error))
        self.worker = worker
        self.error = error


@dataclass(slots=True)
class _Worker:
    """The supervisor's state of a worker; `pid` is 0 while there is no process."""

    number: int
    sockets: dict[str, list[socket.socket]]
    peer_socket: socket.socket
    pid: int = 0
    control_channel: socket.socket | None = None
    heard: bytearray = field(default_factory=bytearray)
    started_s: float = 0.0
    due_s: float | None = None
    """Monotonic time of the next restart; None when none is due."""
    deaths: int = 0
    """Number of deaths in a row."""
    is_listening: bool = False
    admin_url: str = ""
    status: int = 0


class Supervisor:
    """The parent process. `serve(part)` runs a worker in its own process; it returns the exit status or raises
    SystemExit.
    """

    def __init__(
        self,
        settings: Settings,
        serve: Callable[[WorkerConfig], int],
        announce: Callable[[list[dict[str, tuple[str, int]]], list[str]], object],
    ) -> None:
        """Raises LogError, OSError and CannotBind. `announce` is called once all workers listen, with their bound
        addresses and admin URLs.
        """
        self.settings = settings
        self._serve = serve
        self._announce = announce
        self._announced = False
        self._stopping = False
        self._exit_status = 0
        count = settings.workers
        self.data = DataDirectory.open(
            str(settings.data_dir),
            node_id=settings.node_id,
            catalogued=catalogue_file.catalogued,
            on_foreign=log_unknown_files,
            on_opened=opening_progress(),
        )
        ownership.refuse_others(self.data.disk, self.data.path, (LOCK_FILE,))
        log_recovery(self.data.recovered)
        catalogue = Catalogue(settings, self.data, Nodes(settings.node_id), lambda: secrets.token_bytes(16))
        self.shared = Shared(count, f"{self.data.path}/{LOCK_FILE}")
        self.shared.begin(catalogue.change)
        topic = catalogue.by_name.get(OFFSETS_TOPIC)
        offsets = settings.offsets_topic_num_partitions if topic is None else len(topic.partitions)
        self.placed = MovedPartitions(self.shared, offsets) if settings.test_control_enable else None
        worker_checkpoints.hand_out(
            self.data.disk, self.data.path, count, Nodes(settings.node_id, workers=count).worker_of
        )
        self.data.files.close()
        bound_to = [self._bind(number) for number in range(count)]
        self._selector = selectors.DefaultSelector()
        self._signals: tuple[socket.socket, socket.socket] = socket.socketpair()
        self._peers = Rendezvous(self.data.path, count, settings.socket_listen_backlog_size)
        self.workers = [
            _Worker(number, sockets, self._peers.sockets[number]) for number, sockets in enumerate(bound_to)
        ]
        self.addresses = {
            endpoint.name: [
                (endpoint.advertised_host, _advertised_port(endpoint.advertised_port, worker, endpoint.name))
                for worker in self.workers
            ]
            for endpoint in settings.endpoints
        }

    def _bind(self, number: int) -> dict[str, list[socket.socket]]:
        sockets = {}
        for endpoint in self.settings.endpoints:
            try:
                port = endpoint.port and endpoint.port + number
                sockets[endpoint.name] = bound(
                    endpoint.host, port, v6_only=endpoint.v6_only, buffers=self.settings.socket_buffers
                )
            except OSError as error:
                raise CannotBind(number, error) from error
            for each in sockets[endpoint.name]:
                each.listen(self.settings.socket_listen_backlog_size)
        return sockets

    # Running

    def run(self) -> int:
        """Run until a signal arrives or a worker cannot be kept running; returns the exit status."""
        try:
            self._watch_signals()
            # Existing objects stay alive: a worker's garbage collector must not touch, and so copy, their pages.
            gc.collect()
            gc.freeze()
            gc.enable()  # cli/serve.py has disabled it
            for worker in self.workers:
                self._start(worker, is_recovered=True)
            while not self._stopping or any(worker.pid for worker in self.workers):
                self._turn()
            return self._end()
        finally:
            self._close()
            for number in (signal.SIGTERM, signal.SIGINT):  # a further signal must not change the exit status
                signal.signal(number, signal.SIG_IGN)

    def _turn(self) -> None:
        now_s = time.monotonic()
        for worker in self.workers:
            if worker.due_s is not None and worker.due_s <= now_s and not self._stopping:
                self._start(worker, is_recovered=False)
        due = [worker.due_s for worker in self.workers if worker.due_s is not None]
        timeout_s = max(0.0, min(due) - time.monotonic()) if due else None
        for key, _events in self._selector.select(timeout_s):
            if key.data is None:
                self._signalled(self._signals[0].recv(4096))
            elif key.data.control_channel is key.fileobj:  # false when the worker has just been reaped
                self._read_control_channel(key.data)

    def _watch_signals(self) -> None:
        for end in self._signals:
            end.setblocking(False)
        signal.set_wakeup_fd(self._signals[1].fileno(), warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, _noted)
        self._selector.register(self._signals[0], selectors.EVENT_READ)

    def _signalled(self, numbers: bytes) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            if number in numbers:
                self._stop(signal.Signals(number).name)
        if signal.SIGALRM in numbers:
            self._kill()
        for worker in self.workers:
            self._bury(worker)

    # Starting and reaping workers

    def _start(self, worker: _Worker, *, is_recovered: bool) -> None:
        worker.due_s = None
        ours, theirs = socket.socketpair()
        settings = self.settings
        part = WorkerConfig(
            worker.number,
            settings.workers,
            self.data.cluster_id,
            worker.sockets,
            self.addresses,
            worker.peer_socket,
            self._peers.paths,
            self.shared,
            theirs,
            is_recovered,
            self.placed,
        )
        # Until the child installs its own handlers, a signal to it would be taken for a signal to us.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            pid = os.fork()
            if not pid:
                self._become(worker, part, ours)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        theirs.close()
        ours.setblocking(False)
        worker.pid, worker.control_channel, worker.started_s = pid, ours, time.monotonic()
        worker.heard.clear()
        self._selector.register(ours, selectors.EVENT_READ, worker)
        log.info("worker started", worker=worker.number, pid=pid)

    def _become(self, worker: _Worker, part: WorkerConfig, ours: socket.socket) -> None:
        """Run the child; does not return. Signals stay blocked until it handles them, so it always stops cleanly."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            self._selector.close()
            ours.close()
            for each in (
                *self._signals,
                *(other.control_channel for other in self.workers if other.control_channel is not None),
            ):
                each.close()
            for other in self.workers:
                if other is not worker:
                    other.peer_socket.close()
                    _close_all(other.sockets)
            logs.set_worker(worker.number)
            status = self._serve(part)
        except SystemExit as told:
            status = CANNOT_START if told.code else 0
        except BaseException:
            log.exception("the worker failed")
        finally:
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.flush()
            os._exit(status)

    def _bury(self, worker: _Worker) -> None:
        """Reap the worker's process if it has ended, and schedule its restart."""
        if not worker.pid:
            return
        pid, status = os.waitpid(worker.pid, os.WNOHANG)
        if not pid:
            return
        code = os.waitstatus_to_exitcode(status)
        lived_s = time.monotonic() - worker.started_s
        worker.pid, worker.status = 0, code
        if worker.control_channel is not None:
            self._selector.unregister(worker.control_channel)
            worker.control_channel.close()
            worker.control_channel = None
        self.shared.follow(worker.number, 0)
        if self.placed is not None:
            self.placed.listens(worker.number, 0)
        if self._stopping:
            return
        if code == CANNOT_START:
            self._give_up(f"worker {worker.number} cannot start")
            return
        worker.deaths = 1 if lived_s >= STEADY_S else worker.deaths + 1
        if worker.deaths > len(DELAYS_S):
            self._give_up(f"worker {worker.number} died {worker.deaths} times in a row, the last time by {_how(code)}")
            return
        delay_s = DELAYS_S[worker.deaths - 1]
        worker.due_s = time.monotonic() + delay_s
        log.error("worker died", worker=worker.number, how=_how(code), lived_s=round(lived_s, 3), restart_in_s=delay_s)

    def _read_control_channel(self, worker: _Worker) -> None:
        assert worker.control_channel is not None
        try:
            data = worker.control_channel.recv(4096)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        if not data:
            # The worker's end is closed: it is dead, and SIGCHLD will follow.
            self._selector.unregister(worker.control_channel)
            worker.control_channel.close()
            worker.control_channel = None
            return
        worker.heard += data
        *lines, rest = bytes(worker.heard).split(b"\n")
        worker.heard[:] = rest
        for line in lines:
            word, _, argument = line.partition(b" ")
            if word == CHANGED:
                self._notify_others(worker)
            elif word == LISTENING:
                worker.is_listening, worker.admin_url = True, argument.decode()
                self._announce_once()

    def _notify_others(self, speaker: _Worker) -> None:
        for worker in self.workers:
            if worker is not speaker and worker.control_channel is not None:
                # The worker may have died, or its buffer is full, and then it already has this message to read.
                with contextlib.suppress(OSError):
                    worker.control_channel.send(CHANGED + b"\n")

    def _announce_once(self) -> None:
        if self._announced or self._stopping:
            return
        if all(worker.is_listening for worker in self.workers):
            self._announced = True
            where = [
                {name: sockets[0].getsockname()[:2] for name, sockets in worker.sockets.items()}
                for worker in self.workers
            ]
            self._announce(where, [worker.admin_url for worker in self.workers if worker.admin_url])

    # Stopping

    def _give_up(self, reason: str) -> None:
        log.error("stopping: a worker cannot be kept running", reason=reason)
        self._exit_status = 1
        self._stop(reason)

    def _stop(self, reason: str) -> None:
        if self._stopping:
            return
        self._stopping = True
        log.info("stopping", reason=reason)
        for worker in self.workers:
            worker.due_s = None
            _close_all(worker.sockets)
            if worker.pid:
                os.kill(worker.pid, signal.SIGTERM)
        signal.signal(signal.SIGALRM, _noted)
        signal.setitimer(signal.ITIMER_REAL, self.settings.shutdown_timeout_ms / 1000 + KILL_AFTER_S)

    def _kill(self) -> None:
        for worker in self.workers:
            if worker.pid:
                log.error("worker does not stop; killed", worker=worker.number)
                os.kill(worker.pid, signal.SIGKILL)

    def _end(self) -> int:
        """Merge the workers' state if each closed its log, which leaves the directory as a single process would; return
        the exit status. All workers have ended.
        """
        status = self._exit_status or (1 if any(worker.status for worker in self.workers) else 0)
        all_closed = all(worker.status == 0 for worker in self.workers)
        if all_closed and not worker_checkpoints.put_together(self.data.disk, self.data.path):
            status = 1
        log.info("stopped", exit_code=status)
        return status

    def _close(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.set_wakeup_fd(-1)
        for worker in self.workers:
            if worker.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker.pid, signal.SIGKILL)
                    os.waitpid(worker.pid, 0)
            _close_all(worker.sockets)
        for end in self._signals:
            end.close()
        self._selector.close()
        self._peers.remove()
        self.data.close()


def _close_all(sockets: dict[str, list[socket.socket]]) -> None:
    for several in sockets.values():
        for each in several:
            each.close()


def _advertised_port(port: int, worker: _Worker, listener: str) -> int:
    """Return the configured port of the first worker plus the worker's number; or the bound port if none is
    configured.
    """
    return port + worker.number if port else int(worker.sockets[listener][0].getsockname()[1])


def _how(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _noted(_number: int, _frame: Any) -> None:
    """Do nothing: the signal's number is already in the wake-up socket."""


def worker_settings(settings: Settings, worker: int) -> Settings:
    """Return a worker's settings: node id and fixed ports plus the worker's number."""

    def following(listeners: tuple[Listener, ...]) -> tuple[Listener, ...]:
        return tuple(replace(each, port=each.port and each.port + worker) for each in listeners)

    return replace(
        settings,
        node_id=settings.node_id + worker,
        listeners=following(settings.listeners),
        advertised_listeners=following(settings.advertised_listeners),
        admin_listeners=following(settings.admin_listeners),
    )
