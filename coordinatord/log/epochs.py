"""Leader epochs of a partition: (epoch, its first offset), rising. One, (0, 0), unless a Kafka broker has led the
partition before us: then the last of its epochs goes on here, and consumers may ask where an earlier one ended
(KIP-320). `<partition>/leader-epoch-checkpoint` has them: version, count, then `epoch first-offset` a line.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from operator import itemgetter

from coordinatord.log.disk import Disk, read_text, replace_text
from coordinatord.log.errors import LogDamaged

FILE = "leader-epoch-checkpoint"

LeaderEpochs = tuple[tuple[int, int], ...]

FIRST: LeaderEpochs = ((0, 0),)

_epoch = itemgetter(0)


def read(disk: Disk, directory: str) -> LeaderEpochs:
    """Those of the partition in `directory`; the file is only ever replaced whole, so a malformed one is damage."""
    path = os.path.join(directory, FILE)
    lines = (read_text(disk, path) or "0\n0").splitlines()
    try:
        if int(lines[0]) != 0:
            raise ValueError(f"version {lines[0]} is not known")
        pairs = [line.split(" ") for line in lines[2:]]
        return tuple(sorted((int(epoch), int(offset)) for epoch, offset in pairs)) or FIRST
    except (ValueError, IndexError) as error:
        raise LogDamaged(path, 0, f"not a leader epoch checkpoint: {error}") from None


def text(epochs: LeaderEpochs) -> str:
    """What the file holds."""
    return f"0\n{len(epochs)}\n" + "".join(f"{epoch} {offset}\n" for epoch, offset in epochs)


def write(disk: Disk, directory: str, epochs: LeaderEpochs = FIRST) -> None:
    """Replace the file."""
    replace_text(disk, os.path.join(directory, FILE), text(epochs))


def end_of(epochs: LeaderEpochs, epoch: int, end_offset: int) -> tuple[int, int] | None:
    """(the last epoch up to `epoch`, where it ended) in a log that ends at `end_offset`, as Kafka's
    LeaderEpochFileCache.endOffsetFor has it; None for an epoch that has not been.
    """
    if epoch == epochs[-1][0]:
        return epoch, end_offset
    later = bisect_right(epochs, epoch, key=_epoch)
    if epoch < 0 or later == len(epochs):
        return None
    return epochs[later - 1][0] if later else epoch, epochs[later][1]
