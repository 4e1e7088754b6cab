"""Random programs: our daemon does what Kafka did. How they are drawn, played and compared: programs.py.

What was recorded from Kafka is replayed on virtual time: the first programs by the quick tests, a thousand of each kind
by the slow ones. When recordings have changed, the full run has Kafka play every fiftieth of the thousand. The full run
also has Kafka play new programs of the classic protocol: COORDINATORD_RANDOM_PROGRAMS of them, from the seed
COORDINATORD_RANDOM_FIRST on, for at most COORDINATORD_RANDOM_MINUTES.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.reference import differences as known
from tests.reference.consumer_programs import BOTH
from tests.reference.programs import SEEDS, Vocabulary, compare, recordings, replayed, report
from tests.reference.random_programs import CLASSIC

pytestmark = pytest.mark.interpreted

PARTS = 8  # of the thousand, for as many processes as there are
KINDS = pytest.mark.parametrize("kind", [CLASSIC, BOTH], ids=lambda kind: kind.name)

CLASSIC_REQUESTS = {
    "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch", "DescribeGroups", "ListGroups",
    "DeleteGroups", "OffsetDelete",
}  # fmt: skip
OTHER_REQUESTS = {"ConsumerGroupHeartbeat", "ConsumerGroupDescribe", "TxnOffsetCommit", "IncrementalAlterConfigs"}
COMMON_ERRORS = {
    "NONE", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS", "GROUP_MAX_SIZE_REACHED",
    "FENCED_INSTANCE_ID", "NON_EMPTY_GROUP", "GROUP_ID_NOT_FOUND",
}  # fmt: skip
CLASSIC_ERRORS = {
    "MEMBER_ID_REQUIRED", "INCONSISTENT_GROUP_PROTOCOL", "UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID",
}  # fmt: skip
OTHER_ERRORS = {
    "INVALID_REQUEST", "FENCED_MEMBER_EPOCH", "UNRELEASED_INSTANCE_ID", "UNSUPPORTED_ASSIGNOR", "STALE_MEMBER_EPOCH",
    "INVALID_REGULAR_EXPRESSION", "GROUP_SUBSCRIBED_TO_TOPIC", "UNSUPPORTED_VERSION",
}  # fmt: skip


@pytest.mark.timeout(300)  # with mutants it would end earlier
@KINDS
def test_we_do_what_kafka_did(kind: Vocabulary) -> None:
    found = replayed(kind, recordings(kind.quick_recordings), kind.quick_seeds)
    assert not found, "\n".join(one.text() for one in found)


def told(kind: Vocabulary) -> tuple[str, set[str], set[str]]:
    """What was recorded for the quick tests, and the requests and errors in it."""
    stories = [story for recorded in recordings(kind.quick_recordings).values() for _, story in recorded.told]
    text = "\n".join(story.text() for story in stories)
    requests = {name for name, _ in re.findall(r"^\w+[:>] (\w+) v(\d+)", text, re.MULTILINE)}
    return text, requests, set(re.findall(r"error_code=(\w+)", text))


def test_the_recorded_classic_programs_have_every_request_and_most_errors() -> None:
    text, requests, errors = told(CLASSIC)
    assert requests == CLASSIC_REQUESTS
    assert errors >= COMMON_ERRORS | CLASSIC_ERRORS
    assert re.search(r"<\n----\nafter [1-9]", text), "nobody waited for a timeout"


def test_the_recorded_programs_of_both_protocols_have_every_request_and_most_errors() -> None:
    text, requests, errors = told(BOTH)
    assert requests >= CLASSIC_REQUESTS | OTHER_REQUESTS
    assert errors >= COMMON_ERRORS | OTHER_ERRORS
    states = set(re.findall(r"group_state='(\w+)'", text))
    assert states >= {"Empty", "Stable", "Assigning", "Reconciling", "PreparingRebalance", "CompletingRebalance"}


def test_every_difference_has_its_reason() -> None:
    listed = [*known.ALLOWED, *known.told()]
    assert all(one.what and one.reason and one.where for one in listed)
    root = Path(__file__).parents[2]
    assert all((root / one.where).exists() for one in known.ALLOWED)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(PARTS))
@KINDS
def test_we_do_what_kafka_did_a_thousand_times(kind: Vocabulary, part: int) -> None:
    recorded = recordings(kind.recordings)
    assert sum(len(stories.told) for stories in recorded.values()) >= len(SEEDS) * 0.99
    left_out = set[int]()
    found = replayed(kind, recorded, SEEDS[part::PARTS], left_out)
    assert not found, "\n".join(one.text() for one in found)
    assert len(left_out) <= len(SEEDS) / PARTS * 0.05, f"nothing can be said of {sorted(left_out)}"


@pytest.mark.reference
@pytest.mark.recordings
@pytest.mark.timeout(1800)
@KINDS
def test_a_fiftieth_of_them_on_kafka(kind: Vocabulary, kafka_libs: Path) -> None:
    seeds = SEEDS[::50]
    outcome = compare(kind, kafka_libs, [kind.program(seed) for seed in seeds], minutes=10, shrink_first=0)
    assert not outcome.found, report(kind, outcome)
    assert outcome.played - len(outcome.left_out) >= len(seeds) * 0.8, report(kind, outcome)


@pytest.mark.reference
@pytest.mark.alone
@pytest.mark.timeout(3600)
def test_a_thousand_programs(kafka_libs: Path) -> None:
    first = int(os.environ.get("COORDINATORD_RANDOM_FIRST", "1"))
    count = int(os.environ.get("COORDINATORD_RANDOM_PROGRAMS", "1000"))
    minutes = float(os.environ.get("COORDINATORD_RANDOM_MINUTES", "30"))
    outcome = compare(CLASSIC, kafka_libs, [CLASSIC.program(seed) for seed in range(first, first + count)], minutes)
    assert not outcome.found, report(CLASSIC, outcome)
    # On a busy machine some are not in time, however often they are played.
    assert outcome.played - len(outcome.left_out) >= count * 0.9, report(CLASSIC, outcome)
