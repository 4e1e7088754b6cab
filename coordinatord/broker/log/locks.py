"""Lock of a data directory, which excludes another process, a second opening by this process, and a Kafka broker, whose
`FileChannel.tryLock` takes a POSIX record lock.

A POSIX record lock would not do: it does not exclude its own process, and a forked worker does not inherit it. On Linux
the lock is an open file description lock, which conflicts with record locks and otherwise belongs to the open file
(fcntl(2)). On macOS and the BSDs the lock is a `flock`, which conflicts with record locks there; for the same reason, a
process that takes both kinds there excludes itself.
"""

from __future__ import annotations

import errno
import fcntl
import struct
import sys

_FLOCK = "hhqqi4x"
"""Format of Linux' struct flock: l_type, l_whence, l_start, l_len, l_pid. Start 0 with length 0 is the whole file."""


def hold(fd: int, *, shared: bool = False) -> None:
    """Lock an open file until all its descriptors are closed. A shared lock requires a readable file, an exclusive one
    a writable file. Raises BlockingIOError if the lock is held already.
    """
    try:
        if not (sys.platform == "linux" and _hold_description(fd, shared)):
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise BlockingIOError(error.errno, "is locked") from None
        raise


def _hold_description(fd: int, shared: bool) -> bool:
    """Take an open file description lock. Return False if the kernel does not support such locks: Linux before 3.15,
    and some sandboxes that emulate Linux.
    """
    kind = fcntl.F_RDLCK if shared else fcntl.F_WRLCK
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, kind, 0, 0, 0, 0))
    except OSError as error:
        if error.errno == errno.EINVAL:
            return False
        raise
    return True
