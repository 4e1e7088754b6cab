"""Which decoder reads the log of a broker: numba decodes many times as fast as plain Python, and takes seconds and
150 MB to load. It is chosen when the pipeline is imported, before anybody knows how large the log is.
"""

from __future__ import annotations

import os
import sys

LARGE_LOG = 300_000
"""From so many records on, numba is loaded."""
WITHOUT, LARGE = "_COORDINATORD_WITHOUT_NUMBA", "_COORDINATORD_LARGE_LOG"


def assume_small() -> None:
    """Choose plain Python, unless this process began again for a large log. Before the pipeline is imported."""
    if LARGE not in os.environ:
        os.environ[WITHOUT] = "1"


def check_size(records: int) -> None:
    """Begin the process again, with numba, if the log is large."""
    if LARGE not in os.environ and records > LARGE_LOG:
        os.environ[LARGE] = os.environ.pop(WITHOUT)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
