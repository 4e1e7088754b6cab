"""What changes with a group: stuck, storm, expiring, and their ends; each told once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinatord.monitoring.analysis.changes import (
    REFRESH_MS,
    Change,
    Seen,
    Thresholds,
    Track,
    gone,
    look,
    storm,
)

RULES = Thresholds(stuck_ms=60_000, storm_count=4, storm_ms=100_000, expiring_ms=3_600_000)


def at(second: int, committed: int, end: int | None, *, made_s: int | None = None, expires_s: int | None = None) -> Any:
    """A look at that second; the offset was committed at `made_s`."""
    made_ms = (second if made_s is None else made_s) * 1000
    return second * 1000, Seen("t", 0, committed, made_ms, end, None if expires_s is None else expires_s * 1000)


def watch(*looks: Any, has_members: bool | None = True, track: Track | None = None) -> list[tuple[str, str, int, int]]:
    """(kind, change, since, at) in seconds of all looks, one after the other."""
    told: list[tuple[str, str, int, int]] = []
    for at_ms, seen in looks:
        track, changes = look(track, seen, at_ms, RULES, has_members=has_members)
        told += [(each.kind, each.change, each.since_ms // 1000, each.at_ms // 1000) for each in changes]
    return told


def test_stuck_and_over_when_it_moves() -> None:
    looks = [at(0, 5, 10), at(30, 5, 20, made_s=0), at(60, 5, 30, made_s=0), at(90, 5, 40, made_s=0)]
    assert watch(*looks) == [("stuck", "began", 0, 60)]
    assert watch(*looks, at(120, 6, 50), at(150, 6, 50, made_s=120)) == [
        ("stuck", "began", 0, 60),
        ("stuck", "recovered", 0, 120),
    ]


def test_what_is_not_stuck() -> None:
    assert not watch(at(0, 5, 10), at(90, 5, 10, made_s=0), at(900, 5, 10, made_s=0)), "nobody writes"
    assert not watch(at(0, 5, 5), at(90, 5, 5, made_s=0)), "nothing is unread"
    assert not watch(at(0, 5, None), at(90, 5, None, made_s=0)), "the end is not known"
    assert not watch(*(at(second, second, 10_000 + second) for second in range(0, 600, 30))), "it moves, if slowly"
    assert not watch(*(at(second, 5, 5 + second, made_s=0) for second in range(0, 60, 10))), "not for so long"


def burst(second: int, *, committed: int = 5, **known: int) -> Any:
    """A look at a partition in which ten records were written at once, after the offset 5 was committed at second 0."""
    made_s = known.pop("made_s", 0)
    at_ms, seen = at(second, committed, 15, made_s=made_s)
    return at_ms, seen._replace(**{f"{name}_ms": each * 1000 for name, each in known.items()})


def test_records_that_came_at_once_are_unread_as_others_are() -> None:
    """The end has not moved since the first look at that offset, but it is known when the records came."""
    looks = [burst(second, unread=10) for second in range(20, 100, 10)]
    assert watch(*looks) == [("stuck", "began", 10, 70)]
    assert not watch(*looks, has_members=False)


def test_an_idle_consumer_is_not_stuck_when_a_record_comes() -> None:
    """It has read everything for an hour; what comes then has not waited."""
    idle = at(3_600, 5, 5, made_s=0)
    new = [at(second, 5, 6, made_s=0) for second in range(3_605, 3_700, 5)]
    new = [(at_ms, seen._replace(unread_ms=3_601_000)) for at_ms, seen in new]
    assert watch(idle, *new) == [("stuck", "began", 3_601, 3_665)]


def test_what_came_and_went_between_two_looks() -> None:
    """A look takes a minute here: the commits tell what happened meanwhile."""
    before = burst(50, unread=10)
    after = burst(110, committed=15, made_s=105, moved=100, stood_since=10, stood_until=100)
    assert watch(before, after) == [("stuck", "began", 10, 110), ("stuck", "recovered", 10, 110)]
    assert watch(before, after, burst(170, committed=16, made_s=160, stood_since=10, stood_until=100))[2:] == []
    short = burst(110, committed=15, made_s=105, moved=69, stood_since=10, stood_until=69)
    assert watch(before, short) == []
    told_before = [burst(70, unread=10), after]
    assert watch(before, *told_before) == [("stuck", "began", 10, 70), ("stuck", "recovered", 10, 110)]


def test_commits_of_the_same_offset_are_no_movement() -> None:
    """Consumers commit where they are, whether they get on or not."""
    assert watch(*(at(second, 5, 10 + second) for second in range(0, 120, 10))) == [("stuck", "began", 0, 60)]


def test_going_back_is_movement() -> None:
    assert watch(at(0, 50, 60), at(60, 50, 70, made_s=0), at(70, 10, 70)) == [
        ("stuck", "began", 0, 60),
        ("stuck", "recovered", 0, 70),
    ]


def test_a_log_that_was_emptied_ends_it() -> None:
    """Records were deleted up to the committed offset, or the topic was made again: nothing is left to read."""
    assert watch(at(0, 5, 10), at(60, 5, 20, made_s=0), at(90, 5, 5, made_s=0))[-1] == ("stuck", "recovered", 0, 90)


def test_what_was_over_before_the_first_look_is_no_change() -> None:
    old = [at(1000, 5, 10, made_s=0), at(1030, 5, 20, made_s=0), at(1090, 5, 30, made_s=0)]
    assert not watch(*old, has_members=False)
    # With members it is: somebody is there, and does not read.
    assert watch(*old) == [("stuck", "began", 0, 1030)]
    # A group that ended while one watched is told of.
    assert watch(at(0, 5, 10), at(90, 5, 20, made_s=0), has_members=False) == [("stuck", "began", 0, 90)]


def test_old_offsets_count_again_when_members_come_back() -> None:
    track, _ = look(None, at(1000, 5, 10, made_s=0)[1], 1_000_000, RULES, has_members=False)
    assert watch(at(1030, 5, 20, made_s=0), at(1060, 5, 30, made_s=0), track=track) == [("stuck", "began", 0, 1060)]


def test_expiring_and_put_off() -> None:
    looks = [at(0, 5, 5, expires_s=5000), at(2000, 5, 5, made_s=0, expires_s=5000)]
    assert watch(*looks) == [("expiring", "began", 1400, 2000)]
    again = at(2100, 5, 5, expires_s=9000)
    in_use = at(2100, 5, 5)
    for last in (again, in_use):
        assert watch(*looks, last)[1:] == [("expiring", "recovered", 1400, 2100)]


def test_both_at_once_and_gone() -> None:
    first, second = at(0, 5, 10, expires_s=3000), at(60, 5, 20, made_s=0, expires_s=3000)
    track, changes = look(None, first[1], first[0], RULES, has_members=True)
    assert [change.kind for change in changes] == ["expiring"]
    track, changes = look(track, second[1], second[0], RULES, has_members=True)
    assert [change.kind for change in changes] == ["stuck"]
    ended = gone(track, "t", 0, 90_000)
    assert [(each.kind, each.change, each.at_ms) for each in ended] == [
        ("stuck", "gone", 90_000),
        ("expiring", "gone", 90_000),
    ]
    calm, _ = look(None, at(0, 5, 5)[1], 0, RULES, has_members=True)
    assert not gone(calm, "t", 0, 1)


def test_a_track_that_does_not_change_is_written_once_a_day() -> None:
    track, _ = look(None, at(0, 5, 5)[1], 0, RULES, has_members=True)
    same, _ = look(track, at(60, 5, 5, made_s=0)[1], 60_000, RULES, has_members=True)
    assert same == track
    later, _ = look(track, at(0, 5, 5)[1], REFRESH_MS, RULES, has_members=True)
    assert later == track._replace(touched_ms=REFRESH_MS)


def test_storm_and_calm() -> None:
    def told(since_s: int | None, ended_s: list[int], at_s: int) -> tuple[int | None, list[str]]:
        since_ms = None if since_s is None else since_s * 1000
        since_ms, changes = storm(since_ms, [each * 1000 for each in ended_s], at_s * 1000, RULES)
        return None if since_ms is None else since_ms // 1000, [change.change for change in changes]

    assert told(None, [10, 20, 30], 40) == (None, [])
    assert told(None, [10, 20, 30, 40], 40) == (10, ["began"])
    assert told(None, [40, 10, 30, 20], 45) == (10, ["began"]), "in any order"
    assert told(None, [10, 20, 30, 120], 120) == (None, []), "the first two are too long ago"
    assert told(10, [10, 20, 30, 40], 60) == (10, []), "told once"
    assert told(10, [20, 30, 40], 125) == (10, []), "two are left, which is half of it"
    assert told(10, [40, 50], 145) == (None, ["recovered"])
    assert told(10, [], 900) == (None, ["recovered"])


@given(
    st.lists(
        st.tuples(st.integers(1, 40), st.integers(0, 3), st.integers(0, 50), st.sampled_from([True, False, None])),
        min_size=1,
        max_size=60,
    )
)
def test_beginnings_and_ends_take_turns(steps: list[tuple[int, int, int, bool | None]]) -> None:
    """Whatever is seen: of each kind a beginning, then its end with the same `since_ms`, then perhaps a beginning."""
    track: Track | None = None
    told: list[Change] = []
    second, committed, end, made = 0, 0, 0, 0
    for wait, read, written, has_members in steps:
        second += wait
        end += written
        if read and committed < end:
            committed, made = min(end, committed + read), second
        expires = made + 4000 if not has_members else None
        at_ms, seen = at(second, committed, end, made_s=made, expires_s=expires)
        track, changes = look(track, seen, at_ms, RULES, has_members=has_members)
        told += changes
    assert track is not None
    told += gone(track, "t", 0, second * 1000)
    for kind in ("stuck", "expiring"):
        mine = [change for change in told if change.kind == kind]
        assert [change.change == "began" for change in mine] == [number % 2 == 0 for number in range(len(mine))]
        assert len(mine) % 2 == 0
        for began, ended in zip(mine[::2], mine[1::2], strict=True):
            assert began.since_ms == ended.since_ms <= began.at_ms <= ended.at_ms
            assert began.text != ended.text


@pytest.mark.parametrize("has_members", [True, False])
def test_words(has_members: bool) -> None:
    _, first = at(0, 5, 10)
    track, _ = look(None, first, 0, RULES, has_members=has_members)
    _, [change] = look(track, at(90, 5, 25, made_s=0)[1], 90_000, RULES, has_members=has_members)
    words = "at offset 5 for 90 s, 20 unread, 15 of them since"
    assert change.text == (words if has_members else f"{words}; it has no members")
