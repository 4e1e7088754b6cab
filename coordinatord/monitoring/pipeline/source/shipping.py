"""Distribution of this package to a cluster's executors: their Python has the dependencies of Spark and of
coordinatord, but not coordinatord.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

PACKAGES = ("coordinatord", "kafka_wire")
LEFT_OUT = frozenset({"__pycache__", "stories"})


def pack(master: str) -> Path | None:
    """Return a zip file of this package for a cluster; None if Spark runs in this process. Spark plans reads with a
    Python on this machine that need not have the package either: that Python gets the file by PYTHONPATH, so this
    function must be called before the start.
    """
    if master.startswith("local"):
        return None
    path = archive(Path(tempfile.mkdtemp(prefix="coordinatord-")) / "coordinatord.zip")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(path), os.environ.get("PYTHONPATH")]))
    return path


def ship(spark: Any, packed: Path | None) -> None:
    """Send the zip file to the executors. An existing session of `spark-submit` has a wheel instead (--py-files)."""
    if packed is not None:
        spark.sparkContext.addPyFile(str(packed))


def archive(path: Path) -> Path:
    """Make a zip file with the modules that are imported here; compiled ones as their sources, for any Python."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name in PACKAGES:
            found = importlib.util.find_spec(name)
            assert found is not None
            for place in found.submodule_search_locations or ():
                for directory, below, names in os.walk(place):
                    below[:] = sorted(set(below) - LEFT_OUT)
                    for each in sorted(names):
                        if each.endswith((".py", ".txt")):
                            source = Path(directory) / each
                            file.write(source, Path(name) / source.relative_to(place))
    return path
