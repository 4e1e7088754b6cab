"""Who keeps whom out of a data directory: on this system, and on macOS as it is described.

macOS and the BSDs keep flock's locks and POSIX record locks in one list for each file, so that they exclude each other;
the owner of a flock is the open file, that of a record lock the process. Linux keeps them apart.
"""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from coordinatord.broker.log import disk, locks
from coordinatord.broker.log.checkpoint import LOCK
from coordinatord.broker.log.disk import OsDisk
from coordinatord.server.exchange import files

US, KAFKA = 1, 2


class MacOs:
    """The locks of a macOS kernel, by inode: who holds it, and whether he shares it. Closing is told by `closed`."""

    LOCK_SH, LOCK_EX, LOCK_NB, LOCK_UN = fcntl.LOCK_SH, fcntl.LOCK_EX, fcntl.LOCK_NB, fcntl.LOCK_UN

    def __init__(self) -> None:
        self.held: dict[int, dict[tuple[str, int], bool]] = {}

    def flock(self, fd: int, operation: int) -> None:
        """The descriptor stands for the open file: nobody duplicates one here."""
        self._take(fd, ("open file", fd), operation)

    def lockf(self, fd: int, operation: int, process: int = US) -> None:
        self._take(fd, ("process", process), operation)

    def _take(self, fd: int, owner: tuple[str, int], operation: int) -> None:
        assert operation & self.LOCK_NB, "it would wait"
        holders = self.held.setdefault(os.fstat(fd).st_ino, {})
        is_shared = bool(operation & self.LOCK_SH)
        if any(not (is_shared and shared) for holder, shared in holders.items() if holder != owner):
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        holders[owner] = is_shared

    def closed(self, fd: int) -> None:
        holders = self.held.get(os.fstat(fd).st_ino, {})
        holders.pop(("open file", fd), None)
        holders.pop(("process", US), None)


@pytest.fixture
def macos(monkeypatch: pytest.MonkeyPatch) -> MacOs:
    kernel = MacOs()
    close = os.close

    def closing(fd: int) -> None:
        kernel.closed(fd)
        close(fd)

    monkeypatch.setattr(os, "close", closing)
    for module in (locks, disk, files):
        if hasattr(module, "fcntl"):
            monkeypatch.setattr(module, "fcntl", kernel)
    monkeypatch.setattr(locks, "sys", SimpleNamespace(platform="darwin"))
    return kernel


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / LOCK).touch()
    return str(tmp_path / LOCK)


def test_on_macos_a_directory_can_be_taken_once(macos: MacOs, path: str) -> None:
    held = OsDisk().lock(path, "17")
    assert Path(path).read_text() == "17"
    with pytest.raises(BlockingIOError) as refused:
        OsDisk().lock(path, "18")
    assert refused.value.filename == path
    assert Path(path).read_text() == "17"
    held.release()
    OsDisk().lock(path, "18").release()


def test_on_macos_a_broker_and_we_keep_each_other_out(macos: MacOs, path: str) -> None:
    broker = os.open(path, os.O_RDWR)
    held = OsDisk().lock(path, "17")
    with pytest.raises(BlockingIOError):
        macos.lockf(broker, fcntl.LOCK_EX | fcntl.LOCK_NB, KAFKA)
    held.release()
    macos.lockf(broker, fcntl.LOCK_EX | fcntl.LOCK_NB, KAFKA)
    with pytest.raises(BlockingIOError):
        OsDisk().lock(path, "17")


def test_on_macos_a_directory_that_nobody_uses_can_be_exported(macos: MacOs, path: str) -> None:
    directory = Path(path).parent
    with files.unused(directory), files.unused(directory), pytest.raises(BlockingIOError):
        OsDisk().lock(path, "17")
    held = OsDisk().lock(path, "17")
    with pytest.raises(files.ExchangeError, match="in use"), files.unused(directory):
        pass
    held.release()


def test_here_readers_share_and_an_owner_does_not(path: str) -> None:
    directory = Path(path).parent
    with files.unused(directory), files.unused(directory), pytest.raises(BlockingIOError):
        OsDisk().lock(path, "17")
    held = OsDisk().lock(path, "17")
    with pytest.raises(files.ExchangeError, match="in use"), files.unused(directory):
        pass
    held.release()
    OsDisk().lock(path, "18").release()


def test_here_a_lock_of_a_broker_keeps_us_out(path: str) -> None:
    """A POSIX record lock of another process, as FileChannel.tryLock takes it."""
    program = (
        "import fcntl, sys\n"
        "file = open(sys.argv[1], 'r+')\n"
        "fcntl.lockf(file, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\ninput()\n"
    )
    broker = subprocess.Popen(
        [sys.executable, "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert broker.stdout is not None
    assert broker.stdout.readline() == "held\n"
    with pytest.raises(BlockingIOError):
        OsDisk().lock(path, "17")
    with pytest.raises(files.ExchangeError, match="in use"), files.unused(Path(path).parent):
        pass
    broker.communicate("\n", timeout=30)
    OsDisk().lock(path, "17").release()


def test_a_forked_worker_keeps_the_lock_of_a_supervisor_that_died(path: str) -> None:
    """Until it has drained: a daemon that starts meanwhile would write to the same files."""
    program = (
        "import os, sys\n"
        "from coordinatord.broker.log.disk import OsDisk\n"
        "lock = OsDisk().lock(sys.argv[1], 'supervisor')\n"
        "if os.fork():\n    os._exit(0)\n"
        "print('held', flush=True)\ninput()\n"
    )
    worker = subprocess.Popen(
        [sys.executable, "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert worker.wait(30) == 0
    assert worker.stdout is not None
    assert worker.stdin is not None
    assert worker.stdout.readline() == "held\n"
    with pytest.raises(BlockingIOError):
        OsDisk().lock(path, "17")
    worker.stdin.write("\n")
    worker.stdin.close()
    assert worker.stdout.read() == ""  # it has ended
    OsDisk().lock(path, "17").release()


def test_a_kernel_without_such_locks_gets_the_other_kind(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_fd: int, _command: int, _argument: bytes) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    held = OsDisk().lock(path, "17")
    with pytest.raises(BlockingIOError):
        OsDisk().lock(path, "18")
    held.release()
    OsDisk().lock(path, "18").release()
