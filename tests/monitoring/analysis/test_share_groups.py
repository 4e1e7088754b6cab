"""Verdicts on share groups, by what looks at the cluster have shown."""

from __future__ import annotations

import pytest

from coordinatord.monitoring.analysis.share_groups import Look, share_status, standing
from coordinatord.monitoring.analysis.share_state import AVAILABLE, Batch, ShareState, deliveries
from coordinatord.monitoring.analysis.status import Rules

RULES = Rules(window_ms=600_000, min_lag=1)
NOW_MS = 10_000_000


def looks(*values: tuple[int, int, int | None, int], every_s: int = 60) -> list[Look]:
    """Looks at (start offset, end offset, lag, members), the last one now."""
    first_ms = NOW_MS - (len(values) - 1) * every_s * 1_000
    return [Look(first_ms + at * every_s * 1_000, *each) for at, each in enumerate(values)]


def growing(steps: int = 10) -> list[tuple[int, int, int | None, int]]:
    """A group with two members that reads 10 of 110 records a minute."""
    return [(10 * at, 110 * at, 100 * at, 2) for at in range(1, steps + 1)]


@pytest.mark.parametrize(
    ("seen", "status", "why"),
    [
        (looks((5, 5, 0, 1)), "ok", "nothing is unread"),
        (looks((5, 9, None, 1)), "unknown", "the cluster does not count the lag of this share partition"),
        (looks((5, 9, 4, 1)), "behind", "4 unread"),
        (looks((5, 9, 4, 0)), "ended", "4 unread: it has no members"),
        (looks((5, 9, 4, 1), (5, 9, 4, 0), (5, 9, 4, 0)), "ended", "4 unread: it has no members"),
        (looks((5, 9, 4, 0), (5, 12, 7, 0)), "stopped", "7 unread, 3 of them new: it has no members"),
        (looks((5, 9, 4, 1), (5, 12, 7, 0)), "ended", "7 unread: it has no members"),
        (looks(*growing()), "falling", "1000 unread: "),
        (looks(*((each[0], each[1], lag, 2) for each, lag in zip(growing(), range(1_000, 0, -100), strict=True))),
         "catching", "100 unread: "),
        (looks(*([(7, 20, 12, 3)] * 10)), "stuck",
         "12 unread: the start offset has been 7 for 540 s at least: the record there is not acknowledged"),
        (looks(*([(7, 20, 12, 3)] * 4)), "behind", "12 unread"),
        # Nothing was unread for a time: nobody was stuck.
        (looks(*([(7, 7, 0, 3)] * 7), *([(7, 20, 12, 3)] * 3)), "behind", "12 unread"),
    ],
)  # fmt: skip
def test_status(seen: list[Look], status: str, why: str) -> None:
    found = share_status(seen, NOW_MS, RULES)
    assert found.status == status
    assert found.why.startswith(why)


@pytest.mark.parametrize(("count", "members", "status"), [(2, 1, "stuck"), (3, 1, "poison record"), (3, 0, "ended")])
def test_a_record_near_the_delivery_limit(count: int, members: int, status: str) -> None:
    """It is more than a start offset that stands still, but for a group without members it is nothing."""
    state = ShareState(1, 1, 7, 0, (Batch(7, 7, AVAILABLE, count),))
    *before, last = looks(*([(7, 20, 12, members)] * 10))
    found = share_status([*before, last._replace(deliveries=deliveries(state, 5))], NOW_MS, RULES)
    assert found.status == status
    if status == "poison record":
        assert found.why == "12 unread: delivery count 3 of limit 5 at offset 7: a suspected poison record"


def test_fewer_records_than_min_lag_are_fine() -> None:
    assert share_status(looks((5, 9, 4, 0)), NOW_MS, Rules(min_lag=5)).status == "ok"


def test_looks_before_the_window_do_not_count() -> None:
    """It has stood still for twenty minutes, but was looked at only twice."""
    assert share_status(looks((7, 20, 12, 3), (7, 20, 12, 3), every_s=1_200), NOW_MS, RULES).status == "behind"


def test_the_row_has_rates_and_the_start_offset() -> None:
    row = standing("g", "orders", 3, looks(*growing()), NOW_MS, rules=RULES)
    assert (row.group_id, row.topic, row.partition) == ("g", "orders", 3)
    assert (row.committed_offset, row.end_offset, row.lag) == (100, 1_100, 1_000)
    assert (row.consumed_per_s, row.produced_per_s) == (90 / 540, 990 / 540)
    assert (row.status, row.alarming, row.producer_idle) == ("falling", True, False)
    assert row.moved_ms == NOW_MS
