"""What Kafka's ConsumerGroupCommand says of all groups, read from its tables; of any broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Tool = Callable[..., str]

NOTHING = "-"


@dataclass(frozen=True)
class Described:
    """`offsets`: (group, topic, partition) -> (offset, leader epoch, end of the log). `members`: group -> (member id,
    instance id, host, client id, assignment). `states`: group -> (assignor, state, number of members).
    """

    offsets: dict[tuple[str, str, int], tuple[int, str, int]]
    members: dict[str, set[tuple[str, ...]]]
    states: dict[str, tuple[str, ...]]


def describe(tool: Tool) -> Described:
    """Ask; `tool("ConsumerGroupCommand", ...)` returns what it printed."""

    def rows(what: str) -> Iterator[dict[str, str]]:
        return tables(tool("ConsumerGroupCommand", "--describe", "--all-groups", what, "--verbose"))

    offsets = {
        (row["GROUP"], row["TOPIC"], int(row["PARTITION"])): (
            int(row["CURRENT-OFFSET"]),
            row["LEADER-EPOCH"],
            int(row["LOG-END-OFFSET"]),
        )
        for row in rows("--offsets")
        if row["CURRENT-OFFSET"] != NOTHING
    }
    members: dict[str, set[tuple[str, ...]]] = {}
    wanted = ("CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "CURRENT-ASSIGNMENT")
    for row in rows("--members"):
        members.setdefault(row["GROUP"], set()).add(tuple(row.get(name, NOTHING) for name in wanted))
    states = {row["GROUP"]: (row["ASSIGNMENT-STRATEGY"], row["STATE"], row["#MEMBERS"]) for row in rows("--state")}
    return Described(offsets, members, states)


def describe_once(tool: Tool, holds: Callable[[Described], bool], within_s: float = 120) -> Described:
    """What the tool says once that holds: a broker listens before its coordinator has loaded its groups, and the tool
    then tells of some of them, or of none. The last answer if it never does.
    """
    ends_s = time.monotonic() + within_s
    while not holds(found := describe(tool)) and time.monotonic() < ends_s:
        time.sleep(0.2)
    return found


def tables(text: str) -> Iterator[dict[str, str]]:
    """The rows of the tables in a text, by the words of their heads. No cell has spaces in it but the coordinator's."""
    head: list[str] = []
    for line in text.splitlines():
        cells = line.replace("COORDINATOR (ID)", "COORDINATOR").split()
        if not cells:
            continue
        if cells[0] == "GROUP":
            head = cells
            continue
        if "COORDINATOR" in head and len(cells) > len(head):
            cells[1:3] = [" ".join(cells[1:3])]
        assert head, line
        assert len(cells) <= len(head), f"{head}\n{line}"
        yield dict(zip(head, cells, strict=False))
