"""Producer ids: never the same twice, over restarts too.

Ids are handed out from a block that was reserved durably before its first id left, as Kafka's brokers reserve blocks of
a thousand from the controller. What is left of a block when the process ends is lost, which costs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from coordinatord.log.disk import Disk, read_text, replace_text
from coordinatord.log.errors import LogDamaged

FILE = "producer_ids.json"
VERSION = 1

BLOCK_SIZE = 1_000
"""Kafka's `ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE`."""


class ProducerIds:
    """Hands out ids."""

    def __init__(
        self, disk: Disk, directory: str, lock: Callable[[], AbstractContextManager[object]] = nullcontext
    ) -> None:
        """`lock` keeps other processes from reserving blocks in the same file meanwhile. LogDamaged when the file is
        not ours to understand: an id given twice would pass for the same producer.
        """
        self._disk = disk
        self._directory = directory
        self._lock = lock
        self._next = self._reserved = read_next(disk, directory)

    def next(self) -> int:
        """A new id. OSError when no block could be reserved."""
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
    """The first id of the next block."""
    path = f"{directory}/{FILE}"
    text = read_text(disk, path)
    if text is None:
        return 0
    try:
        content = json.loads(text)
        following = content["next"]
        if content["version"] != VERSION or type(following) is not int or following < 0:
            raise ValueError(f"version {content['version']}, next {following}")
        return following
    except (ValueError, KeyError, TypeError) as error:
        raise LogDamaged(path, 0, f"not a record of producer ids: {error!r}") from None


def write_next(disk: Disk, directory: str, following: int) -> None:
    """Every id below `following` is taken."""
    replace_text(disk, f"{directory}/{FILE}", json.dumps({"version": VERSION, "next": following}) + "\n")
