"""Does it come true? The stories with real consumers in real time, side by side: about a minute for each broker.

What is seen depends on the machine, too, which may be slow or busy with other tests: what differs is lived through
again with fewer stories side by side, see tests/again.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import again
from tests.simulation.accounts import Seen, simulated
from tests.simulation.reality import Lived, kafka_python, live
from tests.simulation.stories import STORIES, story
from tests.simulation.validate import broker, differences, is_close

AT_ONCE = 2
"""So many stories are lived side by side when something has differed with all of them side by side."""
ALL: list[Lived] = [(name, story(name), kafka_python) for name in STORIES]


def in_turn(lives: Sequence[Lived], bootstrap: str) -> dict[str, Seen]:
    """What comes of them, some at a time."""
    seen: dict[str, Seen] = {}
    for first in range(0, len(lives), AT_ONCE):
        seen |= live(lives[first : first + AT_ONCE], bootstrap)
    return seen


@pytest.mark.alone
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "which",
    [pytest.param("ours", marks=pytest.mark.clients), pytest.param("kafka", marks=pytest.mark.reference)],
)
def test_what_is_predicted_is_what_is_seen(which: str, tmp_path: Path, record_property: again.Record) -> None:
    predicted = {name: simulated(scenario) for name, scenario, _command in ALL}
    with broker(which, tmp_path) as bootstrap:
        seen = live(ALL, bootstrap)
        found = {name: differences(predicted[name], each) for name, each in seen.items()}
        if again.too_many(len(ALL), [name for name in found if found[name]]):
            # Two brokers and sixty consumers at once are too much for a slow machine: it tells nothing of the model.
            calm = in_turn([each for each in ALL if found[each[0]]], bootstrap)
            found |= {name: differences(predicted[name], each) for name, each in calm.items()}
        suspects = [each for each in ALL if found[each[0]]]
        failures = dict.fromkeys((name for name, _scenario, _command in suspects), 0)
        if not again.too_many(len(ALL), failures):
            copies = [(f"{name} {copy}", *rest) for copy in range(again.TRIES) for name, *rest in suspects]
            for life, one in in_turn(copies, bootstrap).items():
                name = life.rpartition(" ")[0]
                failures[name] += bool(differences(predicted[name], one))
    again.tell(record_property, f"stories beside {which}", len(ALL), failures)
    assert not again.verdict(len(ALL), failures), {name: found[name] for name in failures}


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
