"""Our share partition against SharePartition of Kafka 4.4: replies, what is written, the state after each step."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.coordination.share.kafka_programs import STEPS, compared, program, recorded, recorded_programs
from tests.reference import broker
from tests.reference.share_partition import ask

pytestmark = pytest.mark.reference

SEEDS = range(10_000, 10_500)
"""Sixty thousand steps, without those behind a known difference."""


def test_kafkas_share_partition_does_the_same(kafka_libs: Path) -> None:
    programs = [program(seed) for seed in SEEDS]
    answers = ask(broker.kafka_libs(broker.KAFKA_VERSION), programs)
    equal = sum(compared(asked, theirs) for asked, theirs in zip(programs, answers, strict=True))
    assert equal > len(SEEDS) * STEPS * 0.7


def test_what_is_recorded_is_what_kafka_says(kafka_libs: Path) -> None:
    assert [answers for _, answers in recorded()] == ask(broker.kafka_libs(broker.KAFKA_VERSION), recorded_programs())
