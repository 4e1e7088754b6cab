"""File descriptors: how many this process may have open, and how many of them are clients' connections.

A log that cannot open a segment cannot go on: the daemon ends. So clients never get the descriptors that the log
needs: `max.connections` is at most what the limit leaves beyond `RESERVED`, and further connections are refused.
"""

from __future__ import annotations

import errno
import os
from typing import Final

from coordinatord.base.observe.logger import get_logger

log = get_logger("coordinatord.transport.net")

RESERVED: Final = 512
"""Descriptors that are not for clients: the log's two pools of open files (128 and 192), its journal, its cleaner, the
admin port (64), listeners, other workers; and connections that are accepted only to be refused."""

FEWEST: Final = 64
"""A limit that leaves fewer connections than this is refused at the start."""


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
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 31 if soft == resource.RLIM_INFINITY else soft


def connections_allowed(max_connections: int, limit: int) -> int:
    """`max_connections`, or what `limit` open files leave. OSError (EMFILE) if that is too little to serve anybody."""
    left = limit - RESERVED
    if left < min(FEWEST, max_connections):
        raise OSError(errno.EMFILE, f"{os.strerror(errno.EMFILE)}: {limit} at most, {RESERVED + FEWEST} are needed")
    if left < max_connections:
        log.debug(  # few need as many connections as the default allows; a refused one is logged
            "max.connections is limited by the number of files that may be open (ulimit -n, LimitNOFILE)",
            max_connections=max_connections,
            allowed=left,
            open_files=limit,
        )
    return min(max_connections, left)
