"""Topic names by id: groups of the consumer protocol (KIP-848) log only the ids.

The names come from a broker's directories (`partition.metadata`), from a database or from a broker. They are stored in
OUT/topic_names.json, so that a deleted topic keeps its name. An unknown id is shown as it is.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coordinatord.monitoring.offsets_log.source import store
from coordinatord.monitoring.offsets_log.source.end_offsets import PARTITION_DIRECTORY
from coordinatord.monitoring.offsets_log.source.options import PATIENCE_S
from coordinatord.monitoring.offsets_log.source.segments import SourceError

FILE = "topic_names.json"


def names_in_directories(paths: Sequence[str]) -> dict[str, str]:
    """Return the topics with a partition in one of the brokers' log directories, and those of a database; other
    directories are ignored.
    """
    found: dict[str, str] = {}
    for path in paths:
        if store.is_stored(path):
            found |= store.topic_names(path)
            continue
        seen: set[str] = set()
        try:
            directories = sorted(os.listdir(path))
        except OSError:
            continue  # a segment or a pattern: it has only the log
        for name in directories:
            match = PARTITION_DIRECTORY.fullmatch(name)
            if match is None or match[1] in seen:
                continue
            topic_id = _topic_id(os.path.join(path, name, "partition.metadata"))
            if topic_id is not None:
                seen.add(match[1])
                found[topic_id] = match[1]
    return found


def _topic_id(path: str) -> str | None:
    """Return the topic id in a file like `version: 0\\ntopic_id: mqBYrcNKQO6xVx8dYZRsKg`; None if there is none."""
    try:
        with open(path, encoding="ascii") as file:
            lines = file.read(200).splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    fields = dict(line.split(": ", 1) for line in lines if ": " in line)
    return fields.get("topic_id") if fields.get("version") == "0" else None


def names_from_broker(bootstrap: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Return all topics that the user may describe; none from a broker that does not send ids (before Kafka 2.8).
    `options` go to kafka-python. Raises SourceError.
    """
    from coordinatord.monitoring.offsets_log.source.cluster import Cluster

    with Cluster(bootstrap, options, PATIENCE_S) as cluster:
        return {topic_text(topic_id.bytes): name for name, topic_id in cluster.topic_ids().items()}


def topic_text(topic_id: bytes) -> str:
    """Return a uuid in Kafka's text form."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def read_names(out: Path) -> dict[str, str]:
    """Return the names that earlier runs have stored. Raises SourceError if their file is damaged."""
    try:
        names: dict[str, str] = json.loads((out / FILE).read_text())
    except FileNotFoundError:
        return {}
    except ValueError:
        raise SourceError(f"{out / FILE} cannot be read: remove it, and the next run looks again") from None
    return names


def keep_names(out: Path, found: Mapping[str, str]) -> None:
    """Add names to the stored ones."""
    known = read_names(out)
    if found.keys() <= known.keys():
        return
    staged = out / f"_{FILE}"
    staged.write_text(json.dumps({**known, **found}, indent=0, sort_keys=True) + "\n")
    os.replace(staged, out / FILE)
