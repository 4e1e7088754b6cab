"""Rebalances that a coordinator tells of, one after the other: who was there, and the patterns among them."""

from __future__ import annotations

from typing import Any

from coordinatord.monitoring.analysis.history import KEEP_COMMITS, KEEP_LIVES, KEEP_REBALANCES, History
from tests.monitoring.pipeline.logs import START_MS


def record(number: int, at_s: int, members: list[str], outcome: str = "completed", **more: Any) -> dict[str, Any]:
    """As the ledger writes it of a classic group."""
    told = [{"member_id": each, "client_id": each.split("-")[0], "after_ms": 1} for each in members]
    return {
        "version": 1, "group": "g", "outcome": outcome, "trigger": {"kind": "new member", "text": "x came"},
        "generation_before": number - 1, "generation_after": number, "began_ms": START_MS + at_s * 1000,
        "joined_ms": START_MS + at_s * 1000, "ended_ms": START_MS + at_s * 1000 + 5, "initial": False,
        "protocol": "range", "leader": None, "members_before": 1, "members_after": len(members),
        "added": 1, "removed": 0, "rejoined": told, "dropped": [], **more,
    }  # fmt: skip


def test_a_client_that_comes_and_goes_is_in_a_crash_loop() -> None:
    history = History()
    for number in range(6):
        history.observed(record(2 * number, 20 * number, ["a-1", f"b-{number}"]))
        history.observed(record(2 * number + 1, 20 * number + 9, ["a-1"]))
    assert {event.kind for event in history.events()} == {"crash loop", "storm"}
    assert [life.member_id for life in history.lives() if life.until_ms is None] == ["a-1"]
    assert history.counts == {"new member": 12}


def test_how_a_member_ended_is_known_to_its_coordinator() -> None:
    causes = {"b-1": "session expired", "c-1": "left", "d-1": "did not rejoin within the rebalance timeout"}
    history = History()
    history.observed(record(1, 0, ["a-1", *causes]))
    dropped = [{"member_id": name, "cause": cause, "after_ms": 0} for name, cause in causes.items()]
    history.observed(record(2, 20, ["a-1"], dropped=dropped))
    assert {life.member_id: life.end for life in history.lives()} == {
        "a-1": None, "b-1": "expired", "c-1": "left", "d-1": "went",
    }  # fmt: skip


def test_a_superseded_rebalance_does_not_end_the_lives_of_those_who_were_late() -> None:
    """Its record has those who had rejoined when another rebalance took its place."""
    history = History()
    for number in range(4):
        history.observed(record(2 * number, 20 * number, ["a-1", "b-1"]))
        history.observed(record(2 * number + 1, 20 * number + 9, ["a-1"], "superseded"))
    assert [(life.member_id, life.until_ms) for life in history.lives()] == [("a-1", None), ("b-1", None)]
    assert len(history.rebalances) == 8


def test_memory_is_bounded() -> None:
    """However many rebalances there were, and however many members came and went."""
    history = History()
    for number in range(3 * KEEP_LIVES):
        history.committed(("t", 0), [START_MS + number])
        history.observed(record(number, number, [f"b-{number}"]))
        history.events()
    assert len(history.lives()) == KEEP_LIVES + 1
    assert len(history.rebalances) == KEEP_REBALANCES
    assert len(history.times["t", 0]) == KEEP_COMMITS
    assert history.counts["new member"] == 3 * KEEP_LIVES
    for number in range(3_000):
        history.committed(("t", number), [START_MS])
    history.forget(START_MS + 2 * 24 * 3_600_000)
    assert history.times == {}
