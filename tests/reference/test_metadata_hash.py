"""Our hash of a group's topics against Kafka's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.coordination.group.consumer.hash_cases import ours, question
from tests.reference.java_programs import METADATA_HASH

pytestmark = pytest.mark.reference


def test_kafkas_hashes_are_the_same(kafka_libs: Path) -> None:
    asked_all = [question(seed) for seed in range(1_000, 4_000)]
    differing = METADATA_HASH.differing(kafka_libs, asked_all, ours)
    assert not differing
