"""Spark's Java classes as an archive that the next start maps into memory instead of reading, checking and linking them
one by one (class data sharing, JEP 350): a quarter of the JVM's work in a short run.

The first run writes the archive when it has ended, 200 MB in the user's cache directory. One that does not fit, is not
complete or cannot be written is as good as none: Java starts without it, and says nothing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

MAGIC = 0xF00BABA8.to_bytes(4, "little")
"""What a complete archive begins with: Java writes its head last."""
KEPT = 2
"""Archives, of the last used kinds of Spark and Java: each takes 200 MB."""
SILENT = "-Xlog:disable -Xlog:all=error:stderr"
"""Java's warnings of archives go to standard output, if it is not told otherwise."""


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """The user's, by the XDG base directory specification."""
    home = environment.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "coordinatord"


def java_options(directory: Path, java: Path, jars: Path) -> str:
    """Options that read the archive of a directory of jars for a Java program, or else write it at the end; empty if
    there is no place for it.
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
    """Whether Java has written all of it."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except FileNotFoundError:
        return False


def _tidy(directory: Path) -> None:
    """Make room for one more."""
    archives = sorted(directory.glob("spark-*.jsa"), key=lambda path: path.stat().st_mtime)
    for path in archives[: max(0, len(archives) - KEPT + 1)]:
        with suppress(FileNotFoundError):
            path.unlink()
