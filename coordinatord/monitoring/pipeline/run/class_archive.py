"""Spark's Java classes as an archive that the next start maps into memory instead of reading, checking and linking them
one by one (class data sharing, JEP 350): a quarter of the JVM's work in a short run.

The first run writes the archive at its end, 200 MB in the user's cache directory. If the archive does not match Java
and the jars, is incomplete or cannot be written, Java starts without it, silently.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

MAGIC = 0xF00BABA8.to_bytes(4, "little")
"""The first bytes of a complete archive: Java writes its head last."""
KEPT = 2
"""Number of kept archives, of the last used kinds of Spark and Java: each takes 200 MB."""
SILENT = "-Xlog:disable -Xlog:all=error:stderr"
"""Options that suppress Java's warnings about archives, which would go to standard output."""


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the user's cache directory, by the XDG base directory specification."""
    home = environment.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "coordinatord"


def java_options(directory: Path, java: Path, jars: Path) -> str:
    """Return the options that read the archive of a directory of jars for a Java program, or else write it at the end;
    empty if there is no place for it.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with os.scandir(jars) as entries:
            found = sorted((each.name, each.stat().st_size, each.stat().st_mtime_ns) for each in entries)
        java = java.resolve()
        key = repr((str(java), java.stat().st_mtime_ns, str(jars), found))
        path = directory / f"spark-{hashlib.blake2b(key.encode(), digest_size=8).hexdigest()}.jsa"
        if is_complete(path):
            os.utime(path)
            return f"-Xshare:auto -XX:SharedArchiveFile={path} {SILENT}"
        _tidy(directory)
    except OSError:
        return ""
    if not os.access(directory, os.W_OK) or any(each.isspace() for each in str(path)):
        return ""
    return f"-XX:ArchiveClassesAtExit={path} {SILENT}"


def is_complete(path: Path) -> bool:
    """Return whether Java has written all of the archive."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except FileNotFoundError:
        return False


def _tidy(directory: Path) -> None:
    """Remove the oldest archives, to make room for one more."""
    archives = sorted(directory.glob("spark-*.jsa"), key=lambda path: path.stat().st_mtime)
    for path in archives[: max(0, len(archives) - KEPT + 1)]:
        with suppress(FileNotFoundError):
            path.unlink()
