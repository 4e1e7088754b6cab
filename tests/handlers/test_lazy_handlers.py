"""Handlers that are made by the first request for one of them."""

from __future__ import annotations

from typing import Any

import pytest

from coordinatord.broker.topics import topics
from coordinatord.broker.topics.config_apis import ConfigApis
from coordinatord.broker.topics.replicas import Replicas
from coordinatord.coordination.service.apis.admin import GroupAdmin
from coordinatord.coordination.service.apis.txn_offset_commit import TransactionalOffsets
from coordinatord.coordination.transactions.apis.transactions import TransactionApis
from coordinatord.server.daemon import handlers
from coordinatord.transport.net.lazy_handlers import lazy_handlers
from kafka_wire import registry
from kafka_wire.schema import schema_of


class Two:
    """Handlers of the APIs 1 and 2, which answer with their key and what they are given."""

    def handlers(self) -> dict[int, Any]:
        return {key: lambda context, request, key=key: (key, context, request) for key in (1, 2)}


def test_they_are_made_once_by_the_first_request() -> None:
    made: list[Two] = []

    def make() -> Two:
        made.append(Two())
        return made[-1]

    found: dict[int, Any] = lazy_handlers((1, 2), make)
    assert found.keys() == {1, 2}
    assert made == []
    assert found[2]("context", "request") == (2, "context", "request")
    assert found[1]("context", "other") == (1, "context", "other")
    assert len(made) == 1


def test_others_than_announced_are_noticed() -> None:
    found: dict[int, Any] = lazy_handlers((1, 2, 3), Two)
    with pytest.raises(AssertionError, match=r"\[1, 2\] are served, \[1, 2, 3\] were announced"):
        found[1](None, None)


@pytest.mark.parametrize(
    ("announced", "made"),
    [
        (handlers.GROUP_ADMIN_APIS, GroupAdmin),
        (handlers.TRANSACTION_APIS, TransactionApis),
        (handlers.TRANSACTIONAL_OFFSETS_APIS, TransactionalOffsets),
        (topics.REPLICA_APIS, Replicas),
        (topics.CONFIG_APIS, ConfigApis),
    ],
)
def test_each_is_announced_with_the_keys_that_it_serves(announced: tuple[int, ...], made: Any) -> None:
    assert set(announced) == made.__new__(made).handlers().keys()


@pytest.mark.parametrize("api_key", registry.API_NAMES)
def test_the_table_of_versions_is_that_of_the_declarations(api_key: int) -> None:
    assert registry.versions_of(api_key) == schema_of(registry.messages(api_key)[0]).versions


def test_there_is_no_other_api() -> None:
    with pytest.raises(KeyError):
        registry.versions_of(999)
