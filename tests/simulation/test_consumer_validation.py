"""Does it come true with the consumer protocol? In a file of its own: nothing else runs beside it, nor it beside the
stories of test_validation.py when they are lived again in calm.
"""

from __future__ import annotations

from pathlib import Path

import pytest

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
@pytest.mark.timeout(300)
def test_what_is_predicted_of_the_consumer_protocol_is_what_is_seen(tmp_path: Path) -> None:
    """With Java's consumers and this coordinator; half a minute, and once more for what differs."""
    found: dict[str, list[str]] = {}
    lives: list[Lived] = [(name, scenario, java) for name, scenario in CONSUMER_STORIES.items()]
    with running(tmp_path, CONSUMER_SETTINGS) as daemon:
        for copy in range(2):
            seen = live([(f"{name} {copy}", *rest) for name, *rest in lives], daemon.bootstrap)
            found = {
                name: differences(simulated(scenario), seen[f"{name} {copy}"]) for name, scenario, _command in lives
            }
            lives = [each for each in lives if found[each[0]]]
            if not lives:
                return
    assert found == {}
