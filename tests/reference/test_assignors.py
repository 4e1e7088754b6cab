"""Our assignors against Kafka's, question by question: who gets what, in which order, in which bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.java_programs import ASSIGNORS
from tests.testing.member.assignor_cases import ours, questions

pytestmark = pytest.mark.reference

SEEDS = range(1_000, 3_000)


def test_kafkas_assignors_assign_the_same(kafka_libs: Path) -> None:
    asked_all = questions(SEEDS)
    differing = ASSIGNORS.differing(kafka_libs, asked_all, ours)
    assert not differing, f"{len(differing)} of {len(asked_all)} differ, the first one: {differing[0]}"
