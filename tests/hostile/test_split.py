"""A request that is answered some elements at a time gets the answer that it would get in one piece."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coordinatord.transport.net import batching
from kafka_wire import registry
from kafka_wire.api_key import ApiKey
from tests.hostile.largest import Known, largest
from tests.hostile.stage import populate
from tests.hostile.turns import Measured, measured

BYTES = 6_000
"""Of a request: several parts, and nothing that takes long."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Measured, Known]]:
    with measured(tmp_path_factory.mktemp("split")) as daemon:
        yield daemon, populate(daemon)


VERSIONS = [
    (api_key, version)
    for api_key, each in batching.SPLITS.items()
    for version in registry.versions_of(api_key)
    if version >= each.first_version
]


@pytest.mark.parametrize(("api_key", "version"), VERSIONS, ids=lambda value: str(value))
def test_same_answer(
    api_key: int, version: int, stage: tuple[Measured, Known], monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon, known = stage
    changes = api_key in (ApiKey.DELETE_GROUPS,)
    for which, request in largest(api_key, version, known, BYTES):
        if changes and which.endswith(" known"):
            continue
        if hasattr(request, "allow_auto_topic_creation"):
            request.allow_auto_topic_creation = False
        answers = []
        for few in (batching.FEW, 1 << 30):
            monkeypatch.setattr(batching, "FEW", few)
            peer = daemon.peer()
            peer.send(request, version)
            answers.append(peer.receive())
            peer.close()
        assert answers[0], which
        assert answers[0] == answers[1], which
