"""A server that was started on data has loaded its groups: a test's first request is not answered that it loads."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from coordinatord.testing import Kafka
from coordinatord.testing.wire import Wire
from kafka_wire.api.list_groups import ListGroupsRequest
from tests.crash.large_log import write

COMMITS = 100_000
"""It takes a while to load so many."""


@pytest.mark.parametrize("where", ["thread", "process"])
def test_a_started_server_has_loaded_its_groups(where: Literal["thread", "process"], tmp_path: Path) -> None:
    write(tmp_path, COMMITS)
    with Kafka(where, data_dir=tmp_path) as kafka:
        host, _colon, port = kafka.bootstrap_servers.rpartition(":")
        wire = Wire(lambda: (host, int(port)))
        listed = wire.ask(ListGroupsRequest(), 4)
        kafka.restart()
        again = wire.ask(ListGroupsRequest(), 4)
        wire.close()
    assert (listed.error_code, len(listed.groups)) == (0, 21)
    assert (again.error_code, len(again.groups)) == (0, 21)
