"""Leader epochs of a partition: (epoch, its first offset), ascending. There is only (0, 0), unless a Kafka broker has
led the partition before: then its last epoch continues, and consumers may ask where an earlier one ended (KIP-320).
They are stored in `<partition>/leader-epoch-checkpoint`: version, count, then one line `epoch first-offset` each.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from operator import itemgetter

from coordinatord.log.config import LONG_MAX
from coordinatord.log.disk import Disk, read_text, replace_text
from coordinatord.log.errors import LogDamaged

FILE = "leader-epoch-checkpoint"

MAX_EPOCH = (1 << 31) - 1

LeaderEpochs = tuple[tuple[int, int], ...]

FIRST: LeaderEpochs = ((0, 0),)

_epoch = itemgetter(0)


def read(disk: Disk, directory: str) -> LeaderEpochs:
    """The epochs of the partition in `directory`. A malformed file is damage, because it is only replaced whole."""
    path = os.path.join(directory, FILE)
    return parsed(read_text(disk, path) or "0\n0", path)


def parsed(content: str, path: str) -> LeaderEpochs:
    """What the file at `path` says. LogDamaged if it is malformed."""
    lines = content.splitlines()
    try:
        if int(lines[0]) != 0:
            raise ValueError(f"version {lines[0]} is not known")
        pairs = [line.split(" ") for line in lines[2:]]
        found = tuple(sorted((int(epoch), int(offset)) for epoch, offset in pairs)) or FIRST
        if any(not (0 <= epoch <= MAX_EPOCH and 0 <= offset <= LONG_MAX) for epoch, offset in found):
            raise ValueError("an epoch or an offset is out of range")
        return found
    except (ValueError, IndexError) as error:
        raise LogDamaged(path, 0, f"not a leader epoch checkpoint: {error}") from None


def text(epochs: LeaderEpochs) -> str:
    """What the file holds."""
    return f"0\n{len(epochs)}\n" + "".join(f"{epoch} {offset}\n" for epoch, offset in epochs)


def write(disk: Disk, directory: str, epochs: LeaderEpochs = FIRST, *, is_named: bool = True) -> None:
    """Replace the file. Without `is_named` the caller flushes the directory."""
    replace_text(disk, os.path.join(directory, FILE), text(epochs), is_named=is_named)


def end_of(epochs: LeaderEpochs, epoch: int, end_offset: int) -> tuple[int, int] | None:
    """(the last epoch up to `epoch`, its end offset) in a log that ends at `end_offset`, as in Kafka's
    LeaderEpochFileCache.endOffsetFor; None for an unknown epoch.
    """
    if epoch == epochs[-1][0]:
        return epoch, end_offset
    later = bisect_right(epochs, epoch, key=_epoch)
    if epoch < 0 or later == len(epochs):
        return None
    return epochs[later - 1][0] if later else epoch, epochs[later][1]
