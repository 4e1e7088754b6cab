"""Our share coordinator against ShareCoordinatorShard of Kafka 4.4: replies, bytes of records, redundant offsets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.coordination.share.coordinator.kafka_programs import RECORDED_SEEDS, STEPS, ours, program, recorded
from tests.reference import broker
from tests.reference.share_coordinator import ask

pytestmark = pytest.mark.reference

SEEDS = range(10_000, 12_000)
"""A hundred and twenty thousand steps."""


def test_kafkas_shard_answers_the_same(kafka_libs: Path) -> None:
    programs = [program(seed) for seed in SEEDS]
    assert len(SEEDS) * STEPS == 120_000
    for asked, theirs in zip(programs, ask(broker.kafka_libs(broker.KAFKA_VERSION), programs), strict=True):
        for number, (mine, its) in enumerate(zip(ours(asked, theirs), theirs, strict=True)):
            assert mine == its, (number, asked)


def test_what_is_recorded_is_what_kafka_says(kafka_libs: Path) -> None:
    programs = [program(seed) for seed in RECORDED_SEEDS]
    assert [answers for _, answers in recorded()] == ask(broker.kafka_libs(broker.KAFKA_VERSION), programs)
