"""A store with the log of a cluster: that of tests/monitoring/pipeline/truth, topics with records, a ledger, a deleted
topic.
"""

from __future__ import annotations

import base64
import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from coordinatord.server.postgresql.contract import Growth, PartitionKey, Row, Store, row_of
from kafka_wire.records.batch import build_batch, iterate_batches
from tests.monitoring.pipeline.truth.world import World

DELETED = b"D" * 16
LEDGER = "__rebalances"
BATCHES = 250
"""Of each partition."""


def fill(store: Store, seed: int = 1, *, with_ledger: bool = True) -> int:
    """Put the beginning of what the world of a seed has written into a store that is empty; its time at the end. The
    ledger's records say nothing of its groups.
    """
    now_ms, partitions = _world(seed)
    ids: dict[str, bytes] = {}
    for topic, rows in partitions:
        ids[topic] = rows[0].key.topic_id
        store.append([Growth(rows[0].key, topic, 0, rows[-1].last_offset + 1)], rows)
    if with_ledger:
        record = {"version": 1, "group": "looping", "outcome": "completed"}
        ids[LEDGER] = b"L" * 16
        ledger = [build_batch([(b"looping", json.dumps(record | {"number": n}).encode())], 1_000, n) for n in range(3)]
        key = PartitionKey(ids[LEDGER], 0)
        store.append([Growth(key, LEDGER, 0, 3)], [row_of(key, 0, batch) for batch in ledger])
    # A topic that was made again: the old one's rows are still there.
    again = next(name for name in ids if not name.startswith("__"))
    gone = PartitionKey(DELETED, 0)
    store.append([Growth(gone, again, 0, 900)], [row_of(gone, 0, build_batch([(b"k", b"v")] * 900, 1_000, 0))])
    entries = {name: {"id": text_of(id_), "partitions": 1, "configs": {}} for name, id_ in ids.items()}
    content = {"version": 1, "change": 1, "topics": entries, "deleting": {}}
    store.put_file("topics.json", json.dumps(content).encode())
    return now_ms


@cache
def _world(seed: int) -> tuple[int, list[tuple[str, list[Row]]]]:
    world = World(seed)
    found = []
    with TemporaryDirectory() as scratch:
        world.write(Path(scratch))
        for path in sorted(Path(scratch).iterdir()):
            topic, _, number = path.name.rpartition("-")
            rows = _rows(path, PartitionKey(topic.encode().ljust(16, b".")[:16], int(number)))
            if rows:
                found.append((topic, rows))
    return world.now_ms, found


def text_of(topic_id: bytes) -> str:
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def _rows(path: Path, key: PartitionKey) -> list[Row]:
    rows: list[Row] = []
    for segment in sorted(path.glob("*.log")):
        data = segment.read_bytes()
        for position, header in iterate_batches(data, partial=True):
            if len(rows) < BATCHES:
                rows.append(row_of(key, int(segment.stem), data[position : position + header.size]))
    return rows
