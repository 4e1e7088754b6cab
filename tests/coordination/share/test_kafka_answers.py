"""Our share partition against the recorded answers of Kafka's: replies, what is written, the state after each step."""

from __future__ import annotations

from tests.coordination.share.kafka_programs import (
    MESSAGES,
    RECORDED_SEEDS,
    STEPS,
    compared,
    recorded,
    recorded_programs,
)


def test_our_answers_are_kafkas() -> None:
    equal = sum(compared(asked, answers) for asked, answers in recorded())
    assert equal > len(RECORDED_SEEDS) * STEPS * 0.7


def test_kafka_stops_behind_a_gap_as_we_do() -> None:
    """A window of more than share.partition.max.record.locks that begins in a gap window, with all records done: the
    start offset stays, and no fetch acquires anything.
    """
    asked, answers = recorded()[-1]
    assert compared(asked, answers) == len(asked["steps"])
    start, end, complete, gap, next_offset, can_acquire, _ = answers[-1][2]
    assert (start, end, complete, gap, next_offset, can_acquire) == (3, 9, 7, [3, 9], 10, False)


def test_what_is_recorded() -> None:
    """The programs reach the refusals, failed writes, records of each state, and both kinds of dead letters."""
    errors, states, messages, failed = set(), set(), set(), 0
    for asked, answers in recorded():
        for step, (reply, _, state, letters) in zip(
            asked["steps"], (each for each in answers if len(each) == 4), strict=False
        ):
            failed += step[1] == "written" and not step[3]
            if step[1] == "acknowledge" and reply is not None:
                errors.add(reply[0])
            messages.update(each[3] for each in letters)
            for _, _, records in state[-1]:
                states.update(each[0] for each in records if isinstance(each, list))
    assert errors == {42, 121}  # invalid request, invalid record state
    assert states == {0, 1, 2, 3, 4}
    assert messages == set(MESSAGES.values())
    assert failed > 20


def test_the_recorded_programs_are_these() -> None:
    found = [asked for asked, _ in recorded()]
    assert found == recorded_programs(), "record anew: python -m tests.reference.java_programs share_partition"
