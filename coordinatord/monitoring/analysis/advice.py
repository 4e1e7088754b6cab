"""The meaning of each status of `status.py`, and the recommended action. `coordinatord lag --help` and TABLES.md show
this table; a test compares it with the statuses.
"""

from __future__ import annotations

from typing import NamedTuple


class Advice(NamedTuple):
    """The meaning of a status and the recommended action: two clauses that a page joins to a sentence."""

    means: str
    do: str


ADVICE: dict[str, Advice] = {
    "members expired": Advice(
        "the session of its last member expired, and new records arrive that no member reads",
        "start its processes again: they were killed, or cannot reach the coordinator",
    ),
    "crash loop": Advice(
        "a client joins again and again, each time for a short while",
        "look at that client's logs: it fails at a record, or its sessions expire",
    ),
    "records lost": Advice(
        "records were deleted before they were read, by retention or DeleteRecords",
        "nothing brings them back; give the topic a longer retention.ms, or the group more members",
    ),
    "stopped": Advice(
        "it has not committed for longer than the window and its usual pause, while records were unread; of a share "
        "group: it has no members, and records have come since",
        "look at the members' logs: they hang, or fail before they commit, or have gone",
    ),
    "stuck": Advice(
        "it commits the same offset again and again, with records unread; of a share group: the record at its start "
        "offset is not acknowledged",
        "look at the record at that offset: the consumer cannot process it",
    ),
    "poison record": Advice(
        "a record was delivered to members of the share group half as often as the limit allows, and none has "
        "acknowledged it",
        "look at the record at that offset, and at the members' logs: at the limit it is archived, and not delivered "
        "any more",
    ),
    "storm": Advice(
        "it rebalances all the time",
        "look at the causes of its rebalances: coordinatord groups why, or the live page",
    ),
    "near loss": Advice(
        "four fifths of retention.ms have passed for its oldest unread record",
        "give the topic a longer retention.ms, or the group more members",
    ),
    "rewound": Advice(
        "its offset went back within the window, and has not returned",
        "check whether it was reset on purpose; if not, records may be processed twice",
    ),
    "falling": Advice(
        "its lag has grown over the window: it reads more slowly than producers write",
        "add members, up to the number of partitions (a share group can have more), or make processing faster",
    ),
    "behind": Advice(
        "there is a lag, and it is not certain that it grows or shrinks", "nothing, if the delay is acceptable"
    ),
    "waiting": Advice(
        "it has read all before an open transaction, and reads committed records alone",
        "look at the producer, if the transaction stays open: kafka-transactions.sh can abort it",
    ),
    "catching": Advice("there is a lag, and it shrinks", "nothing"),
    "unknown": Advice(
        "the end of the partition, or the group's offset in it, is not known",
        "check that the topic exists, and that the partition has a leader",
    ),
    "ended": Advice(
        "it has no members: the last one left, or there was none and it does not commit regularly",
        "nothing, if it was stopped on purpose",
    ),
    "ok": Advice("less than --min-lag records are unread", "nothing"),
    "unsubscribed": Advice(
        "no member subscribes to the topic any more", "nothing; coordinatord groups delete-offsets forgets it"
    ),
    "no offsets": Advice("it has committed nothing", "nothing"),
}
"""Advice by status, the most urgent first."""


def markdown() -> str:
    """Return the table in Markdown."""
    lines = ["| status | it means | what to do |", "|---|---|---|"]
    lines += [f"| `{status}` | {each.means} | {each.do} |" for status, each in ADVICE.items()]
    return "\n".join(lines) + "\n"
