"""Faults of `coordinatord simulate`: what each does to the group, what the report says of it, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from coordinatord.server.control.faults import Faults
from coordinatord.testing.simulation.faults import planned_fault
from coordinatord.testing.simulation.report import Report
from coordinatord.testing.simulation.scenario import build
from coordinatord.testing.simulation.sweep import simulate
from tests.testing.simulation.test_command import SHORT, run

SMALL: dict[str, object] = {
    "members": 3, "partitions": 6, "duration": "5m", "session": "10s", "heartbeat": "2s", "assignor": "range",
}  # fmt: skip


def simulated(*faults: str, **options: object) -> Report:
    return simulate(build(SMALL | {"faults": list(faults)} | options))


def hits(report: Report) -> list[int]:
    return [each.hits for each in report.faults]


def test_a_failed_heartbeat_makes_its_member_join_again_and_no_other() -> None:
    it = simulated("fail:Heartbeat:UNKNOWN_MEMBER_ID:times=1:client=member-1")
    assert hits(it) == [1]
    assert sum(it.rebalances_by_trigger.values()) == it.rebalances == 1
    assert (it.expelled_alive, it.happened) == (0, {})


def test_the_coordinator_that_moves_costs_no_rebalance() -> None:
    it = simulated("fail:Heartbeat:NOT_COORDINATOR:times=3")
    assert hits(it) == [3]
    assert it.rebalances == 0


def test_a_blackhole_expels_its_client_which_comes_back() -> None:
    it = simulated("blackhole:member-1:at=1m:for=1m")
    assert it.faults[0].description == "drop any request (client member-1)"
    assert it.faults[0].hits > 0
    assert it.expelled_alive == 1
    assert it.rebalances_by_trigger == {"session expired": 1, "new member": 1}
    assert it.owned_twice_ms > 0


def test_what_is_held_goes_on_when_the_fault_ends() -> None:
    """The leader's assignment waits for five seconds, less than a session; the others wait for it."""
    it = simulated("hold:SyncGroup:at=0:for=75s", events=["1m:crash:1"], restart="0")
    assert hits(it) == [3]
    assert (it.rebalances, it.expelled_alive) == (1, 0)
    assert it.slowest[0].sync_ms > 5_000


def test_members_that_waited_too_long_come_back_when_the_fault_ends() -> None:
    """Their sessions end, and they give up the connection on which nothing comes, with all of its requests."""
    it = simulated("hold:SyncGroup:at=0:for=2m", events=["1m:crash:1"], restart="0")
    assert hits(it) == [6]
    assert it.expelled_alive == 6
    assert 60_000 < it.longest_gap_ms < 70_000
    assert it.notes == []
    assert simulated(events=["1m:crash:1"], restart="0").longest_gap_ms < 30_000


def test_a_delay_takes_as_long_as_it_says() -> None:
    quick = simulated(events=["1m:restart:0"], restart="0")
    slow = simulated("delay:SyncGroup:5s", events=["1m:restart:0"], restart="0")
    assert slow.faults[0].hits >= 3
    assert slow.slowest[0].sync_ms >= 5_000 > quick.slowest[0].sync_ms


def test_failed_commits_are_done_again_by_the_next_owner() -> None:
    events = ["2m:crash:1"]
    failed = simulated("fail:OffsetCommit:COORDINATOR_LOAD_IN_PROGRESS:client=member-1:at=1m:for=1m", events=events)
    assert failed.faults[0].hits > 5
    assert failed.rebalances_by_trigger == simulated(events=events).rebalances_by_trigger
    assert failed.duplicates > 2 * 50 * 100, "the commits of the minute before the crash, of two partitions"
    assert simulated(events=events).duplicates < 2 * 10 * 100


def test_a_dropped_commit_stops_the_heartbeats_behind_it() -> None:
    """They are on the same connection, which serves nothing more until the client gives it up."""
    it = simulated("drop:OffsetCommit:client=member-1:nth=1")
    assert hits(it) == [1]
    assert it.rebalances_by_trigger == {"session expired": 1, "new member": 1}
    assert simulated("drop:OffsetCommit:client=member-1:nth=1:for=10s").rebalances == 0, "its end closes the connection"


def test_a_closed_connection_is_opened_again() -> None:
    it = simulated("disconnect:Heartbeat:times=2", "disconnect:Heartbeat:after:nth=5")
    assert hits(it) == [2, 1]
    assert it.rebalances == 0


def test_what_comes_twice_is_done_once() -> None:
    it = simulated("duplicate:OffsetCommit:every=2", "duplicate:Heartbeat")
    assert min(hits(it)) > 0
    assert (it.rebalances, it.expelled_alive) == (0, 0)


def test_the_consumer_protocol_meets_faults_too() -> None:
    it = simulated("fail:ConsumerGroupHeartbeat:FENCED_MEMBER_EPOCH:nth=4:client=member-2", protocol="consumer")
    assert hits(it) == [1]
    assert it.unowned_by_cause == {"expulsion": it.unowned_ms}, "it gives its partitions up, and gets them back"
    assert it.unowned_ms > 0


def test_a_fault_that_hits_nothing_changes_nothing() -> None:
    """Commits are sent then, not computed, so other messages have other latencies; the costs are the same."""
    options: dict[str, object] = {"crashes": "60/h", "restart": "1s", "duration": "30m"}
    without = [simulated(**options, seed=seed) for seed in range(3)]
    never = [simulated("fail:Heartbeat:NOT_COORDINATOR:nth=1000000", **options, seed=seed) for seed in range(3)]
    assert [hits(each) for each in never] == [[0]] * 3
    assert [each.happened for each in never] == [each.happened for each in without]
    for name in ("rebalances", "unowned_ms", "duplicates"):
        expected = sum(getattr(each, name) for each in without)
        assert sum(getattr(each, name) for each in never) == pytest.approx(expected, rel=0.1), name


def test_the_seed_decides_every_chance() -> None:
    fault = "fail:OffsetCommit:NOT_COORDINATOR:probability=0.3"
    first, again, other = simulated(fault), simulated(fault), simulated(fault, seed=1)
    assert first == again
    assert 0 < first.faults[0].hits < first.faults[0].matched
    chances = [[made.chance.random() for made in [Faults(seed).add("drop", api="Fetch")]] for seed in (0, 1)]
    assert chances[0] != chances[1]
    assert (other.faults[0].matched, other.faults[0].hits) != (first.faults[0].matched, first.faults[0].hits)


def test_the_report_tells_the_hits_and_which_fault_never_fired(tmp_path: Path) -> None:
    file = tmp_path / "scenario.toml"
    faults = ["fail:OffsetCommit:NOT_COORDINATOR:times=3:client=member-1", "drop:LeaveGroup:client=member-0"]
    file.write_text(f'members = 3\npartitions = 6\nduration = "5m"\nfaults = {json.dumps(faults)}\n')
    shown = run(str(file)).output
    told = "fail OffsetCommit with NOT_COORDINATOR (client member-1, 3 times): 3 hits of 3 that matched"
    assert re.search(rf"^fault +{re.escape(told)}$", shown, re.MULTILINE)
    assert shown.endswith("Note: This fault has never fired: drop:LeaveGroup:client=member-0; no request matched.\n")
    it = json.loads(run(str(file), "--json").output)
    assert [(each["fault"], each["hits"]) for each in it["faults"]] == list(zip(faults, (3, 0), strict=True))


def test_the_command_line_and_the_trace() -> None:
    shown = run(*SHORT, "--fault", "disconnect:Heartbeat:nth=2:at=1m:for=1m", "--trace").output.splitlines()
    at = [line for line in shown if "fault 1" in line]
    assert at[0] == "0:01:00.000  fault 1 begins: disconnect Heartbeat (only number 2)"
    assert re.fullmatch(r"0:01:0\d\.\d{3}  member-\d: Heartbeat meets fault 1", at[1])
    assert at[2] == "0:02:00.000  fault 1 ends: 1 hits"


def test_a_sweep_says_so_too() -> None:
    shown = run(*SHORT, "--fault", "drop:LeaveGroup", "--sweep", "session=10s,20s").output
    assert "Note: This fault has never fired: drop:LeaveGroup; no request matched.\n" in shown


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("explode:Heartbeat", "is no fault: write fail:OffsetCommit:NOT_COORDINATOR:times=3"),
        ("fail:Heartbeat", "is no fault: write fail:"),
        ("fail:Heartbeat:NOT_COORDINATR", "Did you mean NOT_COORDINATOR?"),
        ("fail:Heartbeat:NONE", "NONE is no error"),
        ("fail:Metadata:UNKNOWN_SERVER_ERROR", "Metadata cannot fail here; drop, delay or disconnect it"),
        ("drop:Fetch", "the simulated members send ConsumerGroupHeartbeat, FindCoordinator,"),
        ("drop:Heartbeat:times=0", "times counts from 1, so 0 hits nothing"),
        ("drop:Heartbeat:times=few", "times is a number, not 'few'"),
        ("drop:Heartbeat:nth=2:times=2", "nth names one request"),
        ("drop:Heartbeat:often=2", "there is no often here; there are client, group, times"),
        ("drop:Heartbeat:times=2:times=3", "times is there twice"),
        ("drop:Heartbeat:times=2:after:x", "'x' has no name"),
        ("delay:Heartbeat:2s:after", "after stands alone, with drop and disconnect"),
        ("delay:Heartbeat:2", "2 has no unit"),
        ("drop:Heartbeat:client=member-3", "the clients are member-0 to member-2, not member-3"),
        ("drop:Heartbeat:group=billing", "the group is called simulated, not billing"),
        ("drop:Heartbeat:at=5m", "comes after the end, at 5m"),
        ("blackhole", "is no fault"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(fault: str, sentence: str) -> None:
    result = run(*SHORT, "--fault", fault)
    assert result.exit_code == 2
    assert sentence in result.output
    assert result.output.count("\n") == 1


def test_a_fault_is_read_as_it_is_written() -> None:
    text = "drop:Heartbeat:after:client=member-1:group=simulated:every=2:probability=0.5:at=1m:for=30s"
    made = planned_fault(text)
    assert str(made) == text
    assert dict(made.arguments) == {
        "kind": "drop", "api": "Heartbeat", "after": True, "client": "member-1", "group": "simulated", "every": 2,
        "probability": 0.5,
    }  # fmt: skip
    assert (made.at_ms, made.for_ms) == (60_000, 30_000)
