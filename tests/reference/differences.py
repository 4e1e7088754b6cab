"""The list of known differences between Kafka's answers and ours: what stories say, and what no story can.

    python -m tests.reference.differences        write DIFFERENCES.md; record.py does so, too

A story says it where it happens (`---- ours: why`, see story.py). What is a matter of chance in Kafka, or of sizes, is
below; random programs are compared word by word, and the module that is named takes it out before the comparison.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.reference.story import Story, all_stories

LIST = Path(__file__).parent / "DIFFERENCES.md"


@dataclass(frozen=True, slots=True)
class Known:
    """A difference that stays. `where` is a story and its line, or the module that allows for it."""

    what: str
    reason: str
    where: str


ALLOWED = (
    Known(
        "who leads when the leader has gone, or has not rejoined in time",
        "Kafka takes the first member in the order of a java.util.HashMap of random ids, which is to say anybody; we "
        "take the member that has been here longest",
        "tests/reference/leader_choice.py",
    ),
    Known(
        "the order of members in JoinGroup and DescribeGroups, and of groups in ListGroups and DeleteGroups",
        "Kafka's is that of a java.util.HashMap, ours that of their coming",
        "tests/reference/canonical.py",
    ),
    Known(
        "which of several sessions ends first when they end at the same instant",
        "Kafka's order is that of a java.util.HashMap, and decides whose rebalance timeout is the longest that is left;"
        " programs give each member another session timeout",
        "tests/reference/random_requests.py",
    ),
    Known(
        "what comes first when a member's session and the group's rebalance end within a tenth of a second",
        "each broker's timers have a resolution and a load of their own; such programs are left out and counted",
        "tests/reference/random_programs.py",
    ),
    Known(
        "the fate of a group with metadata that Kafka cannot read",
        "Kafka fails on it and never answers again; programs have metadata that is in order, a story has other",
        "tests/reference/random_requests.py",
    ),
    Known(
        "limits",
        "Kafka bounds neither the ids that it hands out to members that never come back, nor the length of a group id "
        "beyond what its log takes, nor a member's metadata; we refuse what passes our limits: GROUP_MAX_SIZE_REACHED, "
        "INVALID_GROUP_ID and POLICY_VIOLATION",
        "coordinatord/group/classic/joining.py",
    ),
    Known(
        "before the first FindCoordinator",
        "Kafka makes `__consumer_offsets` when it is first asked for a coordinator; until then requests of groups are "
        "answered NOT_COORDINATOR. We have the topic from the start and serve at once",
        "tests/reference/record.py",
    ),
    Known(
        "when EndTxn is answered",
        "Kafka answers when the decision is durable, and who comes before the markers are written hears "
        "CONCURRENT_TRANSACTIONS, which clients try again after 20 ms and more; we answer one flush later, when the "
        "markers are durable, so that what is committed can be read and the next transaction can begin",
        "coordinatord/transactions/steps.py",
    ),
    Known(
        "SyncGroup while the group's partition is being loaded",
        "Kafka 4 says COORDINATOR_LOAD_IN_PROGRESS, which its consumer does not expect there: poll() raises; we say "
        "REBALANCE_IN_PROGRESS, as Kafka's former coordinator did, and the member joins again",
        "coordinatord/coordinator/apis/membership.py",
    ),
    Known(
        "a request behind a parked one that is never answered (its member was removed, or asked again elsewhere)",
        "Kafka does not look at it and leaves the connection mute until the client's patience ends; we hang up",
        "coordinatord/net/connection.py",
    ),
    Known(
        "DescribeGroups of a group with pending members only",
        "Kafka describes what is durable and writes nothing for them: GROUP_ID_NOT_FOUND until anybody's next record "
        "in the same partition of its log, Empty afterwards; we say Empty at once",
        "coordinatord/coordinator/apis/admin.py",
    ),
    Known(
        "TxnOffsetCommit while the group's partition is being loaded",
        "Kafka looks first whether the group takes part in the transaction, then whether its partition is loaded; we "
        "say COORDINATOR_LOAD_IN_PROGRESS first: the log that tells who takes part is the one that is being read",
        "coordinatord/coordinator/apis/txn_offset_commit.py",
    ),
    Known(
        "while a transaction completes",
        "to a Produce of v12 or later Kafka tries for 100 ms before it says CONCURRENT_TRANSACTIONS; we say it at once",
        "coordinatord/topics/produce.py",
    ),
    Known(
        "when a transaction times out",
        "Kafka looks every transaction.abort.timed.out.transaction.cleanup.interval.ms, ten seconds; we have a timer",
        "coordinatord/transactions/coordinator.py",
    ),
    Known(
        "a partition that refuses a marker of our own coordinator",
        "when the producer id has a newer epoch there, Kafka leaves the transaction in PrepareCommit or PrepareAbort; "
        "we complete it",
        "coordinatord/transactions/markers.py",
    ),
    Known(
        "patterns of ListTransactions",
        "what is not understood is INVALID_REGULAR_EXPRESSION: anchors within a pattern, named groups, flags, Unicode "
        "classes, and what needs more than 250 states",
        "coordinatord/transactions/pattern.py",
    ),
    Known(
        "a compacted topic that has gone quiet",
        "Kafka begins a new segment when something is appended, so that what is in the active one is not compacted "
        "until then, however old it is; we look at its age, too: segment.ms, or max.compaction.lag.ms if that is less",
        "coordinatord/log/dirt.py",
    ),
    Known(
        "batches without records in a compacted log",
        "both keep the last one of an active producer so; we also keep the last one of each rewritten segment, by "
        "which an interrupted swap is finished",
        "coordinatord/log/cleaning.py",
    ),
)
"""What no story tells."""

HEAD = """\
# Known differences from Apache Kafka 4.3

Made by `python -m tests.reference.differences`; the stories are in `tests/reference/stories/`, where each shows what
Kafka answers and what we answer. Everything else that a story tells is the same in both.
"""

_ASKED = {"?": "an answer that is late", "<": "an answer that is late", "frame": "a frame", "bytes": "bytes"}


def told(stories: list[Story] | None = None) -> Iterator[Known]:
    """What the stories say themselves, all of them unless given."""
    for story in all_stories() if stories is None else stories:
        for step in story.steps:
            if step.reason:
                asked = f"{step.api} v{step.version}" if step.api else _ASKED[step.kind]
                yield Known(asked, step.reason, story.name)


def text(stories: list[Story]) -> str:
    """The whole list."""
    out = [HEAD, "| story | what is asked | why our answer is another one |", "|---|---|---|"]
    out += [f"| {known.where} | {known.what} | {known.reason} |" for known in told(stories)]
    out += ["", "## What no story tells", ""]
    out += [f"- **{known.what[0].upper()}{known.what[1:]}.** {known.reason} (`{known.where}`)." for known in ALLOWED]
    return "\n".join(out) + "\n"


def main() -> None:
    LIST.write_text(text(all_stories()))


if __name__ == "__main__":
    main()
