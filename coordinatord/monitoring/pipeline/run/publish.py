"""Tables on another file system, any that Hadoop supports: `pipeline run --out s3a://bucket/lag --work DIR`.

A run needs renames and a lock, which object stores do not have. So it works in DIR, and then its tables are copied:

    OUT/work_id                       the DIR of the copies: two would remove each other's files
    OUT/tables/<name>/bucket=<b>/     the files of DIR/tables, under their names
    OUT/state.json                    DIR's, written last

The name of a file is never reused for another content. So only new files are copied, then files are removed that DIR no
longer has; after an interruption, the next run does the rest. In between, replaced rows can be read twice.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.pipeline.run.state import FILE as STATE

TABLES = "tables"
WORK_ID = "work_id"


def changes(here: Mapping[str, int], there: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """Return (names to copy, names to remove), from the sizes of files by their names. A file of another size is
    incomplete.
    """
    return sorted(name for name, _ in here.items() - there.items()), sorted(there.keys() - here.keys())


class Place:
    """A directory of a file system that Hadoop supports, through Spark's session. Every method may raise a
    SourceError.
    """

    def __init__(self, spark: SparkSession, url: str) -> None:
        self.url = url.rstrip("/")
        self._make: Any = spark._jvm.org.apache.hadoop.fs.Path
        with self._told(spark):
            self._files: Any = self._make(self.url).getFileSystem(spark._jsc.hadoopConfiguration())

    def sizes(self) -> dict[str, int]:
        """Return the sizes of the tables' files in bytes, by their paths below this place."""
        found = {}
        with self._told():
            tables = self._path(TABLES)
            if self._files.exists(tables):
                root = f"{self._files.makeQualified(self._make(self.url)).toString()}/"
                listed = self._files.listFiles(tables, True)
                while listed.hasNext():
                    each = listed.next()
                    found[each.getPath().toString().removeprefix(root)] = int(each.getLen())
        return found

    def put(self, path: Path, name: str) -> None:
        """Copy a file of this machine, over an existing one."""
        with self._told():
            self._files.copyFromLocalFile(False, True, self._make(_uri(path)), self._path(name))

    def remove(self, name: str) -> None:
        with self._told():
            self._files.delete(self._path(name), False)

    def text(self, name: str) -> str | None:
        """Return the content of a small file; None if there is none."""
        with self._told(), tempfile.TemporaryDirectory() as scratch:
            if not self._files.exists(self._path(name)):
                return None
            copy = Path(scratch) / "copy"
            self._files.copyToLocalFile(False, self._path(name), self._make(_uri(copy)), True)
            return copy.read_text()

    def _path(self, name: str) -> Any:
        return self._make(f"{self.url}/{name}")

    @contextmanager
    def _told(self, spark: SparkSession | None = None) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            thrown = getattr(error, "java_exception", None)
            if thrown is None:
                raise
            said = str(thrown.toString()).partition("\n")[0]
            scheme = self.url.partition(":")[0]
            if spark is not None and ("ClassNotFound" in said or "No FileSystem for scheme" in said):
                version = spark._jvm.org.apache.hadoop.util.VersionInfo.getVersion()
                jars = f".packages=org.apache.hadoop:hadoop-aws:{version}" if scheme == "s3a" else "=JAR,…"
                raise SourceError(
                    f"--out {self.url}: Spark has no jar with the file system {scheme}: add --conf spark.jars{jars}"
                ) from None
            raise SourceError(f"--out {self.url}: {said}") from None


def _uri(path: Path) -> str:
    """Return the path as Hadoop expects it: it does not decode quoted characters."""
    return f"file://{path.resolve()}"


class Published:
    """A place that is kept equal to the tables of `work`. Raises SourceError if it has those of another directory."""

    def __init__(self, place: Place, work: Path) -> None:
        self._place, self._work = place, work
        own, other = work / WORK_ID, place.text(WORK_ID)
        if not own.exists():
            own.write_text(uuid.uuid4().hex)
        if other != own.read_text() and (other is not None or place.sizes()):
            raise SourceError(
                f"--out {place.url} has tables that were not made in --work {work}: give the directory they were made "
                "in, or an empty place"
            )
        if other is None:
            place.put(own, WORK_ID)

    def update(self) -> int:
        """Make the place equal to the present tables. Return the number of copied files."""
        here = {
            str(path.relative_to(self._work)): path.stat().st_size
            for path in (self._work / TABLES).glob("*/bucket=*/*.parquet")
        }
        new, gone = changes(here, self._place.sizes())
        for name in new:
            self._place.put(self._work / name, name)
        for name in gone:
            self._place.remove(name)
        self._place.put(self._work / STATE, STATE)
        return len(new)
