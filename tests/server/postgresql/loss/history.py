"""What clients asked and were told, with the moments of both, and what is wrong with it. As in Jepsen's Kafka workload:
lost writes, stale reads, offsets that go back, records at the wrong place, transactions in part or although aborted.

An operation that was not answered, or with an error, may have been done or not, until a read shows it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Partition: TypeAlias = tuple[str, int]

NEVER_S = float("inf")


@dataclass(slots=True)
class Write:
    """A commit of a register by its only writer; values rise. `end_s` is when it was acknowledged, if it was."""

    value: int
    asked_s: float
    end_s: float = NEVER_S


@dataclass(frozen=True, slots=True)
class Read:
    """An answer, with the node that gave it; -1: no offset is committed."""

    value: int
    asked_s: float
    end_s: float
    node: int


@dataclass(slots=True)
class Register:
    """The committed offset of one group: one writer, any number of readers."""

    writes: list[Write] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)

    def problems(self, name: str) -> list[str]:
        """Reads of what nobody wrote, of less than was acknowledged before, or of less than was read before."""
        found = []
        asked_s = {each.value: each.asked_s for each in self.writes}
        # By the moment from which on no read may show less: acknowledgements, and the ends of earlier reads.
        floors = [(each.end_s, each.value, "acknowledged") for each in self.writes if each.end_s < NEVER_S]
        floors += [(each.end_s, each.value, "read") for each in self.reads]
        floors.sort()
        at, least, why = 0, -1, ""
        for read in sorted(self.reads, key=lambda each: each.asked_s):
            while at < len(floors) and floors[at][0] < read.asked_s:
                if floors[at][1] > least:
                    least, why = floors[at][1:]
                at += 1
            if read.value < least:
                found.append(f"{name}: node {read.node} said {read.value} when {least} had been {why}")
            elif read.value >= 0 and asked_s.get(read.value, NEVER_S) > read.end_s:
                found.append(f"{name}: node {read.node} said {read.value}, which nobody had written yet")
        return found


@dataclass(slots=True)
class Records:
    """What one producer sent, what was acknowledged where, and what is there at the end, from offset 0 on."""

    sent: set[bytes] = field(default_factory=set)
    acknowledged: dict[Partition, dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    #: with gaps where markers of transactions are
    there: dict[Partition, dict[int, bytes]] = field(default_factory=dict)
    found: list[str] = field(default_factory=list)

    def acknowledge(self, partition: Partition, offset: int, value: bytes) -> None:
        known = self.acknowledged[partition].setdefault(offset, value)
        if known != value:
            self.found.append(f"{partition} at {offset}: {known!r} and {value!r} were both acknowledged")

    def problems(self) -> list[str]:
        """Lost records, records elsewhere, and records that nobody sent."""
        found = list(self.found)
        for partition, wanted in self.acknowledged.items():
            there = self.there.get(partition, {})
            for offset, value in wanted.items():
                if there.get(offset) != value:
                    found.append(f"{partition} at {offset}: {value!r} was acknowledged, {there.get(offset)!r} is there")
            if strangers := set(there.values()) - self.sent:
                found.append(f"{partition}: {len(strangers)} records that nobody sent")
        return found


COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"


@dataclass(slots=True)
class Transactions:
    """Each transaction writes its id to every partition once. `there` is what read_committed reads at the end."""

    outcomes: dict[bytes, str] = field(default_factory=dict)
    there: dict[Partition, list[bytes]] = field(default_factory=dict)

    def problems(self) -> list[str]:
        """Transactions that are there in part, twice, not although committed, or although aborted (G1a)."""
        found = []
        counts = {partition: Counter(values) for partition, values in self.there.items()}
        for name, outcome in self.outcomes.items():
            seen = {count[name] for count in counts.values()}
            if len(seen) > 1 or max(seen, default=0) > 1:
                found.append(f"transaction {name!r} ({outcome}): in part or twice: {sorted(seen)}")
            elif outcome == COMMITTED and seen != {1}:
                found.append(f"transaction {name!r} was committed and is not there")
            elif outcome == ABORTED and seen != {0}:
                found.append(f"transaction {name!r} was aborted and is there")
        strangers = {name for count in counts.values() for name in count} - set(self.outcomes)
        return found + [f"transaction {name!r}: nobody began it" for name in strangers]


Event: TypeAlias = Mapping[str, Any]


def group_problems(members: Mapping[str, Iterable[Event]]) -> list[str]:
    """What is wrong with what the members of one group reported (tests/clients/consumer_process.py): a partition with
    two owners in a generation, or a position before what an earlier generation's commits had been acknowledged for.
    """
    found = []
    owners: dict[tuple[int, int], str] = {}
    commits: list[tuple[int, int, int]] = []  # generation, partition, offset
    begins: list[tuple[int, int, int, str]] = []  # generation, partition, position, member
    for name, events in members.items():
        generation = -1
        for event in events:
            if event["kind"] == "assigned":
                generation = event["generation"]
                for number in event["partitions"]:
                    owner = owners.setdefault((generation, number), name)
                    if owner != name:
                        found.append(f"partition {number} is {owner}'s and {name}'s in generation {generation}")
                # kafka-python returns None if the coordinator has not answered within the consumer's own time limit.
                known = {number: at for number, at in event["positions"].items() if at is not None}
                begins += [(generation, int(number), at, name) for number, at in known.items()]
            elif event["kind"] == "committed":
                commits += [(generation, int(number), offset) for number, offset in event["offsets"].items()]
    for generation, number, position, name in begins:
        before = [offset for other, each, offset in commits if each == number and other < generation]
        if position < max(before, default=0):
            found.append(f"{name} begins partition {number} at {position}, {max(before)} was committed before")
    return found
