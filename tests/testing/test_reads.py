"""What a test reads of offsets and lag; and that each worker of pytest-xdist has a Kafka of its own."""

from __future__ import annotations

import pytest

from coordinatord.testing import Kafka
from tests.server.control.world import GROUP, TOPIC, Client

pytest_plugins = ("pytester",)
pytestmark = pytest.mark.kafka(topics={TOPIC: 2})


def test_lag_is_of_what_a_group_has_committed_or_been_assigned(kafka: Kafka) -> None:
    kafka.put(TOPIC, range(6))
    assert kafka.lag(GROUP) == kafka.committed(GROUP) == {}
    client = Client(kafka, "a").join()  # has the first partition
    assert kafka.lag(GROUP) == {(TOPIC, 0): 3}
    client.commit(2)
    assert kafka.committed(GROUP) == {(TOPIC, 0): 2}
    assert kafka.lag(GROUP) == {(TOPIC, 0): 1}
    kafka.put(TOPIC, range(4))
    assert kafka.lag(GROUP) == {(TOPIC, 0): 3}
    kafka.group(GROUP).kick("a")
    assert kafka.lag(GROUP) == {(TOPIC, 0): 3}, "what was committed stays"


def test_each_worker_of_xdist_has_its_own(pytester: pytest.Pytester) -> None:
    """Each test finds its topic empty, whatever runs beside it; `kafka_session` is one for each process."""
    pytest.importorskip("xdist")
    pytester.makepyfile(
        """
        import os
        import pytest

        pytestmark = pytest.mark.kafka(topics={"orders": 1})

        @pytest.mark.parametrize("number", range(8))
        def test_it(kafka, kafka_session, number):
            assert os.environ["PYTEST_XDIST_WORKER"] in ("gw0", "gw1")
            kafka.put("orders", [number])
            assert kafka.records("orders", decode=int) == [number]
            kafka_session.put("shared", [os.getpid()])
            assert set(kafka_session.records("shared", decode=int)) == {os.getpid()}
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-n", "2", "-W", "ignore")
    result.assert_outcomes(passed=8)
