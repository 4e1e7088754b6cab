"""Does it come true with the consumer protocol? In a file of its own: nothing else runs beside it, nor it beside the
stories of test_validation.py when they are lived again in calm.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import again
from tests.daemon import running
from tests.simulation.accounts import simulated
from tests.simulation.reality import Lived, java, live
from tests.simulation.stories import CONSUMER_STORIES
from tests.simulation.validate import differences

CONSUMER_SETTINGS = {
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "150",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
}


@pytest.mark.alone
@pytest.mark.reference
@pytest.mark.timeout(3600)
def test_what_is_predicted_of_the_consumer_protocol_is_what_is_seen(
    tmp_path: Path, record_property: again.Record
) -> None:
    """With Java's consumers and this coordinator: half a minute, and more for what differs, which is lived through
    again by itself (see tests/again.py).
    """
    lives: list[Lived] = [(name, scenario, java) for name, scenario in CONSUMER_STORIES.items()]
    predicted = {name: simulated(scenario) for name, scenario, _command in lives}
    with running(tmp_path, CONSUMER_SETTINGS) as daemon:
        seen = live(lives, daemon.bootstrap)
        found = {name: differences(predicted[name], each) for name, each in seen.items()}
        if again.too_many(len(lives), [name for name in found if found[name]]):
            # A dozen JVMs at once are too much for a slow machine: it tells nothing of the model.
            for each in [each for each in lives if found[each[0]]]:
                found[each[0]] = differences(predicted[each[0]], live([each], daemon.bootstrap)[each[0]])
        failures = dict.fromkeys((name for name in found if found[name]), 0)
        for name, *rest in [each for each in lives if found[each[0]]]:
            for copy in range(again.TRIES):
                one = live([(f"{name} {copy}", *rest)], daemon.bootstrap)
                failures[name] += bool(differences(predicted[name], one[f"{name} {copy}"]))
    again.tell(record_property, "stories of the consumer protocol", len(lives), failures)
    assert not again.verdict(len(lives), failures), {name: found[name] for name in failures}
