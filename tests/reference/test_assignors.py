"""Our assignors against Kafka's, question by question: who gets what, in which order, in which bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.assignors import ask
from tests.testing.member.assignor_cases import RECORDED_SEEDS, ours, questions
from tests.testing.member.test_assignors import recorded

pytestmark = pytest.mark.reference

SEEDS = range(1_000, 3_000)


def test_kafkas_assignors_assign_the_same(kafka_libs: Path) -> None:
    asked_all = questions(SEEDS)
    differing = [
        asked for asked, answered in zip(asked_all, ask(kafka_libs, asked_all), strict=True) if ours(asked) != answered
    ]
    assert not differing, f"{len(differing)} of {len(asked_all)} differ, the first one: {differing[0]}"


def test_what_is_recorded_is_what_kafka_says(kafka_libs: Path) -> None:
    asked_all = questions(RECORDED_SEEDS)
    assert [asked for asked, _ in recorded()] == asked_all, "the cases changed: record anew, see assignors.py"
    assert [answered for _, answered in recorded()] == ask(kafka_libs, asked_all)
