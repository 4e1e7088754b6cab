"""Leader epochs of a partition: (epoch, offset of its first record), both ascending (KIP-101, KIP-320).

A client sends the leader epoch of the last record that it has read, to request where that leader epoch ended. If the
response is below the client's position, the log has lost records and has new ones in their place. So one leader epoch
must not have two different records at an offset: whenever records may have been lost, the next leader epoch begins
(DataDirectory, broker/log/repair.py).

They are stored in `<partition>/leader-epoch-checkpoint`, in Kafka's format: version, count, then one line
`epoch first-offset` each. The functions follow Kafka's LeaderEpochFileCache.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from operator import itemgetter

from coordinatord.broker.log.checkpoint import MAX_EPOCH as MAX_EPOCH
from coordinatord.broker.log.config import LONG_MAX
from coordinatord.broker.log.disk import Disk, read_text, replace_text
from coordinatord.broker.log.errors import LogDamaged

FILE = "leader-epoch-checkpoint"

LeaderEpochs = tuple[tuple[int, int], ...]

FIRST: LeaderEpochs = ((0, 0),)
"""The leader epochs of a new partition, and of a partition without the file."""

_epoch = itemgetter(0)
_offset = itemgetter(1)


def read(disk: Disk, directory: str) -> LeaderEpochs:
    """Read the leader epochs of the partition in `directory`. A malformed file is damage: it is only replaced whole."""
    path = os.path.join(directory, FILE)
    return parsed(read_text(disk, path) or "0\n0", path)


def parsed(content: str, path: str) -> LeaderEpochs:
    """Return the leader epochs in the content of the file at `path`, never none. LogDamaged if it is malformed."""
    lines = content.splitlines()
    try:
        if int(lines[0]) != 0:
            raise ValueError(f"version {lines[0]} is not known")
        pairs = [line.split(" ") for line in lines[2:]]
        found: LeaderEpochs = ()
        for epoch, offset in sorted((int(epoch), int(offset)) for epoch, offset in pairs):
            if not (0 <= epoch <= MAX_EPOCH and 0 <= offset <= LONG_MAX):
                raise ValueError("an epoch or an offset is out of range")
            found = assigned(found, epoch, offset)
        return FIRST if found in ((), FIRST) else found  # one object for most partitions
    except (ValueError, IndexError) as error:
        raise LogDamaged(path, 0, f"not a leader epoch checkpoint: {error}") from None


def text(epochs: LeaderEpochs) -> str:
    """Return the content of the file."""
    return f"0\n{len(epochs)}\n" + "".join(f"{epoch} {offset}\n" for epoch, offset in epochs)


def write(disk: Disk, directory: str, epochs: LeaderEpochs = FIRST, *, is_named: bool = True) -> None:
    """Replace the file durably. Without `is_named` the caller flushes the directory."""
    replace_text(disk, os.path.join(directory, FILE), text(epochs), is_named=is_named)


def assigned(epochs: LeaderEpochs, epoch: int, offset: int) -> LeaderEpochs:
    """Return `epochs` with `epoch` from `offset` on, without the entries that contradict that (`assign`)."""
    if epochs and epochs[-1][0] == epoch and epochs[-1][1] <= offset:
        return epochs
    kept = len(epochs)
    while kept and (epochs[kept - 1][0] >= epoch or epochs[kept - 1][1] >= offset):
        kept -= 1
    return (*epochs[:kept], (epoch, offset))


def cut_from(epochs: LeaderEpochs, end_offset: int) -> LeaderEpochs:
    """Return the leader epochs of a log that has lost everything from `end_offset` on (`truncateFromEnd`)."""
    kept = len(epochs)
    while kept and epochs[kept - 1][1] >= end_offset:
        kept -= 1
    return epochs[:kept]


def from_start(epochs: LeaderEpochs, start_offset: int) -> LeaderEpochs:
    """Return the leader epochs of a log that now begins at `start_offset`, as does the first (`truncateFromStart`)."""
    gone = bisect_right(epochs, start_offset, key=_offset)
    if not gone or (gone == 1 and epochs[0][1] == start_offset):
        return epochs
    return ((epochs[gone - 1][0], start_offset), *epochs[gone:])


def end_of(epochs: LeaderEpochs, epoch: int, end_offset: int) -> tuple[int, int] | None:
    """Return (the last leader epoch up to `epoch`, its end offset) in a log that ends at `end_offset`
    (`endOffsetFor`); None for a leader epoch above all.
    """
    if epoch == epochs[-1][0]:
        return epoch, end_offset
    later = bisect_right(epochs, epoch, key=_epoch)
    if epoch < 0 or later == len(epochs):
        return None
    return epochs[later - 1][0] if later else epoch, epochs[later][1]
