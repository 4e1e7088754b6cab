"""The row whose clients are real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.registry import OURS_NEVER, Arena
from bench.rows import real


@pytest.mark.clients
def test_consumers_of_librdkafka_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real, "CONSUMERS", 3)
    monkeypatch.setattr(real, "COMPLETE", 0.1)
    monkeypatch.setattr(real, "WINDOWS", 1)
    sample = real.real_clients(Arena(tmp_path), OURS_NEVER, 3.0)
    assert sample.value > 0
    assert {"Fetch per s", "OffsetCommit per s", "Produce per s"} <= set(sample.also)
