"""What people and other programs leave in a data directory, and a picture of it that shows every change."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from coordinatord.broker.log.checkpoint import uuid_text

STRAY = re.compile(r"(.{1,200}).*-([0-9]+)\.[0-9a-f]{32}-stray", re.DOTALL)
FIRST_SEGMENT = f"{0:020d}.log"

Content = bytes | Mapping[str, object] | None


class Link(NamedTuple):
    """A symbolic link."""

    to: Path


class Seen(NamedTuple):
    """One entry: what it is, which one, and what is in it."""

    kind: int
    inode: int
    modified_ns: int
    content: bytes


def metadata(topic_id: bytes) -> bytes:
    """A partition.metadata file."""
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}\n".encode()


def put(parent: Path, name: str, content: object) -> Path:
    """Make an entry: bytes for a file, a mapping for a directory, a Link, or None for a named pipe."""
    path = parent / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, Link):
        path.symlink_to(content.to)
    elif content is None:
        os.mkfifo(path)
    else:
        assert isinstance(content, Mapping)
        path.mkdir()
        for below, what in content.items():
            put(path, below, what)
    return path


def picture(top: Path) -> dict[bytes, Seen]:
    """Every entry at and below a path, by where it is; no link is followed."""
    found: dict[bytes, Seen] = {}
    _look(os.fsencode(top), b"", found)
    return found


def _look(path: bytes, relative: bytes, found: dict[bytes, Seen]) -> None:
    status = os.lstat(path)
    kind = stat.S_IFMT(status.st_mode)
    content = b""
    if kind == stat.S_IFLNK:
        content = os.readlink(path)
    elif kind == stat.S_IFREG:
        with open(path, "rb") as file:
            content = file.read()
    elif kind == stat.S_IFDIR:
        for name in os.listdir(path):
            _look(path + b"/" + name, relative + b"/" + name, found)
    found[relative] = Seen(kind, status.st_ino, status.st_mtime_ns, content)


def pictures(data: Path, names: list[str]) -> dict[str, dict[bytes, Seen]]:
    """Of each of these entries of a data directory, where it is now: one that was set aside has another name."""
    return {name: picture(_now(data, name)) for name in names}


def _now(data: Path, name: str) -> Path:
    if os.path.lexists(data / name):
        return data / name
    topic, _, partition = name.rpartition("-")
    [found] = [each for each in os.listdir(data) if (matched := STRAY.fullmatch(each)) and matched[2] == partition
               and matched[1] in (topic, topic[:200])]  # fmt: skip
    return data / found
