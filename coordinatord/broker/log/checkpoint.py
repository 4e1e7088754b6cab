"""The small text files beside the segments, in Kafka's formats: its broker and tools can read them, and vice versa.

- `meta.properties`: the directory's owner (cluster.id, node.id, version=1; unknown keys are kept). The key
  `leader.epoch` is coordinatord's own: every partition is appended to with this leader epoch or a higher one
  (DataDirectory).
- `log-start-offset-checkpoint`, `recovery-point-offset-checkpoint`, `cleaner-offset-checkpoint`: version, count, then
  one line `topic partition offset` each.
- `<partition>/partition.metadata`: version and topic id.
"""

from __future__ import annotations

import base64
import binascii
import os

from coordinatord.broker.log.config import LONG_MAX
from coordinatord.broker.log.disk import Disk, read_text, replace_text
from coordinatord.broker.log.errors import LogDamaged

META_PROPERTIES = "meta.properties"
META_VERSION = 1
LEADER_EPOCH = "leader.epoch"
MAX_EPOCH = (1 << 31) - 1
LOG_START = "log-start-offset-checkpoint"
RECOVERY_POINT = "recovery-point-offset-checkpoint"
CLEANER = "cleaner-offset-checkpoint"
PARTITION_METADATA = "partition.metadata"
#: Name of the file whose existence skips recovery, as in Kafka.
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
CLEAN_SHUTDOWN_TEXT = '{"version":0,"brokerEpoch":-1}'
LOCK = ".lock"
#: Directory that `coordinatord import` fills if it cannot rename one into place (server/exchange/importing.py).
IMPORTING = ".importing"

TopicPartition = tuple[str, int]


def uuid_text(raw: bytes) -> str:
    """Return Kafka's text form of a UUID: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def uuid_bytes(text: str) -> bytes:
    """Return the 16 bytes of Kafka's text form. Raises ValueError if it is invalid."""
    try:
        raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(f"{text!r} is not a UUID: {error}") from None
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a UUID of 16 bytes")
    return raw


def read_properties(disk: Disk, path: str) -> dict[str, str] | None:
    """Read a Java properties file of plain `key=value` lines, as Kafka writes meta.properties.

    Returns None if the file does not exist.
    """
    text = read_text(disk, path)
    if text is None:
        return None
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith(("#", "!")))
    return {key.strip(): value.strip().replace("\\:", ":").replace("\\=", "=") for key, value in pairs}


def write_properties(disk: Disk, path: str, properties: dict[str, str]) -> None:
    replace_text(disk, path, "#\n" + "".join(f"{key}={value}\n" for key, value in sorted(properties.items())))


def leader_epoch_of(disk: Disk, directory: str) -> int:
    """Return the leader epoch of a data directory; 0 until the first unclean stop. LogDamaged if it is not a number."""
    path = f"{directory}/{META_PROPERTIES}"
    text = (read_properties(disk, path) or {}).get(LEADER_EPOCH, "0")
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= MAX_EPOCH):
        raise LogDamaged(path, 0, f"{LEADER_EPOCH} is {text!r}, not a number up to {MAX_EPOCH}")
    return int(text)


def write_leader_epoch(disk: Disk, directory: str, epoch: int) -> None:
    """Store the leader epoch of a data directory, durably."""
    path = f"{directory}/{META_PROPERTIES}"
    write_properties(disk, path, {**(read_properties(disk, path) or {}), LEADER_EPOCH: str(epoch)})


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """Read an offset checkpoint. A missing file is empty; a malformed one is damage, as it is only replaced whole."""
    text = read_text(disk, path)
    if not text:
        return {}
    lines = text.splitlines()
    try:
        if int(lines[0]) != 0:
            raise ValueError(f"version {lines[0]} is not known")
        offsets = {}
        for line in lines[2:]:
            topic, partition, offset = line.split(" ")
            offsets[topic, int(partition)] = int(offset)
            if not 0 <= offsets[topic, int(partition)] <= LONG_MAX:
                raise ValueError(f"{offset} is no offset")
        if int(lines[1]) != len(offsets):
            raise ValueError(f"{lines[1]} entries announced, {len(offsets)} found")
    except (ValueError, IndexError) as error:
        raise LogDamaged(path, 0, f"not an offset checkpoint: {error}") from None
    return offsets


def write_offsets(disk: Disk, path: str, offsets: dict[TopicPartition, int]) -> None:
    replace_text(disk, path, offsets_text(offsets))


def offsets_text(offsets: dict[TopicPartition, int]) -> str:
    """Return the content of an offset checkpoint."""
    lines = [f"{topic} {partition} {offset}\n" for (topic, partition), offset in sorted(offsets.items())]
    return f"0\n{len(lines)}\n" + "".join(lines)


def read_topic_id(disk: Disk, directory: str) -> bytes | None:
    """Return the topic id in the directory's partition.metadata; None without the file (Kafka before 2.8)."""
    path = os.path.join(directory, PARTITION_METADATA)
    text = read_text(disk, path)
    if text is None:
        return None
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    try:
        if fields["version"] != "0":
            raise ValueError(f"version {fields['version']} is not known")
        return uuid_bytes(fields["topic_id"])
    except (KeyError, ValueError) as error:
        raise LogDamaged(path, 0, f"not a partition.metadata file: {error}") from None


def write_topic_id(disk: Disk, directory: str, topic_id: bytes) -> None:
    replace_text(disk, os.path.join(directory, PARTITION_METADATA), f"version: 0\ntopic_id: {uuid_text(topic_id)}\n")
