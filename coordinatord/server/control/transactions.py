"""A transaction as JSON, and its expiry."""

from __future__ import annotations

from typing import Any

from coordinatord.coordination.transactions import events
from coordinatord.coordination.transactions.coordinator import TransactionActor
from coordinatord.coordination.transactions.state import ONGOING
from coordinatord.server.control.node import Node
from coordinatord.server.control.problems import listed, not_now, not_there


def names(node: Node) -> list[str]:
    """Return all transactional ids, sorted."""
    return sorted(id_ for id_, actor in node.transactions.actors.items() if actor.transaction.exists)


def show(node: Node, transactional_id: str) -> dict[str, Any]:
    """Return a transactional id as JSON."""
    transaction = _actor(node, transactional_id).transaction
    partitions: dict[str, list[int]] = {}
    for topic, partition in transaction.partitions:
        partitions.setdefault(topic, []).append(partition)
    return {
        "transactional_id": transactional_id,
        "state": transaction.state.shown,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "partitions": partitions,
    }


def expire(node: Node, transactional_id: str) -> None:
    """Abort the open transaction, as if transaction.timeout.ms had passed."""
    actor = _actor(node, transactional_id)
    transaction = actor.transaction
    deadline_ms = transaction.deadline_ms
    if transaction.state is not ONGOING or deadline_ms is None:
        state = transaction.state.shown
        raise not_now(f"Transactional id {transactional_id} has no open transaction: its state is {state}.")
    # The step is taken at the deadline; everything else keeps the current time.
    result = node.transactions.step(transaction, events.TimedOut(), max(node.now_ms(), deadline_ms))
    actor.apply(result, node.now_ms())


def _actor(node: Node, transactional_id: str) -> TransactionActor:
    actor = node.transactions.actors.get(transactional_id)
    if actor is None or not actor.transaction.exists:
        known = listed(names(node), "none")
        raise not_there(f"There is no transactional id {transactional_id!r}. There are {known}.")
    return actor
