"""ListTransactions: its patterns, and whose ids they are asked about."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from coordinatord.coordination.group.consumer.expressions import compile_expression
from coordinatord.coordination.transactions.apis import transactions as apis
from coordinatord.server.access.rules import Client
from coordinatord.server.access.table import TABLE
from coordinatord.transport.net.cooperative_tasks import CooperativeTask, TaskSteps, run_through
from coordinatord.transport.net.received import AuthorizationResult
from coordinatord.transport.security.authorizer import Operation, ResourceType
from kafka_wire.api.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode
from tests.broker.topics.world import Context
from tests.coordination.transactions.world import World

LIST = ApiKey.LIST_TRANSACTIONS
IDS = ["billing-1", "billing-2", "Billing-3", "zählung"]


@pytest.fixture
def world() -> World:
    made = World()
    for name in IDS:
        made.producer(id_=name)
    return made


def listed(response: ListTransactionsResponse) -> list[str]:
    assert response.error_code == 0
    return [each.transactional_id for each in response.transaction_states]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("billing-.*", IDS[:2]),
        ("billing", []),
        ("(?i)billing-[0-9]", IDS[:3]),
        (r"\pL+", IDS[3:]),
        ("(?:^billing-1$)|(?P<name>z.*)", [IDS[0], IDS[3]]),
        ("(?:billing-1|){300}", IDS[:1]),
        ("|".join(f"billing-{number}" for number in range(200)), IDS[:2]),
    ],
)
def test_the_patterns_are_those_of_re2(world: World, pattern: str, found: list[str]) -> None:
    """Kafka's answers to the first ones are in the story transaction_lists."""
    response = world.call(LIST, 2, ListTransactionsRequest(transactional_id_pattern=pattern))
    assert listed(response) == found


@pytest.mark.parametrize("pattern", ["(", "a**", r"\1", "(?=a)", "[z-a]", "a{1001}", "((a{100}){100}){100}"])
def test_patterns_that_are_refused(world: World, pattern: str) -> None:
    response = world.call(LIST, 2, ListTransactionsRequest(transactional_id_pattern=pattern))
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert response.transaction_states == []


class SmallLetters:
    """An authorizer of a client that may describe ids which begin with a small letter."""

    def allows(self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        assert (operation, resource_type) == (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
        return name[0].islower()


def test_the_pattern_is_not_asked_about_ids_of_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Watched:
        """An expression that counts."""

        def __init__(self, pattern: str) -> None:
            self.matches_name = compile_expression(pattern).matches

        def matches(self, name: str) -> bool:
            asked.append(name)
            return self.matches_name(name)

    monkeypatch.setattr(apis, "compile_expression", Watched)
    context: Any = Context(world, LIST, 2)
    context.admitted = AuthorizationResult()
    authorizer: Any = SmallLetters()
    client = Client(authorizer, world.topics, "User:alice", "127.0.0.1", False)
    request = ListTransactionsRequest(transactional_id_pattern="(?i).*billing.*")
    slices = TABLE[LIST](client, context, request, world.handlers[LIST])
    assert listed(run_through(slices.steps)) == IDS[:2]
    assert asked == [IDS[0], IDS[1], IDS[3]]


def test_ids_are_matched_on_another_thread_and_in_turns(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop may go on after each id, and so may the jobs of others."""
    monkeypatch.setattr(apis, "BACKGROUND_SLICE_S", 0.0)
    slices = world.handlers[LIST](Context(world, LIST, 2), ListTransactionsRequest(transactional_id_pattern=".*"))
    assert isinstance(slices, CooperativeTask)
    jobs = pauses = 0

    def counted() -> TaskSteps:
        nonlocal jobs, pauses
        value: Any = None
        with contextlib.suppress(StopIteration):
            while True:
                waits = slices.steps.send(value)
                jobs += waits is not None
                pauses += waits is None
                value = yield waits

    run_through(counted())
    assert jobs >= 1 + len(IDS)
    assert pauses >= 2 * len(IDS)


def test_an_id_that_expires_meanwhile_is_not_listed(world: World) -> None:
    slices = world.handlers[LIST](Context(world, LIST, 2), ListTransactionsRequest(transactional_id_pattern=".*"))
    compile_job = next(slices.steps)
    assert slices.steps.send(compile_job()) is None
    world.time_ms += world.settings.transactional_id_expiration_ms + 1
    assert world.transactions.expire_ids() == len(IDS)
    world.settle()
    assert listed(run_through(slices.steps)) == []
