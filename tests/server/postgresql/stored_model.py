"""The tables as the pipeline asks them, over the store's model: in the place of
coordinatord/monitoring/offsets_log/source/store.py.

tests/server/postgresql/test_pipeline.py plays the same tests on it and on PostgreSQL.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence

import pytest

from coordinatord.monitoring.offsets_log.source import store
from coordinatord.monitoring.offsets_log.source.store import Place
from coordinatord.server.postgresql.contract import PartitionKey, Row
from kafka_wire.records.batch import read_header
from kafka_wire.records.key_values import key_values
from tests.server.postgresql.model import ModelDatabase

URL = "postgresql://model/tables"
ASKED = (
    "check",
    "places",
    "topic_names",
    "starts",
    "start_checkpoints",
    "record_time",
    "size",
    "pieces",
    "batches",
    "heads",
)


class StoredModel:
    """Answers for URL."""

    def __init__(self, database: ModelDatabase) -> None:
        self._database = database

    def stand_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ASKED:
            assert hasattr(store, name)
            monkeypatch.setattr(store, name, getattr(self, name))

    def check(self, url: str) -> None:
        assert url == URL

    def places(self, url: str) -> list[Place]:
        ids = {name: base64.urlsafe_b64decode(id_ + "==") for id_, name in self.topic_names(url).items()}
        found = [
            Place(url, key.topic_id, topic, key.partition, end)
            for key, (topic, end) in self._database.partitions.items()
            if end and (not ids or ids.get(topic) == key.topic_id)
        ]
        return sorted(found, key=lambda place: (place.topic, place.partition))

    def topic_names(self, url: str) -> dict[str, str]:
        assert url == URL
        if "topics.json" not in self._database.files:
            return {}
        topics = json.loads(self._database.files["topics.json"][1])["topics"]
        return {entry["id"]: name for name, entry in topics.items()}

    def starts(self, _url: str) -> dict[tuple[bytes, int], int]:
        rows = self._database.rows
        return {(key.topic_id, key.partition): min(r.segment for r in rows[key].values()) for key in rows if rows[key]}

    def start_checkpoints(self, _url: str) -> list[str]:
        files = self._database.files
        return [files[name][1].decode() for name in files if name.endswith("log-start-offset-checkpoint")]

    def record_time(self, url: str, topic: str, partition: int, offset: int) -> int | None:
        for place in self.places(url):
            if (place.topic, place.partition) == (topic, partition):
                for _base, batch in self.batches(place, offset, place.end_offset):
                    for found, timestamp, _key, _value in key_values(batch, 0, read_header(batch)):
                        if found >= offset:
                            return timestamp
        return None

    def size(self, _url: str, chosen: Sequence[Place]) -> int:
        return sum(len(row.batch) for place in chosen for row in self._rows(place, 0, place.end_offset))

    def pieces(
        self, _url: str, wanted: Sequence[tuple[Place, int, int]], step: int
    ) -> dict[int, list[tuple[int, int]]]:
        found: dict[int, list[tuple[int, int]]] = {}
        for place, first, next_offset in wanted:
            before, pieces = 0, dict[int, tuple[int, int]]()
            for row in self._rows(place, first, next_offset):
                base, size = pieces.get(before // step, (row.base_offset, 0))
                pieces[before // step] = base, size + len(row.batch)
                before += len(row.batch)
            if pieces:
                found[place.partition] = list(pieces.values())
        return found

    def batches(self, place: Place, first_offset: int, next_offset: int) -> Iterator[tuple[int, bytes]]:
        for row in self._rows(place, first_offset, next_offset):
            yield row.base_offset, bytes(row.batch)

    def heads(self, place: Place, first_offset: int, next_offset: int) -> Iterator[tuple[int, int, int, int]]:
        for row in self._rows(place, first_offset, next_offset):
            yield row.base_offset, len(row.batch), int.from_bytes(row.batch[57:61], "big"), row.last_offset

    def _rows(self, place: Place, first_offset: int, next_offset: int) -> list[Row]:
        rows = self._database.rows.get(PartitionKey(place.topic_id, place.partition), {})
        chosen = [row for row in rows.values() if row.last_offset >= first_offset and row.base_offset < next_offset]
        return sorted(chosen, key=lambda row: row.base_offset)
