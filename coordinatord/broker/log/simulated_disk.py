"""A disk in memory that crashes. For tests of the real log, and for a server on a virtual clock.

It guarantees only what the operating system guarantees. A written byte is *seen* at once and *durable* after a datasync
of its file. A created, renamed or removed name is seen at once and durable after sync_dir of its directory. For every
change that is seen and not durable, `crash("power")` decides at random: each write since the last datasync is kept,
dropped, or torn at any byte, independently of the others, and each directory keeps a random prefix of its latest
changes. `crash("kill")` keeps everything seen: the kernel survives a killed process. With `crash_after` set, the
operation after that many stops halfway and raises SimulatedCrash, as do all later ones.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from typing import Literal

from coordinatord.broker.log.disk import File, Kind, Lock

CrashKind = Literal["power", "kill"]


class SimulatedCrash(BaseException):
    """Raised by each operation after the simulated crash. Not an Exception, so that no handler catches it and
    continues.
    """


class _Inode:
    """A file's seen bytes, its durable bytes, and the changes between them."""

    __slots__ = ("changes", "durable", "modified_ms", "seen")

    def __init__(self) -> None:
        self.seen = bytearray()
        self.durable = b""
        self.changes: list[tuple[int, bytes] | int] = []  # (position, data) or a size to truncate to
        self.modified_ms = 0

    def write(self, data: bytes, position: int) -> None:
        _put(self.seen, data, position)
        self.changes.append((position, data))

    def truncate(self, size: int) -> None:
        _resize(self.seen, size)
        self.changes.append(size)

    def after_power_loss(self, chance: random.Random) -> bytes:
        content = bytearray(self.durable)
        for change in self.changes:
            fate = chance.random()
            if fate < 0.4:
                continue
            if isinstance(change, int):
                _resize(content, change)
                continue
            position, data = change
            if fate < 0.7 and data:
                cut = chance.randrange(len(data))
                if chance.random() < 0.3:  # the end reached the disk, the beginning did not
                    position, data = position + cut, data[cut:]
                else:
                    data = data[:cut]
            _put(content, data, position)
        return bytes(content)


class _Directory:
    """The seen names, the durable names, and the states between them."""

    __slots__ = ("durable", "history", "names")

    def __init__(self) -> None:
        self.names: dict[str, _Inode | _Directory] = {}
        self.durable: dict[str, _Inode | _Directory] = {}
        self.history: list[dict[str, _Inode | _Directory]] = []

    def changed(self) -> None:
        self.history.append(dict(self.names))

    def sync(self) -> None:
        self.durable = dict(self.names)
        self.history.clear()


def _put(content: bytearray, data: bytes, position: int) -> None:
    if position > len(content):
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _resize(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


class SimulatedDisk:
    """A disk in memory; see the module's docstring. `capacity` is in bytes of file content; a write beyond it is cut
    short by ENOSPC.
    """

    def __init__(self, seed: int = 0, *, capacity: int | None = None) -> None:
        self.chance = random.Random(seed)
        self.capacity = capacity
        #: number of operations so far that changed something
        self.operations = 0
        #: number of operations after which the next one crashes; None for never
        self.crash_after: int | None = None
        #: datasyncs that still succeed before one raises EIO; None for all
        self.datasyncs_left: int | None = None
        self.crashed = False
        self.datasyncs = 0
        self._root = _Directory()
        self._locked: set[str] = set()

    # --- operations of the test ---------------------------------------------------------------------------------------

    def crash(self, kind: CrashKind = "power") -> None:
        """Restart the machine: from now on, the surviving state is the seen one."""
        if kind == "power":
            self._lose(self._root)
        self.crashed = False
        self.crash_after = None
        self.datasyncs_left = None
        self._locked.clear()

    def content(self, path: str) -> bytearray:
        """Return a file's seen bytes; change them to damage the file."""
        node = self._find(path)
        assert isinstance(node, _Inode)
        return node.seen

    def damage(self, path: str, position: int, value: int | None = None) -> None:
        """Change one byte, durably."""
        content = self.content(path)
        content[position] = content[position] ^ 0xFF if value is None else value
        node = self._find(path)
        assert isinstance(node, _Inode)
        node.durable, node.changes = bytes(content), []

    def used(self) -> int:
        return _bytes_in(self._root)

    def _lose(self, directory: _Directory) -> None:
        states = [directory.durable, *directory.history]
        directory.names = dict(states[self.chance.randrange(len(states))])
        directory.sync()
        for node in directory.names.values():
            if isinstance(node, _Directory):
                self._lose(node)
            else:
                content = node.after_power_loss(self.chance)
                node.seen, node.durable, node.changes = bytearray(content), content, []

    def _step(self, halfway: Callable[[], None] | None = None) -> None:
        """Count an operation. If it is the one to crash in, run `halfway` and crash."""
        if self.crashed:
            raise SimulatedCrash
        if self.crash_after is not None and self.operations >= self.crash_after:
            self.crashed = True
            if halfway:
                halfway()
            raise SimulatedCrash
        self.operations += 1

    def _find(self, path: str) -> _Inode | _Directory | None:
        node: _Inode | _Directory = self._root
        for part in _parts(path):
            if not isinstance(node, _Directory) or part not in node.names:
                return None
            node = node.names[part]
        return node

    def _directory(self, path: str) -> _Directory:
        node = self._find(path)
        if not isinstance(node, _Directory):
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        return node

    def _parent(self, path: str) -> tuple[_Directory, str]:
        *parts, name = _parts(path)
        return self._directory("/".join(parts)), name

    # --- Disk ---------------------------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> File:
        if self.crashed:
            raise SimulatedCrash
        node = self._find(path)
        if node is None and create:
            parent, name = self._parent(path)
            self._step()
            node = parent.names[name] = _Inode()
            parent.changed()
        if not isinstance(node, _Inode):
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return _SimulatedFile(self, node)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_dir(self, path: str) -> bool:
        return isinstance(self._find(path), _Directory)

    def kind(self, path: str) -> Kind | None:
        node = self._find(path)
        return None if node is None else "directory" if isinstance(node, _Directory) else "file"

    def listdir(self, path: str) -> list[str]:
        return list(self._directory(path).names)

    def makedirs(self, path: str) -> None:
        node = self._root
        for part in _parts(path):
            if part not in node.names:
                self._step()
                node.names[part] = _Directory()
                node.changed()
            child = node.names[part]
            if not isinstance(child, _Directory):
                raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
            node = child

    def mkdir(self, path: str) -> None:
        parent, name = self._parent(path)
        if name in parent.names:
            raise FileExistsError(errno.EEXIST, "is there", path)
        self._step()
        parent.names[name] = _Directory()
        parent.changed()

    def rename(self, source: str, target: str) -> None:
        self._step()
        parent, name = self._parent(source)
        target_parent, target_name = self._parent(target)
        if name not in parent.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        target_parent.names[target_name] = parent.names.pop(name)
        parent.changed()
        if target_parent is not parent:
            target_parent.changed()

    def unlink(self, path: str) -> None:
        self._step()
        parent, name = self._parent(path)
        if name not in parent.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        del parent.names[name]
        parent.changed()

    def rmdir(self, path: str) -> None:
        self._step()
        if self._directory(path).names:
            raise OSError(errno.ENOTEMPTY, "not empty", path)
        parent, name = self._parent(path)
        del parent.names[name]
        parent.changed()

    def sync_dir(self, path: str) -> None:
        self._step()
        self._directory(path).sync()

    def modified_ms(self, path: str) -> int:
        return self._file(path).modified_ms

    def set_modified(self, path: str, modified_ms: int) -> None:
        """Set a file's modification time. The simulated disk has no clock; the default is 0."""
        self._file(path).modified_ms = modified_ms

    def space(self, path: str) -> tuple[int, int]:
        """Return (total, free) bytes. A disk without a capacity reports no free bytes."""
        self._directory(path)
        total = self.used() if self.capacity is None else self.capacity
        return total, total - self.used()

    def _file(self, path: str) -> _Inode:
        node = self._find(path)
        if not isinstance(node, _Inode):
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return node

    def lock(self, path: str, owner: str) -> Lock:
        if path in self._locked:
            raise BlockingIOError(errno.EAGAIN, "is locked", path)
        self.open(path, create=True)
        self.content(path)[:] = owner.encode()
        self._locked.add(path)
        return _SimulatedLock(self, path)

    def unlock(self, path: str) -> None:
        self._locked.discard(path)

    # --- files --------------------------------------------------------------------------------------------------------

    def write(self, inode: _Inode, data: bytes, position: int) -> None:
        cut = self.chance.randrange(len(data)) if data else 0
        self._step(lambda: inode.write(data[:cut], position))
        if self.capacity is not None:
            room = self.capacity - self.used() + max(len(inode.seen) - position, 0)
            if len(data) > room:
                inode.write(data[: max(room, 0)], position)
                raise OSError(errno.ENOSPC, "no space left on device")
        inode.write(data, position)

    def truncate(self, inode: _Inode, size: int) -> None:
        self._step()
        inode.truncate(size)

    def datasync(self, inode: _Inode) -> None:
        self._step()
        self.datasyncs += 1
        if self.datasyncs_left is not None:
            if self.datasyncs_left <= 0:
                raise OSError(errno.EIO, "input/output error")
            self.datasyncs_left -= 1
        inode.durable, inode.changes = bytes(inode.seen), []


class _SimulatedFile:
    def __init__(self, disk: SimulatedDisk, inode: _Inode) -> None:
        self._disk = disk
        self._inode = inode

    def pread(self, size: int, position: int) -> bytes:
        if self._disk.crashed:
            raise SimulatedCrash
        return bytes(self._inode.seen[position : position + size])

    def pwrite(self, data: bytes | bytearray | memoryview, position: int) -> None:
        self._disk.write(self._inode, bytes(data), position)

    def size(self) -> int:
        return len(self._inode.seen)

    def truncate(self, size: int) -> None:
        self._disk.truncate(self._inode, size)

    def datasync(self) -> None:
        self._disk.datasync(self._inode)

    def close(self) -> None:
        pass


class _SimulatedLock:
    def __init__(self, disk: SimulatedDisk, path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        self._disk.unlock(self._path)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _bytes_in(directory: _Directory) -> int:
    return sum(_bytes_in(node) if isinstance(node, _Directory) else len(node.seen) for node in directory.names.values())
