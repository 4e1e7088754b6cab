"""Our answers about ACLs and quotas are Kafka's, whole: results, errors and their messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.reference.in_process import run
from tests.server.access.answers import REQUESTS, answers, recorded
from tests.server.access.ours import authorized


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    async def ask(directory: Path) -> list[Any]:
        async with authorized(directory) as (_daemon, connect):
            return await answers(connect)

    found = run(ask(tmp_path_factory.mktemp("data")))
    plain: list[Any] = json.loads(json.dumps(found))
    return plain


@pytest.mark.parametrize("number", range(len(REQUESTS)))
def test_an_answer_is_kafkas(number: int, ours: list[Any]) -> None:
    assert ours[number] == recorded()[number], REQUESTS[number]


def test_every_request_was_recorded() -> None:
    assert len(recorded()) == len(REQUESTS)
