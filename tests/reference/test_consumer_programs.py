"""Random programs of both protocols: our daemon does what Kafka did. How they are drawn, played and compared:
consumer_programs.py.

What was recorded from Kafka is replayed on virtual time: thirty programs by the quick tests, a thousand by the slow
ones. When recordings have changed, the full run has Kafka play every fiftieth of the thousand.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from coordinatord.coordination.group.consumer import heartbeat, leaving
from tests.reference.consumer_programs import (
    QUICK_RECORDINGS,
    QUICK_SEEDS,
    RECORDINGS,
    SEEDS,
    compare,
    recordings,
    replayed,
    report,
)
from tests.reference.consumer_steps import MAX_STEPS, SEATS, program

pytestmark = pytest.mark.interpreted

PARTS = 8  # of the thousand, for as many processes as there are


def test_we_do_what_kafka_did() -> None:
    found = replayed(QUICK_SEEDS, QUICK_RECORDINGS)
    assert not found, "\n".join(one.text() for one in found)


def test_a_seed_stands_for_one_program() -> None:
    for seed in range(100):
        drawn = program(seed)
        assert drawn == program(seed)
        assert 1 <= len(drawn.seats) <= len(SEATS)
        assert 0 < len(drawn.steps) <= MAX_STEPS + 1
    assert program(1).steps != program(2).steps


def test_what_was_recorded_says_much() -> None:
    """Every request of the family, in groups that are migrated in both directions, and most of their errors."""
    told = [story for pairs, _ in recordings(QUICK_RECORDINGS).values() for _, story in pairs]
    text = "\n".join(story.text() for story in told)
    requests = {name for name, _ in re.findall(r"^\w+[:>] (\w+) v(\d+)", text, re.MULTILINE)}
    assert requests >= {
        "ConsumerGroupHeartbeat", "ConsumerGroupDescribe", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup",
        "OffsetCommit", "OffsetFetch", "TxnOffsetCommit", "DescribeGroups", "ListGroups", "DeleteGroups",
        "OffsetDelete", "IncrementalAlterConfigs",
    }  # fmt: skip
    errors = set(re.findall(r"error_code=(\w+)", text))
    assert errors >= {
        "NONE", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS", "INVALID_REQUEST",
        "GROUP_ID_NOT_FOUND", "GROUP_MAX_SIZE_REACHED", "FENCED_MEMBER_EPOCH", "UNRELEASED_INSTANCE_ID",
        "UNSUPPORTED_ASSIGNOR", "STALE_MEMBER_EPOCH", "INVALID_REGULAR_EXPRESSION", "FENCED_INSTANCE_ID",
        "NON_EMPTY_GROUP", "GROUP_SUBSCRIBED_TO_TOPIC", "UNSUPPORTED_VERSION",
    }  # fmt: skip
    states = set(re.findall(r"group_state='(\w+)'", text))
    assert states >= {"Empty", "Stable", "Assigning", "Reconciling", "PreparingRebalance", "CompletingRebalance"}


def _nothing(*arguments: Any, **more: Any) -> None:
    """No objection, and no new epoch."""


MUTANTS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "nobody is fenced": (heartbeat, "member_refusal", _nothing),
    "leaving raises no epoch": (leaving, "raise_epoch", _nothing),
}
"""One wrong thing each: (module, name, what stands there instead). tests/mutants has more of them."""


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mistake_is_found(name: str) -> None:
    module, attribute, wrong = MUTANTS[name]
    with mock.patch.object(module, attribute, wrong):
        found = replayed(QUICK_SEEDS[:12], QUICK_RECORDINGS)
    assert found, "twelve programs and nobody noticed"
    assert "--- Kafka\n+++ coordinatord" in found[0].text()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(PARTS))
def test_we_do_what_kafka_did_a_thousand_times(part: int) -> None:
    found = replayed(SEEDS[part::PARTS], RECORDINGS)
    assert not found, "\n".join(one.text() for one in found)


@pytest.mark.reference
@pytest.mark.recordings
@pytest.mark.timeout(900)
def test_a_fiftieth_of_them_on_kafka(kafka_libs: Path) -> None:
    seeds = SEEDS[::50]
    outcome = compare(kafka_libs, [program(seed) for seed in seeds], minutes=10, shrink_first=0)
    assert not outcome.found, report(outcome)
    assert outcome.played >= len(seeds) * 0.9, report(outcome)
