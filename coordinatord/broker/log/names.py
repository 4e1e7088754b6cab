"""Exact names of our files and directories: entries with other names are foreign.

A data directory has `TOPIC-N` for each partition, with segments (`<20 digits>.log` and their indexes), snapshots of
producers, and the small files of checkpoint.py and leader_epoch_cache.py. Kafka's broker writes the same names;
temporary files have one more suffix.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from coordinatord.broker.log import checkpoint, leader_epoch_cache
from coordinatord.broker.log.config import LONG_MAX
from coordinatord.broker.log.segment import CLEANED_SUFFIX, DELETED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX

METADATA_TOPIC = "__cluster_metadata"
"""Name of the log of Kafka's controllers, which brokers do not treat as a topic; here, the log of ACLs, quotas and so
on.
"""

METADATA_TOPIC_ID = b"coordinatord-md1"
"""Topic id of the metadata log. Not Kafka's Uuid.METADATA_TOPIC_ID, so that a copied log of Kafka's controllers is not
taken for ours.
"""

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
TEMPORARY_SUFFIX = ".tmp"

_MAX_NAME = 255
"""Longest file name in bytes."""

_PARTITION = re.compile(r"([A-Za-z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})")
_DELETED = re.compile(rf".+\.([0-9a-f]{{32}})(?:\.[0-9]+)?{DELETE_SUFFIX}", re.DOTALL)
_SEGMENT = re.compile(r"([0-9]{20})\.(?:log|index|timeindex|txnindex)")
_ASIDE = re.compile(r"[0-9]{20}\.(?:log|index|timeindex|txnindex|snapshot)(?:\.[^.]+)?\.(?:cleaned|swap|deleted)")
#: `.removed` are the side files of a repair
_OF_A_PARTITION = re.compile(r"[0-9]{20}\.(?:log|index|timeindex|txnindex|snapshot)(?:\.[0-9]+(?:\..+)?\.removed)?")
_SMALL = (checkpoint.PARTITION_METADATA, leader_epoch_cache.FILE)

assert all(suffix in _ASIDE.pattern for suffix in (each[1:] for each in (CLEANED_SUFFIX, SWAP_SUFFIX, DELETED_SUFFIX)))


def partition_of(name: str) -> tuple[str, int] | None:
    """Return topic and partition of a directory's name; None if the name is not exactly that of a partition."""
    matched = _PARTITION.fullmatch(name)
    if matched is None or matched[1] in (".", "..") or int(matched[2]) > 0x7FFF_FFFF:
        return None
    return matched[1], int(matched[2])


def aside(topic: str, partition: int, unique: str, suffix: str) -> str:
    """Return the new name of a partition's directory, as in Kafka: `TOPIC-N.UNIQUE-SUFFIX`. A long
    topic name is cut.
    """
    ending = f"-{partition}.{unique}{suffix}"
    return topic[: _MAX_NAME - len(ending)] + ending


def deleted_topic(name: str) -> bytes | None:
    """Return the topic id in the name of a directory whose removal had begun; None for other names."""
    matched = _DELETED.fullmatch(name)
    return bytes.fromhex(matched[1]) if matched else None


def segment_base(name: str) -> int | None:
    """Return the base offset of the segment that a file belongs to; None if the file belongs to none, for example if
    its number is greater than any offset.
    """
    matched = _SEGMENT.fullmatch(name)
    return int(matched[1]) if matched and int(matched[1]) <= LONG_MAX else None


def segment_bases(names: Iterable[str]) -> list[int]:
    """Return the base offsets of the segments among a partition's files, ascending."""
    bases = (segment_base(name) for name in names if name.endswith(LOG_SUFFIX))
    return sorted(base for base in bases if base is not None)


def is_aside(name: str) -> bool:
    """Return whether a name is that of a segment's file that was being written, swapped in, or removed."""
    return _ASIDE.fullmatch(name) is not None


def is_of_a_partition(name: str) -> bool:
    """Return whether coordinatord or Kafka's broker writes files of this name into a partition's directory."""
    if name.removesuffix(TEMPORARY_SUFFIX) in _SMALL:
        return True
    return _OF_A_PARTITION.fullmatch(name) is not None or is_aside(name)
