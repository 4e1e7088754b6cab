"""Our share coordinator against ShareCoordinatorShard of Kafka 4.4: replies, bytes of records, redundant offsets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.coordination.share.coordinator.kafka_programs import STEPS, ours, program
from tests.reference.java_programs import SHARE_COORDINATOR

pytestmark = pytest.mark.reference

SEEDS = range(10_000, 12_000)
"""A hundred and twenty thousand steps."""


def test_kafkas_shard_answers_the_same(kafka_libs: Path) -> None:
    programs = [program(seed) for seed in SEEDS]
    assert len(SEEDS) * STEPS == 120_000
    for asked, theirs in zip(programs, SHARE_COORDINATOR.ask(kafka_libs, programs), strict=True):
        for number, (mine, its) in enumerate(zip(ours(asked, theirs), theirs, strict=True)):
            assert mine == its, (number, asked)
