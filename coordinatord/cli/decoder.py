"""Choice of the decoder for a broker's log: numba decodes many times as fast as plain Python, but takes seconds and 150
MB to load. The choice is made when the pipeline is imported, before the size of the log is known.
"""

from __future__ import annotations

import os
import sys

LARGE_LOG = 300_000
"""Number of records from which on numba is loaded."""
WITHOUT, LARGE = "_COORDINATORD_WITHOUT_NUMBA", "_COORDINATORD_LARGE_LOG"


def assume_small() -> None:
    """Choose plain Python, unless this process was restarted for a large log. Must be called before the pipeline is
    imported.
    """
    if LARGE not in os.environ:
        os.environ[WITHOUT] = "1"


def check_size(records: int) -> None:
    """Restart the process, with numba, if the log is large."""
    if LARGE not in os.environ and records > LARGE_LOG:
        os.environ[LARGE] = os.environ.pop(WITHOUT)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
