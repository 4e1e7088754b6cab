"""File access of the log: `Disk` and `File`, two protocols, so that tests can replace the disk.

`OsDisk` is the operating system's. `SimulatedDisk` (simulated_disk.py) keeps files in memory, loses unflushed data when
it crashes, tears writes and fills up. The log relies only on what POSIX and Linux file systems guarantee: written bytes
are durable after `datasync`, and a created, renamed or removed name after `sync_dir` of its directory.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
from collections import OrderedDict
from time import monotonic
from typing import Any, Literal, Protocol

import orjson

from coordinatord.broker.log import locks

Kind = Literal["file", "directory", "symbolic link", "special file"]


class File(Protocol):
    """An open file. Positions and sizes are bytes."""

    def pread(self, size: int, position: int) -> bytes: ...

    def pwrite(self, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all of `data`. After OSError, an unknown part of `data` is written."""

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def datasync(self) -> None: ...

    def close(self) -> None: ...


class Lock(Protocol):
    def release(self) -> None: ...


class Disk(Protocol):
    """A file system. Paths are plain strings; errors are OSError, as the `os` module raises them."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file. Raises OSError if `path` is not a file, or is a symbolic link: coordinatord creates none, so the
        target is foreign.
        """

    def exists(self, path: str) -> bool: ...

    def is_dir(self, path: str) -> bool: ...

    def kind(self, path: str) -> Kind | None:
        """Return the kind of an entry; None if there is none. Symbolic links are not followed."""

    def listdir(self, path: str) -> list[str]: ...

    def makedirs(self, path: str) -> None: ...

    def mkdir(self, path: str) -> None:
        """Create a directory. Raises FileExistsError if the name exists."""

    def rename(self, source: str, target: str) -> None: ...

    def unlink(self, path: str) -> None: ...

    def rmdir(self, path: str) -> None: ...

    def sync_dir(self, path: str) -> None: ...

    def modified_ms(self, path: str) -> int:
        """Return the time of a file's last write (epoch ms)."""

    def set_modified(self, path: str, modified_ms: int) -> None: ...

    def space(self, path: str) -> tuple[int, int]:
        """Return the size of a directory's volume, and the part of it that this user can still use, in bytes."""

    def lock(self, path: str, owner: str) -> Lock:
        """Lock `path` and write `owner` into it. Raises BlockingIOError if another process holds the lock."""


_INDENT = re.compile(rb"\n( +)")


MOST_JSON_BYTES = 64 * 1024 * 1024
"""Largest file in bytes that `replace_json` writes: clients determine the content, and each change replaces the whole
file.
"""


def read_text(disk: Disk, path: str, max_bytes: int | None = None) -> str | None:
    """Return a small file's text, or its first `max_bytes`; None if the file does not exist."""
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return None
    try:
        size = file.size()
        return file.pread(size if max_bytes is None else min(size, max_bytes), 0).decode("utf-8", "replace")
    finally:
        file.close()


def replace_text(disk: Disk, path: str, text: str, *, is_named: bool = True) -> None:
    """Replace a small file atomically and durably. Without `is_named` the caller flushes the directory."""
    replace_bytes(disk, path, text.encode(), is_named=is_named)


def replace_json(disk: Disk, path: str, value: Any) -> None:
    """Replace a small file, as `replace_text` does, with the JSON of a value, indented by one space a level. With three
    thousand topics, `json.dumps` would take ten times as long. Raises OSError if the file would grow beyond
    MOST_JSON_BYTES (and beyond its present size).
    """
    text = orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    data = _INDENT.sub(lambda found: found[0][: 1 + len(found[1]) // 2], text)
    if len(data) > max(MOST_JSON_BYTES, _size(disk, path)):
        name, most = os.path.basename(path), MOST_JSON_BYTES
        raise OSError(errno.EFBIG, f"{name} would have {len(data)} bytes, {most} is the most")
    replace_bytes(disk, path, data)


def _size(disk: Disk, path: str) -> int:
    """Return a file's size in bytes; 0 if there is none."""
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return 0
    try:
        return file.size()
    finally:
        file.close()


def write_bytes(disk: Disk, path: str, data: bytes) -> None:
    """Write a file anew, and flush its content; its name is durable when its directory is flushed."""
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        file.pwrite(data, 0)
        file.datasync()
    finally:
        file.close()


def replace_bytes(disk: Disk, path: str, data: bytes, *, is_named: bool = True) -> None:
    """Replace a small file, as `replace_text` does, with bytes: write a new file, flush it, rename it, flush the
    directory.
    """
    temporary = path + ".tmp"
    write_bytes(disk, temporary, data)
    disk.rename(temporary, path)
    if is_named:
        disk.sync_dir(os.path.dirname(path))


CHECK_S = 0.1
"""Shortest time in seconds between two checks by writes that the file still exists; a flush always checks. Each check
takes as long as a write of four commits.
"""


class OsFile:
    """A file descriptor."""

    __slots__ = ("_check_s", "_fd")

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._check_s = 0.0

    def pread(self, size: int, position: int) -> bytes:
        data = os.pread(self._fd, size, position)
        if 0 < len(data) < size:  # a signal, or more than Linux reads at once (2 GiB)
            parts = [data]
            got = len(data)
            while got < size and (more := os.pread(self._fd, size - got, position + got)):
                parts.append(more)
                got += len(more)
            return b"".join(parts)
        return data

    def pwrite(self, data: bytes | bytearray | memoryview, position: int) -> None:
        now_s = monotonic()
        if now_s >= self._check_s:
            self._check_s = now_s + CHECK_S
            self.check_exists()
        done = os.pwrite(self._fd, data, position)
        while done < len(data):  # the disk is nearly full: the next attempt reports it
            done += os.pwrite(self._fd, memoryview(data)[done:], position + done)

    def check_exists(self) -> None:
        """Raise FileNotFoundError if the file was removed: Linux writes to it until the last descriptor is closed, and
        then drops all of it.
        """
        if not os.fstat(self._fd).st_nlink:
            raise FileNotFoundError(errno.ENOENT, "the file has been removed while it was open")

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    if hasattr(os, "fdatasync"):

        def datasync(self) -> None:
            os.fdatasync(self._fd)
            self.check_exists()

    else:  # macOS: fsync alone leaves the data in the drive's cache

        def datasync(self) -> None:
            fcntl.fcntl(self._fd, getattr(fcntl, "F_FULLFSYNC", 51))
            self.check_exists()

    def close(self) -> None:
        os.close(self._fd)


class OsLock:
    """A lock file (locks.py)."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        os.close(self._fd)


_KINDS: dict[int, Kind] = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symbolic link"}


def _open(path: str, flags: int) -> int:
    try:
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "is a symbolic link, which is not followed", path) from None
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "is not a file", path)
    return fd


def open_file(path: str, *, create: bool) -> int:
    """Return a descriptor for reading and writing; see Disk.open."""
    return _open(path, os.O_RDWR | (os.O_CREAT if create else 0))


class OsDisk:
    """The operating system's file system."""

    def open(self, path: str, *, create: bool = False) -> File:
        return OsFile(open_file(path, create=create))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def kind(self, path: str) -> Kind | None:
        try:
            mode = os.lstat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        return _KINDS.get(stat.S_IFMT(mode), "special file")

    def listdir(self, path: str) -> list[str]:
        return os.listdir(path)

    def makedirs(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def mkdir(self, path: str) -> None:
        os.mkdir(path)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def rmdir(self, path: str) -> None:
        os.rmdir(path)

    def sync_dir(self, path: str) -> None:
        fd = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        except OSError as error:
            if error.errno != errno.EINVAL:  # file systems that cannot flush directories
                raise
        finally:
            os.close(fd)

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def space(self, path: str) -> tuple[int, int]:
        volume = os.statvfs(path)
        return volume.f_frsize * volume.f_blocks, volume.f_frsize * volume.f_bavail

    def lock(self, path: str, owner: str) -> Lock:
        fd = _open(path, os.O_RDWR | os.O_CREAT)
        try:
            locks.hold(fd)
        except OSError as error:
            os.close(fd)
            raise type(error)(error.errno, error.strerror, path) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, owner.encode(), 0)
        return OsLock(fd)


class ReadOnlyDisk(OsDisk):
    """Files of another program, perhaps on a read-only volume or behind symbolic links."""

    def open(self, path: str, *, create: bool = False) -> File:
        assert not create, path
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe without a writer would block
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.EINVAL, "It is not a regular file", path)
        return OsFile(fd)


class FilePool:
    """A pool of at most `limit` open files, which closes the least recently used file first. Thousands of partitions
    must not use up the file descriptors.

    Not thread-safe: the event loop's thread (reads) and the writer's thread (writes) have one pool each.
    """

    def __init__(self, disk: Disk, limit: int) -> None:
        self.disk = disk
        self._limit = limit
        self._files: OrderedDict[str, File] = OrderedDict()

    def __len__(self) -> int:
        return len(self._files)

    def get(self, path: str, *, create: bool = False) -> File:
        file = self._files.get(path)
        if file is not None:
            self._files.move_to_end(path)
            return file
        file = self.disk.open(path, create=create)
        self._files[path] = file
        if len(self._files) > self._limit:
            self._files.popitem(last=False)[1].close()
        return file

    def drop(self, path: str) -> None:
        """Close `path` because it was removed or replaced."""
        file = self._files.pop(path, None)
        if file is not None:
            file.close()

    def drop_below(self, directory: str) -> None:
        prefix = directory + os.sep
        for path in [path for path in self._files if path.startswith(prefix)]:
            self.drop(path)

    def close(self) -> None:
        while self._files:
            with contextlib.suppress(OSError):
                self._files.popitem()[1].close()
