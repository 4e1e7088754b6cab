"""`coordinatord simulate --protocol consumer`: figures that can be worked out by hand, what always holds, and what the
command prints.
"""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from click.testing import CliRunner

from coordinatord.cli import cli
from coordinatord.testing.simulation.node import TICK_MS
from coordinatord.testing.simulation.ownership import Ownership
from coordinatord.testing.simulation.report import report, text
from coordinatord.testing.simulation.scenario import build
from coordinatord.testing.simulation.world import World

EXACT: dict[str, object] = {
    "protocol": "consumer", "latency": 0, "flush": 0, "processing": 0, "duration": "5m", "members": 3, "partitions": 6,
}  # fmt: skip
INTERVAL_MS = 5_000
SESSION_MS = 45_000


def run(**options: Any) -> World:
    world = World(build(EXACT | {name.replace("_", "-"): value for name, value in options.items()}))
    world.run()
    return world


def test_a_quiet_group_costs_nothing() -> None:
    it = report(run(members=5, partitions=50))
    assert (it.rebalances, it.generations, it.unowned_ms, it.moved, it.duplicates) == (0, 0, 0, 0, 0)


def test_the_partitions_of_a_member_that_dies_are_free_for_the_session_and_a_heartbeat() -> None:
    """Nobody else is disturbed: the others get one each, with their next heartbeats."""
    world = run(events=["1m:crash:1"], restart="10m")
    it = report(world)
    assert it.rebalances_by_trigger == {"session expired": 1}
    assert it.unowned_by_cause.keys() == {"crash"}
    waited_ms = world.records[0]["began_ms"] - world.formed_ms - 60_000
    assert SESSION_MS - INTERVAL_MS <= waited_ms <= SESSION_MS + TICK_MS
    assert waited_ms <= it.longest_gap_ms <= waited_ms + 2 * INTERVAL_MS
    assert sorted(world.ownership.unowned_ms.values())[:4] == [0, 0, 0, 0]
    assert it.moved == 2


def test_a_member_that_leaves_is_missed_for_a_heartbeat() -> None:
    it = report(run(events=["1m:stop:1"]))
    assert it.rebalances_by_trigger == {"member left": 1}
    assert it.unowned_by_cause.keys() == {"stop"}
    assert 0 < it.longest_gap_ms <= 2 * INTERVAL_MS


def test_a_newcomer_waits_and_only_what_moves_has_no_owner() -> None:
    """A partition that moves is free from when its owner has given it up until the newcomer's next heartbeat."""
    world = run(events=["10s:stop:1", "1m:start:1"])
    it = report(world)
    assert it.rebalances_by_trigger == {"member left": 1, "new member": 1}
    assert it.moved == 4
    assert it.longest_gap_ms <= 2 * INTERVAL_MS
    assert sum(ms > 0 for ms in world.ownership.unowned_ms.values()) <= 4


def test_what_is_given_up_in_a_rebalance_was_committed() -> None:
    """No poll returns records of a partition that is about to go, and what the last one returned is committed."""
    assert report(run(processing="900ms", events=["10s:stop:1", "1m:start:1"])).duplicates == 0


def test_a_static_member_that_restarts_disturbs_nobody() -> None:
    it = report(run(static=True, events=["1m:restart:1"], restart="10s"))
    assert (it.rebalances, it.moved) == (0, 0)
    assert it.unowned_by_cause.keys() == {"stop"}
    assert it.unowned_ms == pytest.approx(2 * 10_000, abs=50)


def test_a_static_member_that_has_crashed_is_refused_until_its_session_ends() -> None:
    """UNRELEASED_INSTANCE_ID: with the classic protocol it would get its partitions back at once."""
    told: list[str] = []
    scenario = build(EXACT | {"static": True, "events": ["1m:crash:1"], "restart": "10s"})
    world = World(scenario, lambda _at_ms, what: told.append(what))
    world.run()
    it = report(world)
    assert told.count("member-1 starts") > 3
    assert SESSION_MS - INTERVAL_MS <= it.longest_gap_ms <= SESSION_MS + 2 * INTERVAL_MS
    classic = World(build(EXACT | {"protocol": "classic", "static": True, "events": ["1m:crash:1"], "restart": "10s"}))
    classic.run()
    assert report(classic).longest_gap_ms == pytest.approx(10_000, abs=50)


def test_a_slow_poller_leaves_and_works_on_beside_the_next_owner() -> None:
    it = report(run(max_poll="30s", events=["1m:slow:1:60s"], processing="100ms"))
    assert it.rebalances_by_trigger == {"member left": 1, "new member": 1}
    assert it.owned_twice_ms > 0


ROUGH: dict[str, object] = {
    "protocol": "consumer", "members": 8, "partitions": 30, "consumer-session": "10s", "consumer-heartbeat": "3s",
    "crashes": "6/h", "pauses": "6/h:15s", "slow": "2/h:40s", "max-poll": "30s", "deploy": "rolling:1m",
    "duration": "20m",
}  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_time_is_conserved_and_no_two_members_own_a_partition(seed: int) -> None:
    chance = random.Random(seed)
    options = {
        "seed": seed,
        "static": seed % 2 == 0,
        "server-assignor": ("uniform", "range")[seed % 2],
        "assignment-interval": ("0", "1s")[seed // 2],
        "processing": f"{chance.choice([0, 50, 900])}ms",
        "latency": f"{chance.choice([0, 2, 60])}ms",
    }
    world = World(build(ROUGH | options))
    world.run()
    ownership = world.ownership
    assert ownership.conflicts == []
    assert world.expelled_alive, "the story is rough enough"
    all_ms = world.scenario.duration * world.scenario.partitions
    assert ownership.held_ms - ownership.doubled_ms + sum(ownership.unowned_ms.values()) == all_ms
    it = report(world)
    assert it.generations >= it.rebalances > 10
    assert "epochs" in text(it)


def test_two_members_that_own_a_partition_are_a_conflict() -> None:
    world = run()
    one, two = world.processes[0], world.processes[1]
    ownership: Ownership = world.ownership
    partition = next(iter(one.member.partitions))
    ownership.take(two, [partition])
    ownership.assigned(two, [partition], 9, has_epochs=True)
    assert ownership.conflicts == [(partition, 9)]
    one.expelled = True
    ownership.assigned(two, [partition], 10, has_epochs=True)
    assert len(ownership.conflicts) == 1, "who was expelled and does not know it, is no member"


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["simulate", *arguments], prog_name="coordinatord", terminal_width=80)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_report_names_what_concerns_the_protocol() -> None:
    output = printed("--members", "3", "--protocol", "consumer", "--event", "30s:crash:1", "--duration", "2m")
    assert "protocol consumer, server-assignor uniform, consumer-session 45s" in output
    assert "session 45s, heartbeat" not in output.replace("consumer-session", "")
    assert re.search(r"^epochs +\d", output, re.MULTILINE)
    assert re.search(r"reconciling [\d.]+ m?s, waiting for member-\d$", output, re.MULTILINE)
    classic = printed("--members", "3", "--event", "30s:crash:1", "--duration", "2m")
    assert "consumer" not in classic.replace("consumers", "")


def test_the_trace_names_processes() -> None:
    output = printed(
        "--members", "3", "--protocol", "consumer", "--event", "30s:crash:1", "--duration", "2m", "--trace"
    )
    assert "session of member member-1 expired" in output
    assert "takes 0" not in output


def test_a_sweep_of_protocols_says_what_migrating_buys() -> None:
    output = printed(
        "--members", "5", "--partitions", "20", "--deploy", "rolling:30s", "--duration", "5m",
        "--sweep", "protocol=classic,consumer",
    )  # fmt: skip
    rows = {line.split()[0]: line.split() for line in output.splitlines() if line.startswith(("classic", "consumer"))}
    found = re.search(
        r"Migrating from classic to consumer: ([\d.,]+) partition-seconds without an owner instead of ([\d.,]+), "
        r"([\d,]+) partitions moved instead of ([\d,]+), ",
        output,
    )
    assert found is not None, output
    assert found[1] in rows["consumer"]
    assert found[2] in rows["classic"]
    assert found[3] in rows["consumer"]
    assert found[4] in rows["classic"]
    assert "Migrating" not in printed("--members", "3", "--deploy", "all", "--sweep", "static=true,false")


def test_timeouts_that_a_broker_refuses_are_noted() -> None:
    output = printed("--protocol", "consumer", "--consumer-session", "10s", "--deploy", "all", "--duration", "2m")
    assert "group.consumer.min.session.timeout.ms is 45 s" in output
