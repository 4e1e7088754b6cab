"""Topic catalogue `topics.json`: the existing topics in one small file that is replaced whole and durably.

    {"version": 1, "change": 7,
     "topics": {"orders": {"id": "…", "partitions": 3, "configs": {"retention.ms": "1000"}}},
     "deleting": {"…": {"topic": "payments", "change": 6}}}

`change` counts the replacements. `deleting` lists topics whose deletion may be incomplete, each with the change that
deleted it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import orjson

from coordinatord.broker.log.checkpoint import uuid_bytes, uuid_text
from coordinatord.broker.log.disk import Disk, read_text, replace_json
from coordinatord.broker.log.errors import LogDamaged, other_version
from coordinatord.broker.log.ownership import Catalogued

FILE = "topics.json"
VERSION = 1

_NAMELESS: dict[str, Any] = {"topic": "", "change": 0}


class Entry(NamedTuple):
    """A topic's entry in the file."""

    topic_id: bytes
    partitions: int
    configs: Mapping[str, str]


class Deletion(NamedTuple):
    """A deleted topic and the change that deleted it."""

    topic: str
    change: int


class Content(NamedTuple):
    """The whole file; `deleting` is by topic id."""

    topics: dict[str, Entry]
    deleting: dict[bytes, Deletion]
    change: int


def read(disk: Disk, path: str) -> Content:
    """Return the file's content, empty if there is no file. Raises LogDamaged if the file is not a valid catalogue,
    DataDirectoryError if it has another version.
    """
    text = read_text(disk, path)
    return Content({}, {}, 0) if text is None else parsed(text, path)


def parsed(text: str | bytes, path: str) -> Content:
    """Return the content of the file at `path` from its text. Raises as `read` does."""
    try:
        content = orjson.loads(text)
        if content["version"] != VERSION:
            raise other_version(path, content["version"], VERSION)
        topics = {
            str(name): Entry(uuid_bytes(entry["id"]), int(entry["partitions"]), dict(entry["configs"]))
            for name, entry in content["topics"].items()
        }
        # Older files have no `change`; their `deleting` is a list of topic ids without names.
        gone = content["deleting"] if "change" in content else dict.fromkeys(content["deleting"], _NAMELESS)
        deleting = {
            uuid_bytes(topic_id): Deletion(str(each["topic"]), int(each["change"])) for topic_id, each in gone.items()
        }
        return Content(topics, deleting, int(content.get("change", 0)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LogDamaged(path, 0, f"not a catalogue of topics: {error!r}") from None


def catalogued(disk: Disk, data_path: str) -> Catalogued | None:
    """Return the partitions of a data directory, for its opening; None if it has no catalogue yet."""
    path = f"{data_path}/{FILE}"
    if disk.kind(path) is None:
        return None
    content = read(disk, path)
    topics = {name: (entry.topic_id, entry.partitions) for name, entry in content.topics.items()}
    return Catalogued(topics, {topic_id: each.topic for topic_id, each in content.deleting.items()})


def write(disk: Disk, path: str, content: Content) -> None:
    """Write the catalogue; durable on return. Raises OSError if the write failed, and the old file remains."""
    topics = {
        name: {"id": uuid_text(entry.topic_id), "partitions": entry.partitions, "configs": dict(entry.configs)}
        for name, entry in content.topics.items()
    }
    deleting = {uuid_text(topic_id): each._asdict() for topic_id, each in content.deleting.items()}
    whole = {"version": VERSION, "change": content.change, "topics": topics, "deleting": deleting}
    replace_json(disk, path, whole)


class Writing:
    """One write of `content`, at most once, by any thread. `error` is the exception of `write`, once it has ended."""

    def __init__(self, content: Content, write: Callable[[], object]) -> None:
        self.content = content
        self.error: Exception | None = None
        self._write = write
        self._lock = threading.Lock()
        self._is_done = False

    def write(self) -> None:
        """Write, unless the write is done already."""
        with self._lock:
            if not self._is_done:
                self._is_done = True
                try:
                    self._write()
                except Exception as error:
                    self.error = error

    def is_written(self) -> bool:
        """Return whether the write has succeeded. Waits for a running write, and starts it if it has not begun."""
        self.write()
        return self.error is None
