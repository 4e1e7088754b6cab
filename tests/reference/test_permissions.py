"""Apache Kafka itself, asked again what it may have answered differently when the permissions were recorded."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.server.access import mutations, subscriptions
from tests.server.access.cases import NOBODY, PRINCIPALS, SUPER, ask_all, prepare
from tests.server.access.kafka import logged_in, secured_kafka
from tests.server.access.record import recorded

pytestmark = pytest.mark.reference


def test_kafkas_answers_are_the_recorded_ones(tmp_path: Path) -> None:
    # Kafka deletes a topic that this principal names twice, by name and by id, and may not describe: it comes last.
    others = sorted(
        PRINCIPALS.keys() - {SUPER, NOBODY}, key=lambda principal: (principal == "not-described", principal)
    )
    principals = [SUPER, NOBODY, *others]

    async def ask(port: int) -> dict[str, dict[str, Any]]:
        connect = logged_in(port)
        return await ask_all(connect, await prepare(connect), principals)

    with secured_kafka(tmp_path) as broker:
        found = json.loads(json.dumps(asyncio.run(ask(broker.port))))
    known = recorded()
    differing = [
        f"{case}, {principal}: {outcome}, recorded: {known[case][principal]}"
        for case, by_principal in found.items()
        for principal, outcome in by_principal.items()
        if outcome != known[case][principal]
    ]
    assert not differing, "\n".join(differing)


def test_what_members_get_to_know_of_topics_is_as_recorded() -> None:
    assert subscriptions.on_kafka() == subscriptions.recorded()


def test_changes_of_partitions_take_tokens_as_recorded() -> None:
    assert mutations.on_kafka() == mutations.recorded()
