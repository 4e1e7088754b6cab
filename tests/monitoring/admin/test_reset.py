"""Where a reset moves a group, without a cluster. tests/reference/test_group_commands.py compares with Kafka's tool."""

from __future__ import annotations

import pytest

from coordinatord.monitoring.admin.reset import (
    Move,
    ResetError,
    at_time,
    clamped,
    current,
    datetime_ms,
    duration_ms,
    groups_in,
    partitions_named,
    plan_of,
    shifted,
    to_csv,
)

A, B = ("orders", 0), ("orders", 1)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("PT15M", 900_000),
        ("P1DT12H", 129_600_000),
        ("P2D", 172_800_000),
        ("PT1.5S", 1_500),
        ("pt-0.25s", -250),
        ("-PT1H", -3_600_000),
        ("PT1H-5M", 3_300_000),
    ],
)
def test_durations_as_java_reads_them(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1H", "P1M", "PT1X", "PT1.5M", "1 hour"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ResetError, match="is no duration: PnDTnHnMnS is wanted"):
        duration_ms(text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:01.000", 1_000),
        ("1970-01-01T00:00:01.5", 1_005),  # a number of milliseconds, to Java
        ("1970-01-01T01:00:00.000+01:00", 0),
        ("1970-01-01T01:00:00.000+01", 0),
        ("1970-01-01T00:00:00.000-0030", 1_800_000),
        ("2026-11-23T03:12:00Z", 1_795_403_520_000),
    ],
)
def test_times(text: str, ms: int) -> None:
    assert datetime_ms(text) == ms


@pytest.mark.parametrize("text", ["yesterday", "2026-11-23", "2026-13-01T00:00:00.000", "2026-11-23T25:00:00.000"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ResetError, match="is no time"):
        datetime_ms(text)


def test_partitions_by_name() -> None:
    assert partitions_named(["orders:0,1", "payments"]) == ([A, B], ["payments"])
    for wrong in ("orders:", ":1", "orders:1,x", "orders:-1", "orders:²"):
        with pytest.raises(ResetError, match="a topic, or a topic and its partitions"):
            partitions_named([wrong])


def test_files() -> None:
    assert plan_of("orders,0,7\norders,1,8\n", "g", is_only_group=True) == {A: 7, B: 8}
    assert plan_of('"g",orders,0,7\nh,orders,1,8\n', "g", is_only_group=True) == {A: 7}
    text = to_csv({"g,1": {A: 7}, "h": {B: 8}}, with_group=True)
    assert plan_of(text, "g,1", is_only_group=False) == {A: 7}
    assert groups_in(text) == ["g,1", "h"]


@pytest.mark.parametrize(
    ("text", "only", "says"),
    [
        ("", True, "the file has no offsets for group g"),
        ("h,orders,0,7\n", True, "the file has no offsets for group g"),
        ("orders,0,7\n", False, "line 1 of the file: group,topic,partition,offset is wanted for several groups"),
        ("orders,0\n", True, "line 1 of the file: topic,partition,offset is wanted"),
        ("orders,0,7\norders,one,7\n", True, "line 2 of the file: topic,partition,offset is wanted"),
        ("orders,0,7\norders,1,-7\n", True, "line 2 of the file: topic,partition,offset is wanted"),
        ('"orders,0,7\n', True, "the file is no CSV"),
    ],
)
def test_files_that_are_refused(text: str, only: bool, says: str) -> None:
    with pytest.raises(ResetError, match=says):
        plan_of(text, "g", is_only_group=only)


def test_offsets_stay_within_their_partitions() -> None:
    starts, ends = {A: 10, B: 10}, {A: 20, B: 20}
    assert clamped({A: 10, B: 20}, starts, ends, {A: 1}) == {A: Move(1, 10), B: Move(None, 20)}
    moves = clamped({A: 9, B: 21}, starts, ends, {})
    assert (moves[A].after, moves[B].after) == (10, 20)
    assert moves[A].why == "9 is before the beginning"
    assert moves[B].why == "21 is beyond the end"


def test_what_is_shifted_must_be_committed() -> None:
    assert shifted([A], -3, {A: 5}) == {A: 2}
    with pytest.raises(ResetError, match="nothing for orders-1"):
        shifted([A, B], 1, {A: 5})


def test_without_a_record_or_a_commit_it_is_the_end() -> None:
    assert at_time({A: 4, B: -1}, {A: 9, B: 9}, {A: 1}) == {
        A: Move(1, 4),
        B: Move(None, 9, "no record is that late: the end"),
    }
    assert current([A, B], {A: 4}, {B: 9}) == {A: Move(4, 4), B: Move(None, 9, "nothing was committed: the end")}
