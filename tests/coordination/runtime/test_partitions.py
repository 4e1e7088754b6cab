"""What is served, and what a request for the rest hears."""

from __future__ import annotations

import pytest

from coordinatord.coordination.runtime.partitions import ACTIVE, FAILED, LOADING, UNLOADED, Partitions
from kafka_wire.errors import ErrorCode


def test_what_a_node_owns_is_loaded_and_served() -> None:
    partitions = Partitions(4, lambda partition: partition != 2)
    assert partitions.states == [LOADING, LOADING, UNLOADED, LOADING]
    assert partitions.to_load() == [0, 1, 3]
    partitions.loaded(0)
    partitions.failed(1)
    assert partitions.is_loading
    assert [partitions.availability(each) for each in range(4)] == [
        ErrorCode.NONE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ]
    assert partitions.counts() == {"loading": 1, "active": 1, "failed": 1}
    partitions.loaded(3)
    assert (partitions.is_loading, partitions.to_load()) == (False, [])


def test_a_topic_that_is_made_later_has_nothing_to_load() -> None:
    partitions = Partitions(0, lambda partition: partition == 1)
    assert not partitions
    assert (partitions.is_loading, partitions.counts()["loading"]) == (False, 0)
    partitions.made(3)
    assert partitions.states == [UNLOADED, ACTIVE, UNLOADED]
    assert len(partitions) == 3


@pytest.mark.parametrize("state", [LOADING, ACTIVE, FAILED, UNLOADED])
def test_only_a_partition_that_is_being_loaded_is_waited_for(state: int) -> None:
    partitions = Partitions(1)
    partitions.states[0] = state
    assert partitions.is_loading == (state == LOADING)
    assert (partitions.availability(0) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) == (state == LOADING)
    assert (partitions.availability(0) is ErrorCode.NONE) == (state == ACTIVE)
