"""What can be wrong with a data directory. Each message names the file and says what to do."""

from __future__ import annotations

import os
import shlex

_TEXT = (".json", ".properties", ".metadata", "-checkpoint")
"""How names of files end that people can read."""


class LogError(Exception):
    """Base of everything that the log raises about its files."""


class LogDamaged(LogError):
    """Bytes which were durable are not what was written. Nothing was removed."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        name = os.path.basename(path)
        if name.endswith(_TEXT) or ".worker-" in name:
            what_to_do = "it is a text file, which can be mended by hand or taken from a copy of the directory"
        else:
            what_to_do = f"look at it with `coordinatord log dump {shlex.quote(path)}`"
        if path.endswith(".log"):
            repair = f"coordinatord log repair --from-position {position} {shlex.quote(path)}"
            what_to_do += f", give up what comes after it with `{repair}`"
        super().__init__(f"{path} is damaged at byte {position}: {reason}. Nothing was removed; {what_to_do}.")
        self.path = path
        self.position = position
        self.reason = reason


class DataDirectoryError(LogError):
    """The data directory cannot be used: held by another process, not writable, of another version or cluster."""


class CleanerLost(LogError):
    """The process that cleans has ended by itself, as one does that was killed for its memory: the next may get
    through.
    """


class OffsetOutOfRange(LogError):
    """A read below the log's start or above its end."""


class LogFailed(LogError):
    """A write or flush has failed: the log takes nothing more until a restart has replayed it."""
