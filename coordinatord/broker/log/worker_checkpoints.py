"""Division of one data directory among several processes, each of which writes its own partitions and checkpoints.

The supervisor opens the directory as a single process does, which recovers all of it. Then it divides the checkpoints:
each worker gets the part about its own partitions, and the common checkpoints are removed. A worker that deletes a
partition removes the partition from its own part, and no older entry is left. From then on each process writes its own
partitions, journals under its own name, and its own checkpoints; `DataDirectory.open_share` opens exactly these. When
all workers have closed their logs, `put_together` restores the common checkpoints.

A crash at any moment leaves the workers' checkpoints, the common ones, or both, which then agree. Every start reads all
of them and takes the highest value.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from coordinatord.broker.log import checkpoint
from coordinatord.broker.log.checkpoint import TopicPartition
from coordinatord.broker.log.disk import Disk, replace_text
from coordinatord.broker.log.journal import journal_names

CHECKPOINTS = (checkpoint.RECOVERY_POINT, checkpoint.LOG_START, checkpoint.CLEANER)
"""Checkpoints of offsets by partition that are divided among the workers."""

_SHARE = re.compile(rf"({'|'.join(map(re.escape, CHECKPOINTS))})\.worker-[0-9]+")


@dataclass(frozen=True, slots=True)
class WorkerShare:
    """One worker's part of the directory. `is_recovered`: nothing was written since the checkpoints were divided."""

    worker: int
    owns: Callable[[str, int], bool]
    is_recovered: bool


def checkpoint_name(name: str, worker: int) -> str:
    """Return the file name of a worker's part of a checkpoint."""
    return f"{name}.worker-{worker}"


def is_checkpoint(name: str) -> bool:
    """Return whether a file is some worker's part of a checkpoint."""
    return _SHARE.fullmatch(name) is not None


def read_checkpoint(
    disk: Disk, path: str, names: Iterable[str], name: str, worker: int | None
) -> dict[TopicPartition, int]:
    """Return the entries of a worker's part of a checkpoint; if `worker` is None, all entries from all files."""
    if worker is not None:
        return checkpoint.read_offsets(disk, f"{path}/{checkpoint_name(name, worker)}")
    offsets = checkpoint.read_offsets(disk, f"{path}/{name}")
    for part in names:
        if is_checkpoint(part) and part.startswith(f"{name}."):
            for key, offset in checkpoint.read_offsets(disk, f"{path}/{part}").items():
                offsets[key] = max(offset, offsets.get(key, 0))
    return offsets


def hand_out(disk: Disk, path: str, workers: int, worker_of: Callable[[str, int], int]) -> None:
    """Write each worker's part of the checkpoints of a directory that was just opened, durably."""
    names = disk.listdir(path)
    for name in CHECKPOINTS:
        offsets = read_checkpoint(disk, path, names, name, None)
        for worker in range(workers):
            part = {key: offset for key, offset in offsets.items() if worker_of(*key) == worker}
            checkpoint.write_offsets(disk, f"{path}/{checkpoint_name(name, worker)}", part)
    _unlink(disk, path, CHECKPOINTS)


def put_together(disk: Disk, path: str) -> bool:
    """Restore the state that a single process leaves; all logs must be closed. Return False if a journal shows that one
    is not closed.
    """
    names = disk.listdir(path)
    if journal_names(names):
        return False
    for name in CHECKPOINTS:
        offsets = read_checkpoint(disk, path, names, name, None)
        if offsets or name == checkpoint.RECOVERY_POINT:
            checkpoint.write_offsets(disk, f"{path}/{name}", offsets)
    _unlink(disk, path, [name for name in names if is_checkpoint(name)])
    replace_text(disk, f"{path}/{checkpoint.CLEAN_SHUTDOWN}", checkpoint.CLEAN_SHUTDOWN_TEXT)
    return True


def _unlink(disk: Disk, path: str, names: Sequence[str]) -> None:
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            disk.unlink(f"{path}/{name}")
    disk.sync_dir(path)
