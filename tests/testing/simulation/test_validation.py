"""Predictions of the simulation beside real consumers in real time: about a minute for each broker.

All stories that a run selects are lived side by side, since nearly all of it is waiting: a story that is selected by
itself is lived by itself.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.rows import selected
from tests.testing.simulation.accounts import Seen, simulated
from tests.testing.simulation.reality import kafka_python, live
from tests.testing.simulation.stories import STORIES, story
from tests.testing.simulation.validate import broker, differences, is_close

BROKERS = [pytest.param("ours", marks=pytest.mark.clients), pytest.param("kafka", marks=pytest.mark.reference)]


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Seen]:
    """`seen(which, name)` is what consumers of that broker did in that story."""
    lived: dict[str, dict[str, Seen]] = {}

    def of(which: str, name: str) -> Seen:
        if which not in lived:
            rows = selected(request.session, test_what_is_predicted_is_what_is_seen)
            names = [row["name"] for row in rows if row["which"] == which]
            with broker(which, tmp_path_factory.mktemp(which)) as bootstrap:
                lived[which] = live([(each, story(each), kafka_python) for each in names], bootstrap)
        return lived[which][name]

    return of


@pytest.mark.alone
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("which", BROKERS)
def test_what_is_predicted_is_what_is_seen(which: str, name: str, seen: Callable[[str, str], Seen]) -> None:
    assert differences(simulated(story(name)), seen(which, name)) == []


def test_a_difference_is_found() -> None:
    """So that the test above can fail."""
    one = Seen(2, 10_000, 5_000, 0, (5_000,), (1_000, None))
    assert differences(one, one) == []
    assert differences(one, Seen(2, 11_900, 5_900, 500, (5_100,), (1_200, None))) == []
    assert differences(one, Seen(3, 12_100, 6_100, 700, (5_100,), (1_300, 1))) == [
        "rebalances: 2 predicted, 3 seen",
        "unowned_ms: 10000 predicted, 12100 seen",
        "longest_gap_ms: 5000 predicted, 6100 seen",
        "owned_twice_ms: 0 predicted, 700 seen",
        "settled after happening 0: 1000 ms predicted, 1300 seen",
        "settled after happening 1: None ms predicted, 1 seen",
    ]
    assert not is_close(0, 300)
    assert is_close(900, 100), "too short to tell"
    assert not is_close(900, 0), "nothing should have been"
