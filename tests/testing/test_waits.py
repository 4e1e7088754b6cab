"""Waits for records and commits, which another thread writes meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from coordinatord.testing import Kafka, NotInTime
from tests.server.control.world import GROUP, TOPIC, Client, coordinator


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with coordinator() as started:
        yield started


def later(work: Callable[[], object]) -> None:
    """Do it when the wait is likely to be under way; before that it would be seen at once."""
    threading.Timer(0.1, work).start()


def test_records_of_a_topic_that_is_made_later(kafka: Kafka) -> None:
    later(lambda: kafka.put("bills", ["one", "two"]))
    assert sorted(kafka.until_records("bills", 2).result) == [b"one", b"two"]
    assert kafka.until_records("bills", 1).result, "more are there"
    with pytest.raises(NotInTime, match=r"3 records in bills: not within 0\.05 s\. There is: \[b'"):
        kafka.until_records("bills", 3, timeout=0.05)


def test_records_that_any_of_two_workers_writes() -> None:
    with Kafka("process", settings={"workers": 2}) as kafka:
        later(lambda: kafka.put("bills", range(8)))
        kafka.until_records("bills", 8)


def test_commits(kafka: Kafka) -> None:
    kafka.put(TOPIC, range(4), partition=0)
    member = Client(kafka, "a").join()
    group = kafka.group(GROUP)
    with pytest.raises(NotInTime, match="no lag: not within"):
        group.until_caught_up(timeout=0.05)
    later(lambda: member.commit(2))
    assert group.until_committed({(TOPIC, 0): 2}).result == {(TOPIC, 0): 2}
    with pytest.raises(NotInTime, match=r"commits of \{\('t', 0\): 3\}: not within .* There is: \{\('t', 0\): 2\}"):
        group.until_committed({(TOPIC, 0): 3}, timeout=0.05)
    later(lambda: member.commit(4))
    assert group.until_caught_up().result == {(TOPIC, 0): 0}


async def test_a_coroutine_awaits_them() -> None:
    with coordinator() as kafka:
        later(lambda: kafka.put("bills", ["one"]))
        assert await kafka.until_records("bills", 1) == [b"one"]
