"""The tests' own daemon: a start that is cut off, as pytest's timeout does, leaves no process behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import daemon as harness
from tests.daemon import Daemon, is_running


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
