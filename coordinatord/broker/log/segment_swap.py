"""Replacement of old segments with a rewritten one, in steps; a crash may follow any of them.

| step | on disk | readers use |
|---|---|---|
| 1 written aside, flushed | `A.log.….cleaned` beside `A.log`, `B.log`, … | the old ones |
| 2 `commit`: renamed, indexes first, directory flushed | `A.log.swap` beside the old ones | the old ones |
| 3 the log's list of segments changes | | the new one, under its `.swap` name |
| 4 `set_aside`: renamed to `….deleted`, directory flushed | `A.log.swap` alone | |
| 5 `finish`: renamed, the log last | `A.log` | the new one |

The event loop's thread does steps 3 and 5, and also all reading: a read never happens during a half-done swap. A crash
before the end of step 2 leaves the old segments, a later one the new segment: `recover`, called before a directory is
read, removes unfinished files and completes a committed swap. The offsets in the new file determine which old segments
it replaces, those that begin within its offsets, because cleaning keeps the last batch of the segments that it
replaces.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from coordinatord.broker.log import names as file_names
from coordinatord.broker.log.disk import Disk
from coordinatord.broker.log.scan import scan
from coordinatord.broker.log.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_name,
)

if TYPE_CHECKING:
    from coordinatord.broker.log.cleaning import Cleaned

#: Order in which a segment's files are renamed: once the last one is renamed, the segment exists.
_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, LOG_SUFFIX)


def _present(cleaned: Cleaned) -> list[str]:
    return [suffix for suffix in _SUFFIXES if suffix != TRANSACTION_INDEX_SUFFIX or cleaned.aborted]


def commit(disk: Disk, directory: str, cleaned: Cleaned, tag: str) -> None:
    """Do step 2: from now on the new segment replaces the old ones after a crash. Its files must be flushed."""
    from coordinatord.broker.log.cleaning import cleaned_path  # imported already, by the caller that created `cleaned`

    base_offset = cleaned.base_offset
    for suffix in _present(cleaned):
        path = f"{directory}/{segment_name(base_offset)}{suffix}{SWAP_SUFFIX}"
        disk.rename(cleaned_path(directory, base_offset, suffix, tag), path)
    disk.sync_dir(directory)


def set_aside(disk: Disk, directory: str, base_offset: int) -> list[str]:
    """Do step 4 for one old segment: rename its files. Return the paths to unlink later."""
    renamed = []
    for suffix in _SUFFIXES:
        path = f"{directory}/{segment_name(base_offset)}{suffix}"
        with contextlib.suppress(FileNotFoundError):
            disk.rename(path, path + DELETED_SUFFIX)
            renamed.append(path + DELETED_SUFFIX)
    return renamed


def finish(disk: Disk, directory: str, cleaned: Cleaned) -> None:
    """Do step 5. No flush is needed: `recover` would repeat the step."""
    for suffix in _present(cleaned):
        path = f"{directory}/{segment_name(cleaned.base_offset)}{suffix}"
        disk.rename(path + SWAP_SUFFIX, path)


def discard(disk: Disk, directory: str) -> None:
    """Remove the files of an earlier cleaning that did not reach step 3."""
    for name in disk.listdir(directory):
        if file_names.is_aside(name) and name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX)):
            with contextlib.suppress(FileNotFoundError):
                _unlink(disk, f"{directory}/{name}")


def recover(disk: Disk, directory: str) -> None:
    """Complete or undo an interrupted swap in a directory. Raises LogDamaged, with nothing removed, if a committed
    segment is invalid.
    """
    names = disk.listdir(directory)
    aside = [name for name in names if file_names.is_aside(name)]
    swaps = [name for name in aside if name.endswith(SWAP_SUFFIX)]
    committed = sorted(_base(name) for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX))
    ends = {base_offset: _end(disk, directory, base_offset) for base_offset in committed}
    for name in aside:
        unfinished = name.endswith(SWAP_SUFFIX) and _base(name) not in ends
        if unfinished or name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX)):
            _unlink(disk, f"{directory}/{name}")
    for base_offset, end in ends.items():
        for name in sorted(names):
            base = file_names.segment_base(name)
            if base is None or not base_offset <= base < end:
                continue
            # Its own indexes may have their final names already; the log itself is renamed last, over the old one.
            if base > base_offset or os.path.splitext(name)[1] == TRANSACTION_INDEX_SUFFIX:
                _unlink(disk, f"{directory}/{name}")
        disk.sync_dir(directory)
        for suffix in _SUFFIXES:
            path = f"{directory}/{segment_name(base_offset)}{suffix}"
            if f"{segment_name(base_offset)}{suffix}{SWAP_SUFFIX}" in swaps:
                disk.rename(path + SWAP_SUFFIX, path)
    if ends:
        disk.sync_dir(directory)


def _unlink(disk: Disk, path: str) -> None:
    """Remove one of our files. An entry that is not a file is foreign: coordinatord creates no directories or links
    there.
    """
    if disk.kind(path) == "file":
        disk.unlink(path)


def _base(name: str) -> int:
    """Return the base offset at the beginning of a temporary file's name."""
    return int(name.split(".", 1)[0])


def _end(disk: Disk, directory: str, base_offset: int) -> int:
    """Return the offset after a committed segment's last batch. Checks every byte of the segment before anything is
    removed.
    """
    path = f"{directory}/{segment_name(base_offset)}{LOG_SUFFIX}{SWAP_SUFFIX}"
    file = disk.open(path)
    try:
        end = base_offset + 1
        for batch in scan(file, path, 0, file.size()):
            end = batch.header.next_offset
        return end
    finally:
        file.close()
