"""Versions of data directories, and migration from older ones.

The version is Kafka's, in meta.properties: brokers since KRaft write 1, and so does coordinatord. A change of format
that an older program would misread increments it and adds a step to MIGRATIONS, keyed by the version that the step
starts from: a function that receives the disk, the directory and the properties, changes files, and returns the new
properties. A crash may interrupt a step, which is then repeated: a step must cope with its own partial result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from coordinatord.broker.log import checkpoint
from coordinatord.broker.log.disk import Disk
from coordinatord.broker.log.errors import DataDirectoryError

Properties = dict[str, str]
Migration = Callable[[Disk, str, Properties], Properties]

MIGRATIONS: dict[int, Migration] = {}
"""Migrations by the version that they start from. So far there has been only one version."""


def brought_up(
    disk: Disk,
    path: str,
    properties: Properties,
    *,
    migrations: Mapping[int, Migration] = MIGRATIONS,
    current: int = checkpoint.META_VERSION,
) -> Properties:
    """Migrate the directory `path` to the current version, durably. Return its properties. Raises DataDirectoryError if
    the version is no number, is later than this program's, or has no migration. The caller holds the lock.
    """
    file = f"{path}/{checkpoint.META_PROPERTIES}"
    text = properties.get("version", "")
    if not (text.isascii() and text.isdigit()):
        raise DataDirectoryError(f"{file} has version {text!r}, which is not a number")
    version = int(text)
    if version > current:
        raise DataDirectoryError(
            f"{file} has version {version}, of a later coordinatord; this one reads version {current}: start "
            f"the later one, or give this one another data directory"
        )
    missing = [each for each in range(version, current) if each not in migrations]
    if missing:
        raise DataDirectoryError(
            f"{file} has version {version}, which a Kafka broker before KRaft wrote; this program reads version "
            f"{current}: upgrade that one to Kafka 4 first"
        )
    while version < current:
        properties = migrations[version](disk, path, dict(properties))
        version += 1
        # After each step: after a crash in the next step, this step must not run on its own result.
        properties["version"] = str(version)
        checkpoint.write_properties(disk, file, properties)
    return properties
