"""Transactional ids that nobody has used for long."""

from __future__ import annotations

import pytest

from kafka_wire.api.describe_transactions import DescribeTransactionsRequest
from kafka_wire.api.end_txn import EndTxnRequest
from kafka_wire.api.init_producer_id import InitProducerIdRequest
from kafka_wire.api.list_transactions import ListTransactionsRequest
from kafka_wire.errors import ErrorCode as E
from tests.broker.topics.world import Context
from tests.coordination.transactions.world import TX, World


def test_idle_ids_are_forgotten() -> None:
    world = World(transactional_id_expiration_ms=1_000)
    world.create("orders")
    world.producer(id_="idle")
    busy = world.producer()
    world.add(busy)
    world.time_ms += 1_000
    assert world.transactions.expire_ids() == 1
    world.settle()
    world.restart()
    assert list(world.transactions.actors) == [TX]
    assert world.end((0, 0), id_="idle").error_code == E.INVALID_PRODUCER_ID_MAPPING


def expired() -> World:
    """An id has just been forgotten, and the disk has not heard of it yet."""
    world = World(transactional_id_expiration_ms=1_000)
    world.create("orders")
    world.producer()
    world.settle()
    world.time_ms += 1_000
    assert world.transactions.expire_ids() == 1
    return world


def describe(world: World) -> Context:
    return world.send(65, 0, DescribeTransactionsRequest([TX]))


def ids(world: World) -> Context:
    return world.send(66, 0, ListTransactionsRequest())


def test_that_an_id_is_forgotten_is_told_when_it_is_durable() -> None:
    world = expired()
    described, listed = describe(world), ids(world)
    ended = world.send(26, 3, EndTxnRequest(TX, 0, 0, True))
    assert (described.answers, listed.answers, ended.answers) == (0, 0, 0)
    world.settle()
    assert described.response.transaction_states[0].error_code == E.TRANSACTIONAL_ID_NOT_FOUND
    assert listed.response.transaction_states == []
    assert ended.response.error_code == E.INVALID_PRODUCER_ID_MAPPING
    assert (describe(world).answers, ids(world).answers) == (1, 1), "from now on at once"
    assert not world.transactions.actors


@pytest.mark.parametrize("kind", ["kill", "power"])
def test_after_a_crash_nobody_has_been_told_otherwise(kind: str) -> None:
    world = expired()
    described = describe(world)
    world.crash_and_restart(kind)  # type: ignore[arg-type]
    assert described.answers == 0
    assert list(world.transactions.actors) == [TX]


def test_who_comes_back_before_that_gets_an_epoch_of_its_own() -> None:
    world = expired()
    again = world.send(22, 5, InitProducerIdRequest(TX, 60_000, -1, -1))
    assert again.answers == 0
    world.settle()
    assert (again.response.error_code, again.response.producer_epoch) == (0, 0)
    assert list(world.transactions.actors) == [TX]
