"""The tests' own daemon: a start that is cut off, as pytest's timeout does, leaves no process behind; after one that is
not, groups are loaded.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinatord.testing.wire import Wire
from kafka_wire.api.list_groups import ListGroupsRequest
from tests import daemon as harness
from tests.crash.large_log import write
from tests.daemon import HOST, Daemon, is_running, running

COMMITS = 100_000
"""It takes a while to load so many: bare connections would hear of it."""


class CutOff(BaseException):
    """What pytest's timeout raises is no Exception either."""


def test_a_start_that_is_cut_off_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = Daemon(tmp_path)
    pids: list[int] = []

    def cut_off(_port: int) -> bool:
        pids.append(started.pid)
        assert is_running(started.pid)
        raise CutOff

    monkeypatch.setattr(harness, "answers_api_versions", cut_off)
    with pytest.raises(CutOff):
        started.start()
    assert len(pids) == 1
    assert not is_running(pids[0])
    assert started.process is None


def test_after_a_start_the_groups_are_loaded(tmp_path: Path) -> None:
    write(tmp_path / "data", COMMITS)
    with running(tmp_path) as daemon:
        wire = Wire(lambda: (HOST, daemon.port))
        listed = wire.ask(ListGroupsRequest(), 4)
        wire.close()
    [loaded] = daemon.events("groups loaded")  # said a moment after the groups are served
    assert loaded["records"] == COMMITS + 1
    assert (listed.error_code, len(listed.groups)) == (0, 21)
