"""Predictions for the consumer protocol beside Java's consumers in real time, on this coordinator: half a minute.

In a file of its own, so that nothing runs beside it.
"""

from __future__ import annotations

import pytest

from tests.daemon import running
from tests.support.rows import selected
from tests.testing.simulation.accounts import Seen, simulated
from tests.testing.simulation.reality import java, live
from tests.testing.simulation.stories import CONSUMER_STORIES
from tests.testing.simulation.validate import differences

CONSUMER_SETTINGS = {
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "150",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
}


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen]:
    """What consumers did, by story; of the stories that this run selects."""
    names = [row["name"] for row in selected(request.session, test_what_is_predicted_of_the_consumer_protocol_is_seen)]
    with running(tmp_path_factory.mktemp("daemon"), CONSUMER_SETTINGS) as daemon:
        return live([(name, CONSUMER_STORIES[name], java) for name in names], daemon.bootstrap)


@pytest.mark.alone
@pytest.mark.reference
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", CONSUMER_STORIES)
def test_what_is_predicted_of_the_consumer_protocol_is_seen(name: str, seen: dict[str, Seen]) -> None:
    assert differences(simulated(CONSUMER_STORIES[name]), seen[name]) == []
