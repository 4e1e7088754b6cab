"""Where we do not answer as Kafka does, and why: one list, of what stories say and of what random programs allow for.

    python -m tests.reference.differences     prints it

A story says it where it happens (`---- ours: why`). Random programs are compared word by word; what may differ all the
same is below, and the module that is named takes it out before the comparison.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.reference.story import all_stories


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
        "the fate of a group with metadata that Kafka cannot read",
        "Kafka fails on it and never answers again; programs have metadata that is in order, a story has other",
        "tests/reference/random_requests.py",
    ),
)


def told() -> Iterator[Known]:
    """What the stories say themselves."""
    for story in all_stories():
        for step in story.steps:
            if step.reason:
                yield Known(" ".join(step.source.split()), step.reason, f"{story.path.name}:{step.line}")


def main() -> None:
    for known in (*ALLOWED, *told()):
        print(f"* {known.what[:200]}\n  {known.reason} ({known.where})")


if __name__ == "__main__":
    main()
