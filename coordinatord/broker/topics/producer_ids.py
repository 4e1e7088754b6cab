"""Assignment of producer ids, which are unique across restarts.

Ids are assigned from a block that is reserved durably before its first id is returned, as Kafka's brokers reserve
blocks of a thousand from the controller. Unused ids of a block are lost when the process ends; the id space is large
enough.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import orjson

from coordinatord.broker.log.disk import Disk, read_text, replace_text
from coordinatord.broker.log.errors import LogDamaged, other_version

FILE = "producer_ids.json"
VERSION = 1

BLOCK_SIZE = 1_000
"""Kafka's `ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE`."""


class ProducerIds:
    """Source of producer ids."""

    def __init__(
        self, disk: Disk, directory: str, lock: Callable[[], AbstractContextManager[object]] = nullcontext
    ) -> None:
        """Read the file. `lock` keeps other processes from reserving blocks in the same file at the same time. Raises
        LogError if the file is not valid: two producers with the same id would be taken for one.
        """
        self._disk = disk
        self._directory = directory
        self._lock = lock
        self._next = self._reserved = read_next(disk, directory)

    def next(self) -> int:
        """Return a new id. Raises OSError if no block could be reserved."""
        if self._next == self._reserved:
            with self._lock():
                begin = read_next(self._disk, self._directory)
                end = begin + BLOCK_SIZE
                write_next(self._disk, self._directory, end)
            self._next, self._reserved = begin, end
        given = self._next
        self._next = given + 1
        return given


def read_next(disk: Disk, directory: str) -> int:
    """Return the first id of the next block. Raises LogDamaged if the file is not valid, DataDirectoryError for another
    version.
    """
    path = f"{directory}/{FILE}"
    text = read_text(disk, path)
    if text is None:
        return 0
    try:
        content = orjson.loads(text)
        following = content["next"]
        if content["version"] != VERSION:
            raise other_version(path, content["version"], VERSION)
        if type(following) is not int or following < 0:
            raise ValueError(f"next {following}")
        return following
    except (ValueError, KeyError, TypeError) as error:
        raise LogDamaged(path, 0, f"not a record of producer ids: {error!r}") from None


def write_next(disk: Disk, directory: str, following: int) -> None:
    """Mark every id below `following` as reserved, durably."""
    replace_text(disk, f"{directory}/{FILE}", json.dumps({"version": VERSION, "next": following}) + "\n")
