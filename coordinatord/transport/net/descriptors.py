"""File descriptors: the number that this process may open, and the share that clients' connections may use.

The daemon ends if the log cannot open a segment. Therefore clients never get the descriptors that the log needs:
`max.connections` is at most what the limit leaves beyond `RESERVED`, and further connections are rejected.
"""

from __future__ import annotations

import errno
import os
from typing import Final

from coordinatord.base.observe.logger import get_logger

log = get_logger("coordinatord.transport.net")

RESERVED: Final = 512
"""Descriptors that are not for clients: the log's two pools of open files (128 and 192), its journal, its cleaner, the
admin port (64), listeners, other workers; and connections that are accepted only to be closed.
"""

FEWEST: Final = 64
"""Minimum number of connections. At a limit of open files that leaves fewer, the daemon does not start."""


def raise_limit() -> int:
    """Raise the soft limit of open files to the hard one, as Java does; returns the limit."""
    try:
        import resource
    except ImportError:  # a platform without such a limit
        return 1 << 31
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError) as error:  # macOS: "unlimited" is more than the kernel gives
            log.warning("the limit of open files stays", limit=soft, hard=hard, error=str(error))
    return limit_of_open_files()


def limit_of_open_files() -> int:
    """Return the soft limit of open files."""
    try:
        import resource
    except ImportError:  # a platform without such a limit
        return 1 << 31
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 31 if soft == resource.RLIM_INFINITY else soft


def connections_allowed(max_connections: int, limit: int) -> int:
    """Return `max_connections`, or the smaller number that a limit of `limit` open files leaves. Raises OSError
    (EMFILE) if fewer than `FEWEST` are left.
    """
    left = limit - RESERVED
    if left < min(FEWEST, max_connections):
        raise OSError(errno.EMFILE, f"{os.strerror(errno.EMFILE)}: {limit} at most, {RESERVED + FEWEST} are needed")
    if left < max_connections:
        log.debug(  # few need as many connections as the default allows; a rejected one is logged
            "max.connections is limited by the number of files that may be open (ulimit -n, LimitNOFILE)",
            max_connections=max_connections,
            allowed=left,
            open_files=limit,
        )
    return min(max_connections, left)
