"""Burrow's rules, on the cases that Burrow publishes with them (core/internal/evaluator/caching_test.go), restated."""

from __future__ import annotations

import pytest

from coordinatord.monitoring.analysis import burrow
from coordinatord.monitoring.analysis.burrow import Commit


def commits(offsets: list[int], lags: list[int | None], step_s: float = 100, first_s: float = 100) -> list[Commit]:
    return [
        Commit(offset, round((first_s + number * step_s) * 1000), lag)
        for number, (offset, lag) in enumerate(zip(offsets, lags, strict=True))
    ]


RISING = [1000, 2000, 3000, 4000, 5000]
FROM_ZERO: list[int | None] = [0, 50, 100, 150, 200]
BY_SECONDS = [
    Commit(792748079 + number, time_ms, 0)
    for number, time_ms in enumerate(
        [
            1512224618356, 1512224619362, 1512224620366, 1512224621367, 1512224622370, 1512224623373, 1512224624378,
            1512224625379, 1512224626383, 1512224627383, 1512224628383, 1512224629388, 1512224630391, 1512224631394,
            1512224632397,
        ]
    )
]  # fmt: skip

# commits, end offsets, current lag, now in s; then: always lagged, rewound, stopped, stalled, never gains, caught up
# recently; and the status
CASES = {
    "no lag at one point": (
        commits(RISING, FROM_ZERO), [5200], 200, 600, (False, False, False, False, True, False), "OK",
    ),
    "as long ago as the window is long is not longer": (
        commits(RISING, FROM_ZERO), [5200], 200, 900, (False, False, False, False, True, False), "OK",
    ),
    "stopped, although the lag was zero once": (
        commits(RISING, FROM_ZERO), [5200], 200, 1000, (False, False, True, False, True, False), "STOP",
    ),
    "stopped, and always behind": (
        commits(RISING, [50, 100, 150, 200, 250]), [5250], 250, 1000, (True, False, True, False, True, False), "STOP",
    ),
    "the same offset, but no lag at first": (
        commits([1000] * 5, FROM_ZERO), [1200], 200, 600, (False, False, False, True, True, False), "OK",
    ),
    "the same offset and always a lag": (
        commits([1000] * 5, [100, 150, 200, 250, 300]), [1300], 300, 600,
        (True, False, False, True, True, False), "STALL",
    ),
    "the same offset and the same lag": (
        commits([1000] * 5, [100] * 5), [1100], 100, 600, (True, False, False, True, True, False), "STALL",
    ),
    "backwards, and further than before since": (
        commits([1000, 2000, 3000, 2000, 4000], [100, 150, 200, 1250, 300]), [4300], 300, 600,
        (True, False, False, False, False, False), "OK",
    ),
    "backwards, and not so far since": (
        commits([1000, 2000, 3000, 2000, 2500], [100, 150, 200, 1250, 300]), [4300], 300, 600,
        (True, True, False, False, False, False), "REWIND",
    ),
    "backwards from the end": (  # ours: why the rule of the rewind comes before that of the lag
        commits([1000, 3000, 2000, 2500], [100, 0, 1000, 500]), [3000], 500, 500,
        (False, True, False, False, False, False), "REWIND",
    ),
    "nothing is unread now": (
        commits(RISING, [50, 100, 150, 200, 250]), [5250], 0, 1000, (True, False, True, False, True, False), "OK",
    ),
    "stopped, seen only because there is something new": (
        BY_SECONDS, [792749024, 792749000, 792748800, 792748600, 792748500], 931, 1512224650,
        (False, False, True, False, True, False), "STOP",
    ),
    "caught up a moment ago": (
        BY_SECONDS, [792748094, 792748093, 792748093, 792748093], 1, 1512224650,
        (False, False, True, False, True, True), "OK",
    ),
    "commits of which the lag is not known": (
        commits(
            [1000, 1500, 2000, 2500, 3000, 3500, 4000, 4500, 5000, 5500],
            [0, None, 50, None, 100, None, 150, None, 200, None],
            step_s=50,
        ),
        [5700], 200, 600, (False, False, False, False, True, False), "OK",
    ),
    "slow": (  # ours: none of the published cases ends in WARN
        commits(RISING, [50, 100, 150, 200, 250]), [5250], 250, 600, (True, False, False, False, True, False), "WARN",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_published_case(name: str) -> None:
    window, ends, current_lag, now_s, told, status = CASES[name]
    assert (
        burrow.has_always_lagged(window),
        burrow.is_rewound(window),
        burrow.is_stopped(window, now_s),
        burrow.is_stalled(window),
        burrow.never_gains(window),
        burrow.has_caught_up_recently(window, ends),
    ) == told
    assert burrow.partition_status(window, ends, current_lag, now_s) == status


def test_a_group_is_as_bad_as_its_worst_partition() -> None:
    assert burrow.group_status(["OK", "OK"]) == "OK"
    assert burrow.group_status(["OK", "WARN"]) == "WARN"
    for worse in ("STOP", "STALL", "REWIND"):
        assert burrow.group_status(["WARN", worse]) == "ERR"
    assert burrow.group_status([]) == "OK"
