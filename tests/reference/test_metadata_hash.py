"""Our hash of a group's topics against Kafka's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.coordination.group.consumer.hash_cases import RECORDED_SEEDS, ours, question, recorded
from tests.reference.metadata_hash import ask

pytestmark = pytest.mark.reference


def test_kafkas_hashes_are_the_same(kafka_libs: Path) -> None:
    asked_all = [question(seed) for seed in range(1_000, 4_000)]
    differing = [
        asked for asked, answered in zip(asked_all, ask(kafka_libs, asked_all), strict=True) if ours(asked) != answered
    ]
    assert not differing


def test_what_is_recorded_is_what_kafka_says(kafka_libs: Path) -> None:
    asked_all = [question(seed) for seed in RECORDED_SEEDS]
    assert [asked for asked, _ in recorded()] == asked_all, "the cases changed: record anew, see metadata_hash.py"
    assert [answered for _, answered in recorded()] == ask(kafka_libs, asked_all)
