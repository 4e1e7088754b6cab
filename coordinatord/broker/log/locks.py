"""One lock for a data directory, of a kind that keeps out another process, a second opening by this process, and a
Kafka broker, whose `FileChannel.tryLock` takes a POSIX record lock.

A POSIX record lock would not do: it does not exclude its own process, and no forked worker inherits it. On Linux it is
an open file description lock, which conflicts with record locks and otherwise goes with the open file (fcntl(2)). On
macOS and the BSDs it is `flock`, whose locks conflict with record locks there; for the same reason, whoever takes both
of them excludes himself there.
"""

from __future__ import annotations

import errno
import fcntl
import struct
import sys

_FLOCK = "hhqqi4x"
"""Linux' struct flock: l_type, l_whence, l_start, l_len, l_pid. From 0, of length 0, is the whole file."""


def hold(fd: int, *, shared: bool = False) -> None:
    """Lock an open file until it is closed everywhere. A shared lock needs it readable, an exclusive one writable.
    BlockingIOError when somebody else holds it.
    """
    try:
        if not (sys.platform == "linux" and _hold_description(fd, shared)):
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise BlockingIOError(error.errno, "is locked") from None
        raise


def _hold_description(fd: int, shared: bool) -> bool:
    """False where the kernel knows no such locks: Linux before 3.15, and some sandboxes that stand for it."""
    kind = fcntl.F_RDLCK if shared else fcntl.F_WRLCK
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, kind, 0, 0, 0, 0))
    except OSError as error:
        if error.errno == errno.EINVAL:
            return False
        raise
    return True
