"""The Unix sockets for requests between workers, one per worker; only this user may connect to them.

The sockets are in the data directory, which this process can always write to. Where that is impossible (a socket's path
is limited to about a hundred bytes; some shared folders of virtual machines do not support sockets) they are in a
temporary directory.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import stat
import tempfile

MAX_PATH_BYTES = 100
"""Longest path in bytes. sockaddr_un holds 108 bytes on Linux and 104 elsewhere, including a terminating zero."""


class Rendezvous:
    """The sockets. `sockets[worker]` is bound and listens at `paths[worker]`."""

    def __init__(self, directory: str, workers: int, backlog: int) -> None:
        """Raises OSError when no directory works."""
        self.sockets: list[socket.socket] = []
        self._bound: list[str] = []
        self._temporary: str | None = None
        self.paths = [f"{os.path.abspath(directory)}/.worker-{worker}.sock" for worker in range(workers)]
        try:
            if max(len(os.fsencode(path)) for path in self.paths) > MAX_PATH_BYTES:
                raise OSError("the path is too long for a socket")
            self._bind(backlog)
        except OSError:
            self.remove()
            self._temporary = tempfile.mkdtemp(prefix="coordinatord-")
            self.paths = [f"{self._temporary}/{worker}" for worker in range(workers)]
            self._bind(backlog)

    def _bind(self, backlog: int) -> None:
        umask = os.umask(0o177)
        try:
            for path in self.paths:
                _unlink(path)  # left by a process that was killed
                made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                self.sockets.append(made)
                made.setblocking(False)
                made.bind(path)  # an error if the path is not a socket
                self._bound.append(path)
                made.listen(backlog)
        finally:
            os.umask(umask)

    def remove(self) -> None:
        """Remove the sockets."""
        for each in self.sockets:
            each.close()
        self.sockets.clear()
        for path in self._bound:
            with contextlib.suppress(OSError):
                _unlink(path)
        self._bound.clear()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)


def _unlink(path: str) -> None:
    """Remove a socket; any other file with its name is kept."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            os.unlink(path)
