"""The status of a group in a partition: each row of the table, and what Burrow's users complain of."""

from __future__ import annotations

import pytest

from coordinatord.pipeline.analysis.burrow import Commit
from coordinatord.pipeline.analysis.status import Rules, partition_status, rhythm_ms

RULES = Rules(window_ms=60_000, min_lag=10)
NOW_MS = 1_000_000


def commits(*each: tuple[int, int, int | None]) -> list[Commit]:
    """(seconds ago, offset, lag)"""
    return [Commit(offset, NOW_MS - ago_s * 1000, lag) for ago_s, offset, lag in each]


STEADY = [(ago_s, 1_000 - ago_s, 50) for ago_s in range(70, 0, -5)]

CASES: dict[str, tuple[list[tuple[int, int, int | None]], int | None, bool | None, str]] = {
    "end offset unknown": (STEADY, None, True, "unknown"),
    "caught up": (STEADY, 0, True, "ok"),
    "fewer than count": (STEADY, 9, True, "ok"),
    "about the same lag": (STEADY, 51, True, "behind"),
    "what has come since the last commit": (
        [(ago_s, 1_000 - ago_s, 20) for ago_s in range(79, 0, -20)],
        39,
        True,
        "behind",
    ),
    "growing": ([(ago_s, 1_000 - ago_s, 200 - ago_s) for ago_s in range(70, 0, -5)], 210, True, "falling"),
    "shrinking": ([(ago_s, 1_000 - ago_s, 200 + ago_s) for ago_s in range(70, 0, -5)], 200, True, "catching"),
    "commits and does not move": ([(ago_s, 1_000, 50) for ago_s in range(70, 0, -5)], 50, True, "stuck"),
    "a short pause is no standstill": ([(ago_s, 1_000, 50) for ago_s in range(20, 0, -5)], 50, True, "behind"),
    "went back": ([(70, 500, 50), (40, 900, 50), (10, 200, 800)], 800, True, "rewound"),
    "went back and is there again": ([(70, 500, 50), (40, 200, 400), (10, 900, 50)], 50, True, "behind"),
    "no commit any more": ([(ago_s, 1_000 - ago_s, 50) for ago_s in range(170, 100, -5)], 500, True, "stopped"),
    "the same without members": ([(ago_s, 1_000 - ago_s, 50) for ago_s in range(170, 100, -5)], 500, False, "ended"),
    "the same, members unknown": ([(ago_s, 1_000 - ago_s, 50) for ago_s in range(170, 100, -5)], 500, None, "stopped"),
    "commits once an hour": ([(8_000, 100, 50), (4_400, 200, 50), (800, 300, 50)], 500, True, "behind"),
    "did once an hour, not any more": ([(22_400, 100, 50), (18_800, 200, 50), (15_200, 300, 50)], 500, True, "stopped"),
    "one commit": ([(5, 100, 50)], 50, True, "behind"),
    "lags unknown": ([(70, 100, None), (5, 200, None)], 50, True, "behind"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_row(name: str) -> None:
    each, lag, has_members, expected = CASES[name]
    told = partition_status(commits(*each), lag, NOW_MS, has_members=has_members, rules=RULES)
    assert told.status == expected, told
    assert told.why


def test_the_rhythm_is_not_one_long_pause() -> None:
    each = [(ago_s, 0, 0) for ago_s in range(1_100, 1_000, -5)] + [(ago_s, 0, 0) for ago_s in range(100, 0, -5)]
    assert rhythm_ms(commits(*each)) == 5_000
    assert rhythm_ms(commits((5, 0, 0))) == 0
