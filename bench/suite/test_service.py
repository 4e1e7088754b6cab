"""A service that reads orders, with three clients and their default settings: five tests, with 1 to 1,000 orders."""

from __future__ import annotations

from typing import Any

import pytest

from bench.suite import clients

pytestmark = [
    pytest.mark.parametrize("count", [1, 10, 100, 1_000]),
    pytest.mark.parametrize("client", clients.ALL, ids=lambda client: client.NAME),
]


def orders(count: int) -> list[bytes]:
    return [b"order %d" % number for number in range(count)]


def test_a_group_reads_what_was_produced(client: Any, count: int, bootstrap: str, name: str) -> None:
    client.produce(bootstrap, name, orders(count))
    with client.consumer(bootstrap, name, name) as consumer:
        assert consumer.read(count) == orders(count)


def test_another_member_takes_over(client: Any, count: int, bootstrap: str, name: str) -> None:
    client.produce(bootstrap, name, orders(count))
    with client.consumer(bootstrap, name, name) as first:
        assert first.read(count) == orders(count)
        first.commit()
    client.produce(bootstrap, name, [b"late"])
    with client.consumer(bootstrap, name, name) as second:
        assert second.read(1) == [b"late"]


def test_a_commit_is_found_again(client: Any, count: int, bootstrap: str, name: str) -> None:
    client.produce(bootstrap, name, orders(count))
    with client.consumer(bootstrap, name, name) as consumer:
        assert consumer.read(count) == orders(count)
        consumer.commit()
        assert consumer.committed(name) == count


def test_only_committed_transactions_are_read(client: Any, count: int, bootstrap: str, name: str) -> None:
    client.transactions(bootstrap, name, aborted=[b"never"], committed=orders(count))
    with client.consumer(bootstrap, name, name, committed_only=True) as consumer:
        assert consumer.read(count) == orders(count)


def test_a_static_member_comes_back(client: Any, count: int, bootstrap: str, name: str) -> None:
    client.produce(bootstrap, name, orders(count))
    for _ in range(2):
        with client.consumer(bootstrap, name, name, instance="shop-1") as consumer:
            assert consumer.read(count) == orders(count)
