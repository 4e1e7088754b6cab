"""`serve --ready-file PATH`: a file that exists while clients can connect. Scripts that start the daemon wait for the
file.

Its one line is a JSON object:

    {"listeners": ["127.0.0.1:40123"], "advertised": ["127.0.0.1:40123"], "admin": ["http://127.0.0.1:1/"], "pid": 7}

Lists have one entry for each listener of each worker, in the order of the workers; `admin` is empty without an admin
port. With `test.users` there is also `clients`: the paths of `ca` and of each secured listener's client.properties.
`pid` is the process to send SIGTERM to; with several workers it is the supervisor. The file is written under another
name and renamed when the daemon listens, so a reader never sees a part of it. A stop removes the file.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class CannotTell(Exception):
    """Raised if the file cannot be written. The message gives the reason, in a sentence."""


class ReadyFile:
    """A context manager around the daemon's run. With `path` None it writes no file."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._is_written = False

    def __enter__(self) -> ReadyFile:
        """Remove the file of a killed daemon: readers would mistake it for this daemon's. Raises CannotTell."""
        path = self._path
        if path is None:
            return self
        if not os.access(path.parent, os.W_OK):
            raise CannotTell(f"{path.parent} is not a directory that this user can write: choose another --ready-file.")
        try:
            pid = json.loads(path.read_bytes())["pid"]
        except FileNotFoundError:
            return self
        except (OSError, ValueError, KeyError, TypeError):
            raise CannotTell(f"{path} exists and is no ready file: choose another --ready-file.") from None
        if not _is_another(pid):
            path.unlink(missing_ok=True)
        return self

    def write(
        self, bound: Sequence[tuple[str, str]], admin_urls: Sequence[str], clients: Mapping[str, str] | None = None
    ) -> None:
        """Write the file. `bound` has (bound address, advertised address) of each listener. Raises CannotTell."""
        if self._path is None:
            return
        told = {
            "listeners": [address for address, _advertised in bound],
            "advertised": [advertised for _address, advertised in bound],
            "admin": list(admin_urls),
            "pid": os.getpid(),
            **({"clients": dict(clients)} if clients else {}),
        }
        aside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            aside.write_text(json.dumps(told) + "\n")
            aside.replace(self._path)
        except OSError as error:
            with contextlib.suppress(OSError):
                aside.unlink()
            raise CannotTell(f"{self._path} cannot be written: {error.strerror}.") from error
        self._is_written = True

    def __exit__(self, *_exception: object) -> None:
        if self._path is not None and self._is_written:
            with contextlib.suppress(OSError):
                self._path.unlink()


def _is_another(pid: Any) -> bool:
    """Return whether `pid` is a running process other than this one. In a container each daemon in turn is
    process 1.
    """
    if not isinstance(pid, int) or pid <= 0 or pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True
