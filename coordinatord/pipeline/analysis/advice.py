"""What each status of `status.py` means, and what to do about it: a line each. `coordinatord lag --help` and TABLES.md
show this table; a test compares it with the statuses.
"""

from __future__ import annotations

from typing import NamedTuple


class Advice(NamedTuple):
    """Two parts of a sentence."""

    means: str
    do: str


ADVICE: dict[str, Advice] = {
    "stopped": Advice(
        "it has members, but has committed nothing for the window and its usual pause, with records unread",
        "look at the members' logs: they hang, or fail before they commit",
    ),
    "stuck": Advice(
        "it commits the same offset again and again, with records unread",
        "look at the record at that offset: the consumer cannot process it",
    ),
    "rewound": Advice(
        "its offset went back within the window, and has not returned",
        "find out who reset it; if nobody did, records may be processed twice",
    ),
    "falling": Advice(
        "its lag has grown over the window: it reads more slowly than producers write",
        "add members, up to the number of partitions, or make processing faster",
    ),
    "behind": Advice("there is a lag that neither grows nor shrinks", "nothing, if the delay is acceptable"),
    "catching": Advice("there is a lag, and it shrinks", "nothing"),
    "unknown": Advice(
        "the end of the partition, or the group's offset in it, is not known",
        "check that the topic exists, and that the partition has a leader",
    ),
    "ended": Advice("it has no members", "nothing, if it was stopped on purpose"),
    "ok": Advice("less than --min-lag records are unread", "nothing"),
}
"""By status, the most urgent first."""


def markdown() -> str:
    """The table in Markdown."""
    lines = ["| status | it means | what to do |", "|---|---|---|"]
    lines += [f"| `{status}` | {each.means} | {each.do} |" for status, each in ADVICE.items()]
    return "\n".join(lines) + "\n"
