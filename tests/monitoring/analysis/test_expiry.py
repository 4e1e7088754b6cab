"""When committed offsets expire: as the coordinator removes them."""

from __future__ import annotations

import pytest

from coordinatord.monitoring.analysis.burrow import Commit
from coordinatord.monitoring.analysis.commit_window import Rewinds, Trail, rewinds
from coordinatord.monitoring.analysis.expiry import Expiry, expiries
from coordinatord.monitoring.analysis.status import Members

WEEK_MS = 7 * 86_400_000
TRAILS = {("a", 0): Trail(600_000, [Commit(5, 1_000, None)]), ("b", 1): Trail(600_000, [Commit(7, 3_000, None)])}


@pytest.mark.parametrize(
    ("group_type", "members", "right"),
    [
        ("classic", Members(True, topics=frozenset({"a", "b"})), []),
        ("classic", Members(True), []),
        ("classic", Members(True, topics=frozenset({"a"})), [("b", 1, "not subscribed", 3_000 + WEEK_MS)]),
        ("classic", Members(False, 9_000), [("a", 0, "empty", 9_000 + WEEK_MS), ("b", 1, "empty", 9_000 + WEEK_MS)]),
        ("consumer", Members(False, 9_000),
         [("a", 0, "not subscribed", 1_000 + WEEK_MS), ("b", 1, "not subscribed", 3_000 + WEEK_MS)]),
        (None, Members(), [("a", 0, "simple", 1_000 + WEEK_MS), ("b", 1, "simple", 3_000 + WEEK_MS)]),
    ],
)  # fmt: skip
def test_what_the_retention_counts_from(
    group_type: str | None, members: Members, right: list[tuple[str, int, str, int]]
) -> None:
    assert expiries(group_type, members, TRAILS, WEEK_MS) == [Expiry(*each) for each in right]


def test_a_time_that_the_client_gave_and_a_retention_that_is_not_known() -> None:
    assert expiries(None, Members(), TRAILS, None) == []
    assert expiries("classic", Members(True), TRAILS, WEEK_MS, {("b", 1): 8}) == [Expiry("b", 1, "explicit", 8)]


def test_each_step_back_is_counted_and_the_last_one_is_known() -> None:
    commits = [Commit(offset, 1_000 * n, None) for n, offset in enumerate((5, 9, 4, 4, 6, 12, 3))]
    trail = Trail(600_000, commits)
    assert rewinds({("c", 0): trail, **TRAILS}) == {("c", 0): Rewinds(2, 14, 12, 3, 6_000)}
