"""The file system fills up under load, a real one: the daemon stops with a clear line, and goes on when there is room.

Everything that was acknowledged before is there afterwards. Needs root, to mount a small file system from a file.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.test_sigkill import SETTINGS, Crashes
from tests.crash.test_sigkill import seed as seed  # a fixture
from tests.daemon import Daemon
from tests.support.waiting import PATIENCE_S

ROUNDS = 5
DISK_BYTES = 64 << 20
LEFT_BYTES = (0, 1 << 20)
STEP_BYTES = 64 << 10


def mount(image: Path, directory: Path) -> None:
    """A small ext4 in a file, or where there are no loop devices a small tmpfs; OSError when there is neither."""
    directory.mkdir()
    with image.open("wb") as file:
        file.truncate(DISK_BYTES)
    for command in (
        ["sh", "-c", f"mkfs.ext4 -q -F -m 0 '{image}' && mount -o loop '{image}' '{directory}'"],
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(directory)],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
    raise OSError(done.stderr.strip())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """The directory of a daemon whose data are on a disk of their own."""
    reason = "needs root, to mount a small file system" if os.geteuid() else ""
    if not reason and (shutil.which("mount") is None or shutil.which("mkfs.ext4") is None):
        reason = "needs mount and mkfs.ext4"
    if not reason:
        try:
            mount(tmp_path / "disk.img", tmp_path / "data")
        except OSError as error:
            reason = f"cannot mount a small file system: {error}"
    if reason:
        assert not os.environ.get("CI"), reason
        pytest.skip(reason)
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path / "data")], check=True)


class Fillings(Crashes):
    """The daemon does not get killed, its disk gets full."""

    @property
    def filler(self) -> Path:
        return self.daemon.data_dir / "somebody-elses-file"

    def fill(self, left_bytes: int) -> None:
        """Take all of the room but so much."""
        with self.filler.open("ab") as file:
            while True:
                state = os.statvfs(self.daemon.data_dir)
                room = state.f_bavail * state.f_frsize - left_bytes
                if room <= 0:
                    break
                file.write(bytes(min(room, STEP_BYTES)))
                try:
                    file.flush()
                except OSError:  # it takes room itself
                    break

    async def fill_up(self) -> int:
        """Until the daemon stops by itself; its exit code. It is up again on return, and has been looked at."""
        process = self.daemon.process
        assert process is not None
        self.fill(self.chance.randint(*LEFT_BYTES))
        deadline_s = time.monotonic() + PATIENCE_S
        while process.poll() is None:
            assert time.monotonic() < deadline_s, "the disk is full and the daemon goes on"
            for task in self.tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(0.01)
        self.gate.close()
        self.daemon.process = None
        await self.until(lambda: self.gate.waiting == len(self.clients), lambda: "the clients to notice")
        self.filler.unlink()
        self.start_seconds.append(await asyncio.to_thread(self.daemon.start))
        await self.verify(self.real_acknowledged())
        return process.returncode


async def survive(daemon: Daemon, seed: int) -> str:
    fillings = Fillings(daemon, seed, real=False)
    await fillings.create_topics()
    try:
        fillings.begin()
        for _ in range(ROUNDS):
            await fillings.work_until_all_go_on()
            assert await fillings.fill_up() == 1
        await fillings.work_until_all_go_on()
        await fillings.end()
    finally:
        for task in fillings.tasks:
            task.cancel()
    # What waited for the log when it failed was told so.
    assert fillings.commits.refusals["COORDINATOR_NOT_AVAILABLE"] > 0, fillings.commits.refusals
    return f"{fillings.summary(0)}\ncommits refused: {dict(fillings.commits.refusals)}"


@pytest.mark.full
@pytest.mark.timeout(900)
def test_what_was_acknowledged_survives_a_full_disk(small_disk: Path, seed: int) -> None:
    daemon = Daemon(small_disk, SETTINGS)
    daemon.start()
    try:
        summary = asyncio.run(survive(daemon, seed))
        assert daemon.stop() == 0
    finally:
        if daemon.process is not None:
            with contextlib.suppress(ProcessLookupError):
                daemon.kill()
    said = [str(event.get("error")) for event in daemon.events(level="error")]
    assert len([line for line in said if "No space left on device" in line]) >= ROUNDS
    stops = daemon.events("the log failed; stopping")
    assert len(stops) == ROUNDS
    assert all("No space left on device" in str(event["error"]) for event in stops)
    print(summary)
