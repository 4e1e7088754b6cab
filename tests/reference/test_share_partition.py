"""Our share partition against SharePartition of Kafka 4.4: replies, what is written, the state after each step."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.coordination.share.kafka_programs import STEPS, compared, program
from tests.reference.java_programs import SHARE_PARTITION

pytestmark = pytest.mark.reference

SEEDS = range(10_000, 10_500)
"""Sixty thousand steps, without those behind a known difference."""


def test_kafkas_share_partition_does_the_same(kafka_libs: Path) -> None:
    programs = [program(seed) for seed in SEEDS]
    answers = SHARE_PARTITION.ask(kafka_libs, programs)
    equal = sum(compared(asked, theirs) for asked, theirs in zip(programs, answers, strict=True))
    assert equal > len(SEEDS) * STEPS * 0.7
