"""Alive and ready are different questions."""

from __future__ import annotations

import pytest

from coordinatord.base.observe.health import Health, HealthState


def test_a_daemon_lives_through_its_states_and_is_ready_in_one() -> None:
    health = Health()
    seen = []
    for step in (
        lambda: None,
        lambda: health.loading("3 of 50 partitions are loaded"),
        health.ready,
        health.draining,
    ):
        step()
        seen.append((health.state.value, health.live()[0], health.readiness()[0]))
    assert seen == [
        ("starting", True, False),
        ("loading", True, False),
        ("ready", True, True),
        ("draining", True, False),
    ]


def test_reasons_are_told_with_both_answers() -> None:
    health = Health()
    health.loading("3 of 50 partitions are loaded")
    assert health.readiness()[1] == {"state": "loading", "reasons": ["3 of 50 partitions are loaded"]}
    health.draining()
    assert health.live()[1] == {"state": "draining", "reasons": ["the daemon is stopping"]}


def test_a_load_that_ends_during_the_stop_does_not_invite_clients() -> None:
    health = Health()
    health.draining("SIGTERM")
    health.ready()
    assert health.readiness() == (False, {"state": "draining", "reasons": ["SIGTERM"]})
    health.failed("the log failed")
    assert health.state is HealthState.FAILED


def test_a_failure_is_not_hidden_by_the_stop_that_follows_it() -> None:
    health = Health()
    health.failed("cannot write 00000000000000000000.log: No space left on device")
    health.draining()
    health.ready()
    assert health.state is HealthState.FAILED
    assert health.live() == (
        False,
        {"state": "failed", "reasons": ["cannot write 00000000000000000000.log: No space left on device"]},
    )
    assert not health.readiness()[0]


@pytest.mark.parametrize(("objection", "ready"), [(None, True), ("overloaded", False)])
def test_a_check_can_object_to_readiness_only(objection: str | None, ready: bool) -> None:
    health = Health()
    health.ready()
    health.watch("queue", lambda: objection)
    answer, told = health.readiness()
    assert answer is ready
    assert told["reasons"] == ([] if ready else ["queue: overloaded"])
    assert health.live()[0]
