"""Our share coordinator against the recorded answers of Kafka's: replies, bytes of records, last redundant offsets."""

from __future__ import annotations

from tests.coordination.share.coordinator.kafka_programs import RECORDED_SEEDS, STEPS, ours, program, recorded


def test_our_answers_are_kafkas() -> None:
    for asked, answers in recorded():
        for number, (mine, theirs) in enumerate(zip(ours(asked, answers), answers, strict=True)):
            assert mine == theirs, (number, asked["steps"][number])


def test_what_is_recorded() -> None:
    """The programs reach every error, both types of records, tombstones and jobs with records."""
    errors, types, jobs = set(), set(), 0
    for asked, answers in recorded():
        for step, (reply, logged, _) in zip(asked["steps"], answers, strict=True):
            errors.update(reply[:1])
            types.update((key[:4], value is None) for key, value in logged)
            jobs += step[2] == "snapshots" and len(logged) > 1
    assert errors == {
        0,
        3,
        42,
        74,
        124,
    }  # none, unknown topic, invalid request, fenced leader epoch, fenced state epoch
    assert types == {("0000", False), ("0000", True), ("0001", False)}
    assert jobs > 20


def test_the_recorded_programs_are_these() -> None:
    found = [asked for asked, _ in recorded()]
    assert found == [program(seed) for seed in RECORDED_SEEDS], (
        "record anew: python -m tests.reference.java_programs share_coordinator"
    )
    assert all(len(each["steps"]) == STEPS for each in found)
