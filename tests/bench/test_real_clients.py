"""The row whose clients are real ones."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from bench.real_clients import Requests, per_second
from bench.registry import OURS_NEVER, Arena
from bench.rows import real


def test_requests_are_those_of_all_brokers_in_a_second() -> None:
    """As librdkafka tells: a broker is there once as a bootstrap address, by its id, and as the group's coordinator."""
    account = Requests()
    account.told(json.dumps({"ts": 5_000_000, "brokers": {"a": {"req": {"Fetch": 3, "Produce": 0}}}}))
    before = account.seen()
    brokers = {"a": {"req": {"Fetch": 7}}, "coordinator": {"req": {"Fetch": 0, "OffsetCommit": 2}}}
    account.told(json.dumps({"ts": 9_000_000, "brokers": brokers}))
    assert before == (5.0, Counter({"Fetch": 3}))
    assert per_second(before, account.seen()) == {"Fetch": 1.0, "OffsetCommit": 0.5}
    assert per_second(before, before) == {}


@pytest.mark.clients
def test_consumers_of_librdkafka_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real, "CONSUMERS", 3)
    monkeypatch.setattr(real, "COMPLETE", 0.1)
    monkeypatch.setattr(real, "WINDOWS", 1)
    sample = real.real_clients(Arena(tmp_path), OURS_NEVER, 3.0)
    assert sample.value > 0
    assert {"Fetch per s", "OffsetCommit per s", "Produce per s"} <= set(sample.also)
