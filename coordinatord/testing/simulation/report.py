"""Report of a simulation, as plain figures and as readable text. All times are milliseconds of virtual time."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from coordinatord.server.control.faults import Fault
from coordinatord.testing.simulation.faults import PlannedFault
from coordinatord.testing.simulation.scenario import ONLY, OPTIONS, Scenario, attribute, written
from coordinatord.testing.simulation.units import duration_text
from coordinatord.testing.simulation.world import World
from kafka_wire.records.rebalance_ledger import Outcome

SLOWEST = 3
"""Number of slowest rebalances in the report."""

ALWAYS = (
    "members", "partitions", "protocol", "assignor", "server-assignor", "session", "heartbeat",
    "consumer-session", "consumer-heartbeat",
)  # fmt: skip
"""Options that a report lists even at their defaults, if they concern the protocol."""

GAPS = {
    "rebalance": "given up in a rebalance",
    "stop": "its owner was stopped",
    "crash": "its owner crashed",
    "pause": "its owner stood still",
    "expulsion": "its owner had been expelled",
    "start": "never assigned",
}
"""Causes of time without an owner."""


@dataclass(frozen=True, slots=True)
class SlowRebalance:
    """One of the slowest rebalances. `waited_for`: the member with the longest wait to join, or a late leader."""

    at_ms: int
    join_ms: int
    sync_ms: int
    trigger: str
    outcome: str
    phase: str
    waited_for: str


@dataclass(frozen=True, slots=True)
class FaultHits:
    """A fault of the scenario. `matched`: number of requests of its API, client and group; `hits`: number of those that
    it hit.
    """

    fault: str
    description: str
    matched: int
    hits: int


@dataclass(frozen=True, slots=True)
class Report:
    """All figures. `unowned_…`: time during which partitions had no running owner; `unowned_share` is the part of all
    partition time.
    """

    scenario: dict[str, str]
    forming_ms: int
    duration_ms: int
    rebalances: int
    rebalances_by_trigger: dict[str, int]
    unfinished: int
    generations: int
    rebalancing_ms: int
    unowned_ms: int
    unowned_share: float
    unowned_p50_ms: int
    unowned_p99_ms: int
    unowned_worst_ms: int
    worst_partition: int
    longest_gap_ms: int
    unowned_by_cause: dict[str, int]
    owned_twice_ms: int
    moved: int
    duplicates: int
    expelled_alive: int
    happened: dict[str, int]
    slowest: list[SlowRebalance]
    faults: list[FaultHits]
    notes: list[str]

    @property
    def is_consumer(self) -> bool:
        """True if the members used the consumer protocol: then a rebalance is the transition to one group epoch."""
        return self.scenario["protocol"] == "consumer"

    def as_json(self) -> dict[str, Any]:
        """Return the report as a dict for json.dumps."""
        return asdict(self)


def report(world: World) -> Report:
    """Return the report of a world that has run."""
    scenario, ownership = world.scenario, world.ownership
    assert not ownership.conflicts, f"two members of one generation own a partition: {ownership.conflicts[:5]}"
    unowned = sorted((ms, -number) for (_topic, number), ms in ownership.unowned_ms.items())
    total_ms = sum(ms for ms, _number in unowned)
    triggers = Counter(record["trigger"]["kind"] for record in world.records)
    slowest = sorted(world.records, key=lambda record: record["began_ms"] - record["ended_ms"])[:SLOWEST]
    return Report(
        scenario={name: written(name, getattr(scenario, attribute(name))) for name in OPTIONS},
        forming_ms=world.forming_ms,
        duration_ms=scenario.duration,
        rebalances=len(world.records),
        rebalances_by_trigger=dict(triggers.most_common()),
        unfinished=sum(record["outcome"] != Outcome.COMPLETED for record in world.records),
        generations=world.node.generation_id - world.formed_generation,
        rebalancing_ms=sum(record["ended_ms"] - record["began_ms"] for record in world.records),
        unowned_ms=total_ms,
        unowned_share=total_ms / (scenario.duration * scenario.partitions),
        unowned_p50_ms=_percentile(unowned, 50),
        unowned_p99_ms=_percentile(unowned, 99),
        unowned_worst_ms=unowned[-1][0],
        worst_partition=-unowned[-1][1],
        longest_gap_ms=ownership.longest_gap_ms,
        unowned_by_cause=dict(ownership.unowned_by.most_common()),
        owned_twice_ms=ownership.doubled_ms,
        moved=ownership.moved,
        duplicates=round(ownership.redone_ms * scenario.records / 1000),
        expelled_alive=world.expelled_alive,
        happened=dict(world.happened),
        slowest=[_slow(record, world) for record in slowest],
        faults=[FaultHits(str(each), fault.description(), fault.matched, fault.hits) for each, fault in _begun(world)],
        notes=_notes(world),
    )


def _begun(world: World) -> list[tuple[PlannedFault, Fault]]:
    return [] if world.faulty is None else world.faulty.faults


def _percentile(ordered: list[tuple[int, int]], percent: int) -> int:
    """Return the percentile by nearest rank."""
    return ordered[-(-len(ordered) * percent // 100) - 1][0]


def _slow(record: dict[str, Any], world: World) -> SlowRebalance:
    joined_ms = record["joined_ms"] or record.get("assigned_ms") or record["ended_ms"]
    slowest = record.get("slowest") or record.get("held_up") or {}
    member_id: str = slowest.get("member_id") or ""
    return SlowRebalance(
        at_ms=record["began_ms"] - world.formed_ms,
        join_ms=joined_ms - record["began_ms"],
        sync_ms=record["ended_ms"] - joined_ms,
        trigger=record["trigger"]["kind"],
        outcome=record["outcome"],
        phase=slowest.get("phase", ""),
        waited_for=short(world.names.get(member_id, member_id)),
    )


def short(member_id: str) -> str:
    """Return the client's name, to which the coordinator appends an id: member-3-0af3… → member-3."""
    return member_id[:-33] if len(member_id) > 33 else member_id


def _notes(world: World) -> list[str]:
    scenario = world.scenario
    notes = []
    if scenario.is_consumer and not (
        45_000 <= scenario.consumer_session <= 60_000 and 5_000 <= scenario.consumer_heartbeat <= 15_000
    ):
        notes.append(
            "A broker with default settings refuses these timeouts: group.consumer.min.session.timeout.ms is 45 s, the "
            "maximum 60 s; group.consumer.min.heartbeat.interval.ms is 5 s, the maximum 15 s."
        )
    if not scenario.is_consumer and (scenario.session < 6_000 or scenario.session > 1_800_000):
        notes.append(
            "A broker with default settings refuses this session timeout: group.min.session.timeout.ms is 6 s, "
            "group.max.session.timeout.ms 30 m."
        )
    restarted = world.happened["restart"] - sum(event.kind == "restart" for event in scenario.events)
    if scenario.deploy.kind != "none" and restarted < scenario.members:
        notes.append(
            f"The deployment has restarted {restarted:,} of {scenario.members:,} members when the time was up: a "
            "longer --duration would show all of it."
        )
    for planned, fault in _begun(world):
        if not fault.hits:
            matched = f"{fault.matched:,} requests matched, and none was its turn"
            why = matched if fault.matched else "no request matched"
            notes.append(f"This fault has never fired: {planned}; {why}.")
    if world.processes.keys() - {each.number for each in world.processes.values() if each.generation_id >= 0}:
        notes.append("At the end the group was in the middle of a rebalance.")
    return notes


def text(it: Report) -> str:
    """Return the report as readable text."""
    description = [
        f"{name}\N{NO-BREAK SPACE}{value}"
        for name, value in it.scenario.items()
        if (name in ALWAYS or value != _default(name)) and is_listed(name, it.scenario)
    ]
    lines = [
        *_wrapped("Scenario: " + ", ".join(description)),
        f"The group formed in {duration_text(it.forming_ms)}; what follows is of the "
        f"{duration_text(it.duration_ms)} after that.",
        "",
    ]
    happened = ", ".join(f"{count:,} × {kind}" for kind, count in it.happened.items())
    rows = [
        ("what befell members", happened or "nothing"),
        *[("fault" if not number else "", _fault(each)) for number, each in enumerate(it.faults)],
        ("rebalances", _rebalances(it)),
        ("epochs" if it.is_consumer else "generations", f"{it.generations:,}"),
        ("time in rebalances", duration_text(it.rebalancing_ms)),
        ("without an owner", _unowned(it)),
        ("  of each partition", _each(it)),
        *[(f"  {GAPS.get(cause, cause)}", partition_seconds(ms)) for cause, ms in it.unowned_by_cause.items() if ms],
        (
            "owned twice",
            partition_seconds(it.owned_twice_ms) + " (by a member that had been expelled and had not noticed)",
        )
        if it.owned_twice_ms
        else ("owned twice", "never"),
        ("partitions moved", f"{it.moved:,} to another member than before"),
        ("duplicates risked", f"{it.duplicates:,} records done and not committed when their partition went"),
        ("expelled alive", f"{it.expelled_alive:,} members taken for dead that were not"),
    ]
    width = max(len(name) for name, _value in rows) + 2
    lines += [f"{name:<{width}}{value}" for name, value in rows]
    if it.slowest:
        lines += ["", "Slowest rebalances:"]
        lines += [_slow_line(each, it.is_consumer) for each in it.slowest]
    if it.notes:
        lines += [""] + [f"Note: {note}" for note in it.notes]
    return "\n".join(lines) + "\n"


def is_listed(name: str, options: Mapping[str, str]) -> bool:
    """Return whether an option concerns the protocol of this scenario, and has to be listed. The protocol itself is
    listed unless it is Kafka's default.
    """
    if name == "protocol":
        return options["protocol"] != "classic"
    return ONLY.get(name, options["protocol"]) == options["protocol"]


def _wrapped(text: str) -> list[str]:
    lines = textwrap.wrap(text, 110, subsequent_indent="  ", break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def _default(name: str) -> str:
    return written(name, getattr(Scenario(), attribute(name)))


def partition_seconds(ms: float) -> str:
    """Return a sum over partitions as text: 1,234 partition-seconds."""
    return f"{ms / 1000:,.1f} partition-seconds"


def _fault(it: FaultHits) -> str:
    return f"{it.description}: {it.hits:,} hit{'s' if it.hits != 1 else ''} of {it.matched:,} that matched"


def _rebalances(it: Report) -> str:
    if not it.rebalances:
        return "none"
    by = ", ".join(f"{count:,} × {kind}" for kind, count in it.rebalances_by_trigger.items())
    return f"{it.rebalances:,} ({by})" + (f"; {it.unfinished:,} not completed" if it.unfinished else "")


def _unowned(it: Report) -> str:
    if not it.unowned_ms:
        return "never"
    longest_gap = duration_text(it.longest_gap_ms)
    return f"{partition_seconds(it.unowned_ms)} ({it.unowned_share:.3%} of all), the longest gap {longest_gap}"


def _each(it: Report) -> str:
    return (
        f"p50 {duration_text(it.unowned_p50_ms)}, p99 {duration_text(it.unowned_p99_ms)}, "
        f"worst {duration_text(it.unowned_worst_ms)} (partition {it.worst_partition})"
    )


def _slow_line(slow: SlowRebalance, is_consumer: bool) -> str:
    first, second = ("computing the target", "reconciling") if is_consumer else ("join", "assignment")
    who = f", waiting for {slow.waited_for}" if slow.waited_for else ""
    overtaken = "" if slow.outcome == Outcome.COMPLETED else f" ({slow.outcome})"
    return (
        f"  {duration_text(slow.join_ms + slow.sync_ms)} at {duration_text(slow.at_ms)}: {slow.trigger}{overtaken}; "
        f"{first} {duration_text(slow.join_ms)}, {second} {duration_text(slow.sync_ms)}{who}"
    )
