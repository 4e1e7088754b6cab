"""Every API × principal × permission: our daemon answers as Apache Kafka 4.3 with its StandardAuthorizer did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coordinatord.base.config.address import parse_listeners
from coordinatord.server.access.table import TABLE
from coordinatord.transport.cluster.peers import LISTENER
from kafka_wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafka_wire.errors import ErrorCode
from tests.reference.in_process import run
from tests.server.access.cases import CASES, GROUP, OTHER_GROUP, PRINCIPALS, ask_all, prepare
from tests.server.access.ours import authorized
from tests.server.access.record import recorded
from tests.server.access.repeated import REPEATED


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    async def all_of_them(directory: Path) -> dict[str, dict[str, Any]]:
        async with authorized(directory) as (_daemon, connect):
            ids = await prepare(connect)
            return await ask_all(connect, ids, list(PRINCIPALS))

    found = run(all_of_them(tmp_path_factory.mktemp("data")))
    plain: dict[str, dict[str, Any]] = json.loads(json.dumps(found))
    return plain


KAFKAS = recorded()
REPEATED_CASES = {f"{name} v{version}" for name, version, _ in REPEATED}


def by_element(outcome: Any) -> Any:
    """An outcome without how often an element is answered: a topic that a request names twice is in the response twice
    with one partition, once with two, or once with one, as Kafka's handlers happen to collect them.
    """
    if isinstance(outcome, dict):
        return {name: by_element(value) for name, value in outcome.items()}
    if not isinstance(outcome, list):
        return outcome
    found: dict[str, Any] = {}
    for each in outcome:
        inner = [name for name, value in each.items() if isinstance(value, list)]
        alone = [{**each, name: [part]} for name in inner for part in each[name]] if len(inner) == 1 else [each]
        for made in alone:
            made = by_element(made)
            found[json.dumps(made, sort_keys=True)] = made
    return [found[key] for key in sorted(found)]


@pytest.mark.parametrize("case", [f"{name} v{version}" for name, version, _ in CASES])
def test_permissions_decide_as_in_kafka(case: str, ours: dict[str, dict[str, Any]]) -> None:
    differing = {
        principal: (theirs, ours[case][principal])
        for principal, theirs in KAFKAS[case].items()
        if ours[case][principal] != theirs
        and not (case in REPEATED_CASES and by_element(ours[case][principal]) == by_element(theirs))
    }
    assert not differing


def test_the_record_has_every_case_and_principal() -> None:
    assert KAFKAS.keys() == {f"{name} v{version}" for name, version, _ in CASES}
    assert all(by_principal.keys() == PRINCIPALS.keys() for by_principal in KAFKAS.values())


def test_each_case_is_decided_by_permissions() -> None:
    """A case with one outcome for all shows nothing, unless it is about an error that comes first."""
    alike = {
        case
        for case, by_principal in KAFKAS.items()
        if len({json.dumps(outcome, sort_keys=True) for outcome in by_principal.values()}) == 1
    }
    assert alike - REPEATED_CASES <= {"SyncGroup v5", "DeleteTopics by unknown id v6"}, alike


def test_groups_of_an_offset_fetch_are_answered_in_the_order_of_the_request(tmp_path: Path) -> None:
    """KafkaApis.handleOffsetFetchRequest: refused ones in their places, so that a client may count."""
    asked = [OTHER_GROUP, GROUP, OTHER_GROUP, GROUP]

    async def answered() -> list[tuple[str, int]]:
        async with authorized(tmp_path) as (_daemon, connect):
            await prepare(connect)
            client = await connect("group-describe")
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None) for group in asked])
            return [(group.group_id, group.error_code) for group in (await client.ask(request, 9)).groups]

    errors = {GROUP: ErrorCode.NONE, OTHER_GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED}
    assert run(answered()) == [(group, errors[group]) for group in asked]


@pytest.mark.parametrize("spelling", ["WORKERS", "workers", "Workers"])
def test_no_listener_of_clients_is_taken_for_that_of_other_workers(spelling: str) -> None:
    """Requests of other workers meet no ACLs, since those workers have checked their clients."""
    (listener,) = parse_listeners(f"{spelling}://127.0.0.1:0")
    assert listener.name != LISTENER


def test_each_api_that_is_served_has_a_rule(tmp_path: Path) -> None:
    async def served() -> set[int]:
        async with authorized(tmp_path) as (daemon, _connect):
            return set(daemon.door.router.routes.handlers)  # type: ignore[attr-defined]

    assert run(served()) - {18} <= TABLE.keys()
