"""Errors of a data directory. Each message has the path of the file and the action to take."""

from __future__ import annotations

import os
import shlex

_TEXT = (".json", ".properties", ".metadata", "-checkpoint")
"""Suffixes of the files that humans can read."""


class LogError(Exception):
    """Base of all errors that the log raises about its files."""


class LogDamaged(LogError):
    """Damage: durable bytes differ from those that were written. The log has removed no data."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        name = os.path.basename(path)
        if name.endswith(_TEXT) or ".worker-" in name:
            what_to_do = "it is a text file: correct it by hand, or restore it from a copy of the directory"
        else:
            what_to_do = f"inspect it with `coordinatord log dump {shlex.quote(path)}`"
        if path.endswith(".log"):
            repair = f"coordinatord log repair --from-position {position} {shlex.quote(path)}"
            what_to_do += f", and drop everything from there on with `{repair}`"
        super().__init__(f"{path} is damaged at byte {position}: {reason}. Nothing was removed; {what_to_do}.")
        self.path = path
        self.position = position
        self.reason = reason


class DataDirectoryError(LogError):
    """The data directory cannot be used: locked by another process, not writable, or of another version or cluster."""


def other_version(path: str, version: object, known: int) -> DataDirectoryError:
    """Return the error for one of our files whose version this program does not read."""
    return DataDirectoryError(
        f"{path} has version {version!r} and this program reads version {known}: start the later one, "
        f"or give this one another data directory"
    )


class CleanerLost(LogError):
    """The cleaning process has ended unexpectedly, as if killed for its memory use: the next one may succeed."""


class OffsetOutOfRange(LogError):
    """A read below the log's start or above its end."""


class StoreAway(OSError):
    """The log's store cannot be reached now. Unlike a disk's error this one is transient: the change may be tried
    again.
    """


class LogFailed(LogError):
    """A write or flush has failed. The log rejects appends until a restart has replayed it."""
