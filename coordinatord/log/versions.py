"""Which version a data directory has, and how an older one is brought up to ours.

The version is Kafka's, in meta.properties: 1 is what brokers since KRaft write, and we. A change of ours that an older
program must not touch raises it and adds a step to MIGRATIONS: a function of the version that it starts from, given
the disk, the directory and the properties, that changes files and returns the properties as they are afterwards. A step
may be cut short by a crash and is done again then: it has to get along with what it has done already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from coordinatord.log import checkpoint
from coordinatord.log.disk import Disk
from coordinatord.log.errors import DataDirectoryError

Properties = dict[str, str]
Migration = Callable[[Disk, str, Properties], Properties]

MIGRATIONS: dict[int, Migration] = {}
"""By the version that they start from. There has been no other version of ours yet."""


def brought_up(
    disk: Disk,
    path: str,
    properties: Properties,
    *,
    migrations: Mapping[int, Migration] = MIGRATIONS,
    current: int = checkpoint.META_VERSION,
) -> Properties:
    """The properties of the directory `path` in our version, durably. DataDirectoryError when there is no way to it.
    The caller holds the lock.
    """
    file = f"{path}/{checkpoint.META_PROPERTIES}"
    text = properties.get("version", "")
    if not (text.isascii() and text.isdigit()):
        raise DataDirectoryError(f"{file} has version {text!r}: that is not one")
    version = int(text)
    if version > current:
        raise DataDirectoryError(
            f"{file} has version {version}, of a later program; this one reads version {current}: start the later one, "
            f"or give this one another directory"
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
        # After each step: a crash in the next one must not have this one done to its own result without need.
        properties["version"] = str(version)
        checkpoint.write_properties(disk, file, properties)
    return properties
