"""What takes tokens of controller_mutation_rate: the same as in Apache Kafka, with the same answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.reference.in_process import run
from tests.server.access.mutations import CASES, SETTINGS, outcomes, recorded
from tests.server.access.ours import AUTHORIZER, authorized


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    async def asked() -> dict[str, Any]:
        settings = {**AUTHORIZER, **SETTINGS}
        async with authorized(tmp_path_factory.mktemp("data"), settings) as (_daemon, connect):
            return await outcomes(connect)

    found: dict[str, Any] = json.loads(json.dumps(run(asked())))
    return found


KAFKAS = recorded()


@pytest.mark.parametrize("case", [name for name, _, _ in CASES])
def test_changes_of_partitions_take_the_tokens_that_they_take_in_kafka(case: str, ours: dict[str, Any]) -> None:
    assert ours[case] == KAFKAS[case]
