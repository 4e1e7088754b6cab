"""Connections for a question that a user waits for."""

from __future__ import annotations

import pytest
from kafka.errors import KafkaConnectionError
from kafka.net.selector import NetworkSelector

from coordinatord.monitoring.offsets_log.source.connecting import CLOSED_OFTEN, AtAPrompt

REFUSED = KafkaConnectionError("111 ECONNREFUSED")
UNKNOWN_HOST = KafkaConnectionError("DNS failure")
CLOSED = KafkaConnectionError("socket disconnected")


def manager_of(*addresses: str) -> AtAPrompt:
    return AtAPrompt(NetworkSelector(), bootstrap_servers=list(addresses))


def has_ended(manager: AtAPrompt, error: Exception, node_id: str = "bootstrap-0") -> bool:
    """Whether this failure ends the wait."""
    manager._failed(node_id, error)
    try:
        manager.maybe_raise_auth_failure(node_id)
    except KafkaConnectionError as raised:
        return raised is error
    return False


@pytest.mark.parametrize("error", [REFUSED, UNKNOWN_HOST], ids=str)
def test_the_first_plain_failure_of_the_only_address_ends_the_wait(error: Exception) -> None:
    assert has_ended(manager_of("here:1"), error)


def test_an_address_that_closes_connections_ends_the_wait_at_its_limit() -> None:
    manager = manager_of("here:1")
    assert [has_ended(manager, CLOSED) for _ in range(CLOSED_OFTEN)] == [False] * (CLOSED_OFTEN - 1) + [True]


@pytest.mark.parametrize("error", [REFUSED, CLOSED], ids=str)
def test_one_of_several_addresses_may_fail(error: Exception) -> None:
    manager = manager_of("here:1", "there:1")
    assert not any(has_ended(manager, error) for _ in range(CLOSED_OFTEN))


@pytest.mark.parametrize("error", [REFUSED, UNKNOWN_HOST], ids=str)
def test_the_last_of_several_addresses_that_refuse_ends_the_wait(error: Exception) -> None:
    manager = manager_of("here:1", "there:1")
    assert not has_ended(manager, error, "bootstrap-0")
    assert has_ended(manager, error, "bootstrap-1")


def test_several_addresses_that_close_connections_end_the_wait_at_their_limit() -> None:
    manager = manager_of("here:1", "there:1")
    ends = [has_ended(manager, CLOSED, f"bootstrap-{number % 2}") for number in range(2 * CLOSED_OFTEN)]
    assert ends == [False] * (2 * CLOSED_OFTEN - 1) + [True]


@pytest.mark.parametrize("error", [REFUSED, CLOSED], ids=str)
def test_a_cluster_that_has_answered_may_come_back(error: Exception) -> None:
    manager = manager_of("here:1")
    manager._connected(None)
    assert not any(has_ended(manager, error) for _ in range(CLOSED_OFTEN))
