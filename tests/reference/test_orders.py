"""Members come and go: who gets what, and what is logged, depends on the order of Kafka's hash tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference import orders
from tests.reference.in_process import run


def test_partitions_go_to_whom_kafka_gives_them_and_are_logged_in_its_order(tmp_path: Path) -> None:
    found = run(orders.play_in_process(tmp_path, orders.RECORDED_SEEDS))
    for seed, ours, kafkas in zip(orders.RECORDED_SEEDS, found, orders.recorded(), strict=True):
        for kind in ("answers", "log"):
            for number, (our, kafka) in enumerate(zip(ours[kind], kafkas[kind], strict=False)):
                assert our == kafka, f"program {seed}, {kind} {number}"
            assert len(ours[kind]) == len(kafkas[kind])


def test_the_programs_are_about_orders() -> None:
    """Lists that are not sorted, and members whose slots are shared."""
    records = [line for program in orders.recorded() for line in program["log"]]
    targets = [line[2] for line in records if line[0] == "TargetAssignmentMember" and line[2:] and line[2]]
    current = [line[5][0] for line in records if line[0] == "CurrentMemberAssignment" and len(line) > 5]
    for lists in (targets, current):
        assert sum(each != sorted(each) for each in lists) > len(lists) / 20


@pytest.mark.reference
@pytest.mark.timeout(1800)
def test_kafka_says_what_is_recorded(kafka_libs: Path, tmp_path: Path) -> None:
    assert orders.play_on_kafka(kafka_libs, tmp_path, orders.RECORDED_SEEDS) == orders.recorded()
