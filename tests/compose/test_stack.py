"""The compose file as a user runs it: containers are built, started, killed and stopped, and no record is lost.

Each test finds all services running and leaves them so. The records and commits that they judge are those of the whole
run: what an earlier test's crash lost, the last one misses.
"""

from __future__ import annotations

import json

import pytest

from tests.compose.images import image_size_mb
from tests.compose.stack import CONSUMERS, IMAGE, ON_HOST, PARTITIONS, Stack, highest_committed, values_seen

pytestmark = [
    pytest.mark.compose,
    # Building everything counts for the first test; each step has a limit of its own.
    pytest.mark.timeout(1800),
    # One stack: with several test processes, all of them in one.
    pytest.mark.xdist_group("compose"),
]

SESSION_TIMEOUT_S = 6
REBALANCE_S = 60  # more than any rebalance takes on a machine that does other things too
DRAIN_S = 10  # what Docker gives by itself
OWN_LAYERS_MAX_MB = 66  # with what TLS and SASL need


def test_the_image_is_small_and_runs_without_root(stack: Stack) -> None:
    own_mb = image_size_mb(stack.engine, IMAGE) - image_size_mb(stack.engine, stack.env["BASE_IMAGE"])
    assert own_mb < OWN_LAYERS_MAX_MB
    # The daemon is process 1, so the signals of `docker stop` are its own; real, effective, saved and filesystem user.
    show = "import json; s = open('/proc/1/status').read(); c = open('/proc/1/cmdline').read()"
    show += "; print(json.dumps([s.split('Uid:')[1].split()[:4], c.split(chr(0))]))"
    users, command = json.loads(stack.execute("coordinator", "python3", "-c", show))
    assert users == ["10001"] * 4
    assert any(word.endswith("/coordinatord") for word in command), command


def test_three_consumers_share_six_partitions(stack: Stack) -> None:
    stack.await_healthy(timeout_s=REBALANCE_S)
    held = stack.await_assignment(*CONSUMERS, timeout_s=REBALANCE_S)
    assert {partition for partitions in held.values() for partition in partitions} == PARTITIONS
    _await_commits(stack)


def test_a_program_on_the_machine_comes_in_by_the_second_listener(stack: Stack) -> None:
    """It cannot resolve or reach what the first listener tells: only the second one's address leads it anywhere."""
    stack.up_on_host()

    def everything() -> bool:
        return set(highest_committed(stack.events(ON_HOST))) == PARTITIONS

    try:
        stack.await_that("it consumes every partition", everything, REBALANCE_S)
    finally:
        stack.remove(ON_HOST)


def test_the_others_take_over_from_a_killed_consumer(stack: Stack) -> None:
    stack.await_assignment(*CONSUMERS, timeout_s=REBALANCE_S)
    _await_commits(stack)
    victim, *others = CONSUMERS
    stack.kill(victim)
    stack.await_assignment(*others, timeout_s=SESSION_TIMEOUT_S + REBALANCE_S)
    left_off = highest_committed(stack.events(victim))

    def carried_on() -> bool:
        seen = [event for service in others for event in stack.events(service) if event["event"] == "committed"]
        return all(highest_committed(seen).get(partition, 0) > offset for partition, offset in left_off.items())

    stack.await_that("its partitions are consumed further", carried_on, REBALANCE_S)
    stack.start(victim)
    stack.await_assignment(*CONSUMERS, timeout_s=REBALANCE_S)


def test_consumers_go_on_after_the_coordinator_was_killed(stack: Stack) -> None:
    stack.await_assignment(*CONSUMERS, timeout_s=REBALANCE_S)
    _await_commits(stack)
    stack.kill("coordinator")
    acknowledged = highest_committed([event for service in CONSUMERS for event in stack.events(service)])
    known = {service: len(stack.events(service)) for service in CONSUMERS}
    stack.start("coordinator")
    stack.await_healthy(timeout_s=REBALANCE_S)

    committed = stack.committed(CONSUMERS[0])
    assert all(committed.get(partition, 0) >= offset for partition, offset in acknowledged.items()), (
        acknowledged,
        committed,
    )

    def since() -> list[dict[str, object]]:
        return [event for service in CONSUMERS for event in stack.events(service)[known[service] :]]

    def carried_on() -> bool:
        return all(highest_committed(since()).get(partition, 0) > acknowledged[partition] for partition in PARTITIONS)

    stack.await_that("every partition is consumed further", carried_on, REBALANCE_S)
    for event in since():
        if event["event"] == "processed":
            first_offset, partition = event["first_offset"], event["partition"]
            assert isinstance(first_offset, int)
            assert isinstance(partition, int)
            assert first_offset >= acknowledged[partition], f"went back behind its commit: {event}"
    stack.await_assignment(*CONSUMERS, timeout_s=REBALANCE_S)


def _await_commits(stack: Stack) -> None:
    """Wait until every consumer has committed something, and all of them together every partition."""

    def committed() -> bool:
        each = [highest_committed(stack.events(service)) for service in CONSUMERS]
        return all(each) and set().union(*each) == PARTITIONS

    stack.await_that("every partition has commits", committed, REBALANCE_S)


def test_a_stop_drains_and_a_new_container_finds_everything(stack: Stack) -> None:
    stack.await_assignment(*CONSUMERS, timeout_s=REBALANCE_S)
    assert stack.stop("producer", within_s=20) == 0
    sent = stack.events("producer")[-1]
    assert sent["event"] == "stopped"
    assert sent["failed"] == []
    assert sent["acknowledged"] == sent["sent"]
    count = sent["sent"]
    assert isinstance(count, int)
    assert count > 0

    def seen() -> set[int]:
        return set().union(*(values_seen(stack.events(service)) for service in CONSUMERS))

    stack.await_that(f"all of {count} records are seen", lambda: len(seen()) >= count, REBALANCE_S)
    assert seen() == set(range(count))

    def all_committed() -> bool:
        return sum(stack.committed(CONSUMERS[0]).values()) == count

    stack.await_that("all of them are committed", all_committed, REBALANCE_S)
    before = stack.committed(CONSUMERS[0])
    # While three members wait in heartbeats and long polls. Docker kills what takes longer, and then it is 137.
    assert stack.stop("coordinator", within_s=DRAIN_S) == 0

    # A new container with the old volume, as after an upgrade.
    stack.engine.docker("rm", stack.container("coordinator"))
    stack.up("coordinator")
    stack.await_healthy(timeout_s=REBALANCE_S)
    assert stack.committed(CONSUMERS[0]) == before
    stack.up()
    stack.await_assignment(*CONSUMERS, timeout_s=REBALANCE_S)
