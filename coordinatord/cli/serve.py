"""`coordinatord serve`: settings, logging, then the daemon until it is stopped."""

from __future__ import annotations

import errno
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coordinatord.base.config import Listener, Settings
from coordinatord.base.observe import announce, logs
from coordinatord.base.observe.logger import get_logger
from coordinatord.cli.options import fail
from coordinatord.cli.ready_file import CannotTell, ReadyFile
from coordinatord.cli.settings_options import load_or_exit, settings_options

if TYPE_CHECKING:
    from coordinatord.server.daemon.daemon import Daemon

_early: list[int] = []
"""The stop signal, if one arrived before the daemon installed its signal handlers."""


class StoppedEarly(BaseException):
    """Raised by a stop signal while the daemon starts, or while it waits for another node's lease to end."""


@click.command(
    epilog="""Settings come from the file, then the environment (COORDINATORD_GROUP_MAX_SIZE is group.max.size,
    COORDINATORD_DATA_DIR is --data-dir), then these options; the later source wins. `coordinatord settings` lists
    them all. On SIGTERM or Ctrl-C the daemon responds to the requests in progress, flushes its log and stops."""
)
@settings_options
@click.option(
    "--ready-file",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Written when clients can connect, removed at the end: JSON with listeners, admin, pid.",
)
def serve(config: Path | None, assignments: tuple[str, ...], ready_file: Path | None, **short: str | None) -> None:
    """Run the coordinator until it is stopped.

    Without options it listens on 127.0.0.1:9092 and keeps its data in ./data.
    """
    loaded = load_or_exit(config, assignments, short)
    settings = loaded.settings
    logs.configure(settings.logging_format, settings.logging_level)
    for warning in loaded.warnings:
        get_logger().warning(warning)
    try:
        with ReadyFile(ready_file) as ready:
            status = run(settings, ready)
    except CannotTell as error:
        fail(str(error))
    raise SystemExit(status)


def run(settings: Settings, ready: ReadyFile) -> int:
    """Run the daemon and return its exit status. An error that prevents the start is printed as a sentence."""
    gc.disable()  # a start frees few objects; the daemon enables it when groups are loaded, a supervisor when it runs
    try:
        # The first process of a container has no default action for SIGTERM: without a handler it would have to be
        # killed.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _stop_early)
        sys.unraisablehook = _unraisable
        from coordinatord.server.daemon import process

        if _early:
            raise StoppedEarly
        if settings.workers > 1:
            return guarded(settings, lambda: _supervise(settings, ready))
        return guarded(settings, lambda: process.run(settings, lambda daemon: _announce(settings, daemon, ready)))
    except StoppedEarly:
        get_logger().info("stopped before it served", signal=signal.Signals(_early[0]).name)
        return 128 + _early[0]
    finally:
        gc.enable()


def _stop_early(number: int, _frame: Any) -> None:
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)  # one signal is enough
    _early.append(number)
    raise StoppedEarly


def _unraisable(lost: Any) -> None:
    """Handle an exception that Python cannot raise. Each import runs a weakref callback, and Python drops an exception
    in it. Ignore a dropped StoppedEarly, because `_tell` sends the signal again; report others as usual.
    """
    if lost.exc_type is not StoppedEarly:
        sys.__unraisablehook__(lost)


def guarded(settings: Settings, serve: Callable[[], int]) -> int:
    """Call `serve` and return its exit status. For an error with a sentence for the operator, print the sentence and
    raise SystemExit; log any other error.
    """
    from coordinatord.base.observe.admin import AdminError
    from coordinatord.broker.log.errors import LogError
    from coordinatord.transport.security import SecurityError

    try:
        return serve()
    except KeyboardInterrupt:
        # Before the daemon installs its signal handlers.
        return 130
    except (LogError, AdminError, CannotTell, SecurityError) as error:
        fail(str(error))
    except Exception as error:
        told = sentence(error, settings) if isinstance(error, OSError) else None
        if told is not None:
            fail(told)
        get_logger().exception("the daemon failed")
        return 1


def _supervise(settings: Settings, ready: ReadyFile) -> int:
    from coordinatord.server.daemon import process
    from coordinatord.server.daemon.worker import WorkerConfig
    from coordinatord.server.workers.supervisor import CannotBind, Supervisor, worker_settings

    def serve_worker(part: WorkerConfig) -> int:
        own = worker_settings(settings, part.worker)
        return guarded(own, lambda: process.run(own, part=part))

    def announce_all(bound: list[dict[str, tuple[str, int]]], admin_urls: list[str]) -> None:
        addresses = []
        for worker, by_name in enumerate(bound):
            for endpoint in settings.endpoints:
                host, port = supervisor.addresses[endpoint.name][worker]
                listening = Listener(endpoint.name, *by_name[endpoint.name])
                addresses.append((listening.address, Listener(endpoint.name, host, port).address))
        _announce_addresses(settings, addresses, admin_urls, ready)

    if any(protocol != "PLAINTEXT" for protocol in settings.protocols.values()):
        from coordinatord.transport.security.material import made_for

        made_for(settings)  # once, before the workers would do so concurrently
    try:
        supervisor = Supervisor(settings, serve_worker, announce_all)
    except CannotBind as failed:
        problem = sentence(failed.error, worker_settings(settings, failed.worker))
        if problem is None:
            raise
        fail(problem)
    return supervisor.run()


def _announce(settings: Settings, daemon: Daemon, ready: ReadyFile) -> None:
    """Announce the addresses for clients. The bound port replaces a port 0 of the settings."""
    bound = []
    for endpoint, (_name, host, port) in zip(settings.endpoints, daemon.bound, strict=True):
        listening = Listener(endpoint.name, host, port)
        advertised = Listener(endpoint.name, endpoint.advertised_host, endpoint.advertised_port or port)
        bound.append((listening.address, advertised.address))
    _announce_addresses(settings, bound, [] if daemon.admin is None else [daemon.admin.url], ready)


def _announce_addresses(
    settings: Settings, bound: list[tuple[str, str]], admin_urls: list[str], ready: ReadyFile
) -> None:
    ready.write(bound, admin_urls, _for_clients(settings))
    announce.listening(
        bound,
        data_dir=settings.data_dir,
        admin_url=" ".join(admin_urls) or None,
        people=announce.for_people(settings.logging_format),
    )
    if _early:  # Python has dropped the exception (_unraisable); the daemon's own handlers are installed by now
        os.kill(os.getpid(), _early[0])


def _for_clients(settings: Settings) -> dict[str, str]:
    """Return the paths of the files that test.users has created."""
    if not settings.test_users:
        return {}
    from coordinatord.transport.security.material import ready_file_paths

    return ready_file_paths(settings)


def sentence(error: OSError, settings: Settings) -> str | None:
    """Return a sentence with the cause of an operating system's error and the remedy; None for an error that needs a
    traceback.
    """
    where = ", ".join(listener.address for listener in settings.listeners)
    if isinstance(error, socket.gaierror):
        return (
            f"The host of {where} cannot be resolved: {error.strerror}. Give an address of this machine with --listen."
        )
    if error.errno == errno.EADDRINUSE:
        return (
            f"{where} is in use: another program listens there, perhaps another coordinatord or a Kafka broker. "
            "Stop it, or choose another address with --listen HOST:PORT."
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{where} is not an address of this machine. Give one that is, or :PORT for all, with --listen."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) and error.filename is not None:
        return (
            f"{error.filename} cannot be written: {error.strerror}. "
            "Give a directory that this user can write with --data-dir."
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"This user may not listen on {where}: {error.strerror}. Ports below 1024 are often reserved."
    if error.errno == errno.ENOSPC:
        return f"The disk of {settings.log_dirs} is full. Make room and start again; nothing acknowledged was lost."
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return f"{error.strerror}: raise the limit (ulimit -n, LimitNOFILE) and start again."
    if error.errno in (errno.ELOOP, errno.EISDIR) and error.filename is not None:
        what = "a symbolic link" if error.errno == errno.ELOOP else "a directory"
        return f"{error.filename} is {what}, where coordinatord keeps a file: move it out of the data directory."
    if error.errno in (errno.ENOTDIR, errno.EEXIST) and error.filename is not None:
        return f"{error.filename} is not a directory. Name one with --data-dir."
    return None
