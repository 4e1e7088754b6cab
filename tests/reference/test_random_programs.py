"""Random programs: our daemon does what Kafka did. How they are drawn, played and compared: random_programs.py.

What was recorded from Kafka is replayed on virtual time: twenty programs by the quick tests, a thousand by the slow
ones. When recordings have changed, the full run has Kafka play every fiftieth of the thousand. The full run also has
Kafka play new programs: COORDINATORD_RANDOM_PROGRAMS of them, from the seed COORDINATORD_RANDOM_FIRST on, for at most
COORDINATORD_RANDOM_MINUTES.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from coordinatord.coordination.group.classic import joining, leaving, rebalance
from coordinatord.coordination.group.classic import step as classic
from coordinatord.coordination.group.state import Group, heartbeat_error
from kafka_wire.errors import ErrorCode
from tests.reference import differences as known
from tests.reference.random_player import Played
from tests.reference.random_programs import (
    THOUSAND,
    THOUSAND_SEEDS,
    Difference,
    compare,
    differences,
    play_on_ours,
    recordings,
    report,
)
from tests.reference.random_steps import DELAYED, MAX_STEPS, SEATS, SETTINGS, Program, program

pytestmark = pytest.mark.interpreted

RECORDED = recordings()
PARTS = 8  # of the thousand, for as many processes as there are


def different(pairs: list[tuple[Program, Played]], left_out: set[int] | None = None) -> list[Difference]:
    found = []
    for settings in (SETTINGS, DELAYED):
        with_these = [(it, story) for it, story in pairs if it.settings == settings]
        if with_these:
            found += differences(with_these, settings, left_out)
    return found


def test_we_do_what_kafka_did() -> None:
    found = different(RECORDED)
    assert not found, "\n".join(one.text() for one in found)


def test_a_seed_stands_for_one_program() -> None:
    for seed in range(100):
        drawn = program(seed)
        assert drawn == program(seed)
        assert 1 <= len(drawn.seats) <= len(SEATS)
        assert 0 < len(drawn.steps) <= MAX_STEPS
    assert program(1).steps != program(2).steps


def test_programs_keep_to_the_grid() -> None:
    """What they sleep within a burst is no longer than a burst; the rest is up to Kafka's speed."""
    drawn = [program(seed) for seed in range(1000, 1060) if program(seed).settings == SETTINGS]
    played = play_on_ours([(it, Played([], {}, True)) for it in drawn], SETTINGS)
    assert all(one.is_in_time for one in played)


def test_what_was_recorded_says_much() -> None:
    """Every request of the family, most of their errors, and answers that came later."""
    text = "\n".join(story.text() for _, story in RECORDED)
    requests = {name for name, _ in re.findall(r"^\w+[:>] (\w+) v(\d+)", text, re.MULTILINE)}
    assert requests == {
        "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch", "DescribeGroups",
        "ListGroups", "DeleteGroups", "OffsetDelete",
    }  # fmt: skip
    errors = set(re.findall(r"error_code=(\w+)", text))
    assert errors >= {
        "NONE", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS", "MEMBER_ID_REQUIRED",
        "INCONSISTENT_GROUP_PROTOCOL", "GROUP_MAX_SIZE_REACHED", "FENCED_INSTANCE_ID", "NON_EMPTY_GROUP",
        "GROUP_ID_NOT_FOUND", "UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID",
    }  # fmt: skip
    assert re.search(r"<\n----\nafter [1-9]", text), "nobody waited for a timeout"


def _keeps_waiting(group: Group, now_ms: int, result: Any) -> None:
    """A last member that comes back does not complete the rebalance."""


def _leaves_syncs_parked(group: Group, now_ms: int, result: Any) -> None:
    """Nobody is told that the generation is given up."""
    for member in group.members.values():
        member.assignment = b""


MUTANTS: dict[str, tuple[Any, str, Any]] = {
    "wrong error for a wrong generation": (
        classic, "HEARTBEAT_ILLEGAL_GENERATION", heartbeat_error(ErrorCode.UNKNOWN_MEMBER_ID)
    ),
    "nobody is fenced": (classic, "refusal", lambda group, member_id, instance: (
        None if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID
    )),
    "who does not sync may stay": (classic, "sync_timed_out", lambda group, now_ms, result: None),
    "a join does not complete the rebalance": (joining, "maybe_complete_join", _keeps_waiting),
    "a leave does not complete the rebalance": (leaving, "maybe_complete_join", _keeps_waiting),
    "parked syncs stay": (rebalance, "reset_assignments", _leaves_syncs_parked),
    "everything is supported": (joining, "supports_protocols", lambda group, type_, names: True),
    "any protocol wins": (rebalance, "select_protocol", lambda group: sorted(
        name for name, count in group.supported_protocols.items() if count == len(group.members)
    )[-1]),
    "rebalances are not timed": (rebalance, "_set_join_timer", lambda *arguments: None),
}  # fmt: skip
"""One wrong thing each: (module, name, what stands there instead)."""


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mistake_is_found(name: str) -> None:
    module, attribute, wrong = MUTANTS[name]
    with mock.patch.object(module, attribute, wrong):
        found = different(RECORDED)
    assert found, "twenty programs and nobody noticed"
    assert f"program {found[0].program.seed}" in found[0].story()


def test_a_difference_is_told_with_what_repeats_it() -> None:
    module, attribute, wrong = MUTANTS["wrong error for a wrong generation"]
    with mock.patch.object(module, attribute, wrong):
        one = different(RECORDED)[0]
    assert "-error_code=ILLEGAL_GENERATION\n+error_code=UNKNOWN_MEMBER_ID" in one.text()
    *_, kafka, mark, ours = one.story().splitlines()
    assert kafka == "error_code=ILLEGAL_GENERATION"
    assert mark.startswith("---- ours: ")
    assert ours == "error_code=UNKNOWN_MEMBER_ID"


def test_every_difference_has_its_reason() -> None:
    listed = [*known.ALLOWED, *known.told()]
    assert all(one.what and one.reason and one.where for one in listed)
    root = Path(__file__).parents[2]
    assert all((root / one.where).exists() for one in known.ALLOWED)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
def test_we_do_what_kafka_did_a_thousand_times(part: int) -> None:
    played = recordings(THOUSAND)
    assert [it.seed for it, _ in played] == list(THOUSAND_SEEDS)
    left_out = set[int]()
    found = different(played[part::PARTS], left_out)
    assert not found, "\n".join(one.text() for one in found)
    assert len(left_out) <= len(THOUSAND_SEEDS) / PARTS * 0.05, f"nothing can be said of {sorted(left_out)}"


@pytest.mark.reference
@pytest.mark.recordings
@pytest.mark.timeout(1800)
def test_a_fiftieth_of_them_on_kafka(kafka_libs: Path) -> None:
    seeds = THOUSAND_SEEDS[::50]
    outcome = compare(kafka_libs, [program(seed) for seed in seeds], minutes=10, shrink_first=0)
    assert not outcome.found, report(outcome)
    assert outcome.played - len(outcome.left_out) >= len(seeds) * 0.8, report(outcome)


@pytest.mark.reference
@pytest.mark.alone
@pytest.mark.timeout(3600)
def test_a_thousand_programs(kafka_libs: Path) -> None:
    first = int(os.environ.get("COORDINATORD_RANDOM_FIRST", "1"))
    count = int(os.environ.get("COORDINATORD_RANDOM_PROGRAMS", "1000"))
    minutes = float(os.environ.get("COORDINATORD_RANDOM_MINUTES", "30"))
    outcome = compare(kafka_libs, [program(seed) for seed in range(first, first + count)], minutes)
    assert not outcome.found, report(outcome)
    # On a busy machine some are not in time, however often they are played.
    assert outcome.played - len(outcome.left_out) >= count * 0.9, report(outcome)
