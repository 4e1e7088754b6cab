"""Which topics a member of a consumer group gets to know of: as on Apache Kafka, step by step."""

from __future__ import annotations

import json
from pathlib import Path

from tests.reference.in_process import run
from tests.server.access.ours import authorized
from tests.server.access.subscriptions import recorded, story


def test_expressions_match_what_the_client_may_describe_as_in_kafka(tmp_path: Path) -> None:
    async def played() -> list[object]:
        async with authorized(tmp_path) as (_daemon, connect):
            return [*await story(connect)]

    assert json.loads(json.dumps(run(played()))) == recorded()
