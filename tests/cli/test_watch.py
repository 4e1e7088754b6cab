"""What `groups watch` prints from one look to the next."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinatord.cli.group_commands import changes
from coordinatord.monitoring.admin.groups import CLASSIC, CONSUMER, Group, Member, Partitions


def member(name: str, assigned: Partitions | None = None) -> Member:
    return Member(f"id-{name}", None, name, "/10.0.0.1", assigned or {}, ["t"])


def group_of(*members: Member, state: str = "Stable", epoch: int | None = None) -> Group:
    kind = CLASSIC if epoch is None else CONSUMER
    return Group("g", kind, state, "range", 0, epoch=epoch, members=list(members))


ONE, TWO = member("one", {"t": [0, 1]}), member("two", {"t": [2]})
BOTH = group_of(ONE, TWO)


@pytest.mark.parametrize(
    ("before", "now", "lines"),
    [
        (BOTH, BOTH, []),
        (BOTH, group_of(ONE), ["g: two on 10.0.0.1 has gone"]),
        (group_of(ONE), BOTH, ["g: two on 10.0.0.1 has come, with t:2"]),
        (BOTH, group_of(ONE, replace(TWO, assigned={"t": [3]})), ["g: two on 10.0.0.1: t:2 → t:3"]),
        (
            BOTH,
            replace(BOTH, state="Empty", members=[TWO]),
            ["g: Stable → Empty, 1 members", "g: one on 10.0.0.1 has gone"],
        ),
        (group_of(ONE, epoch=4), group_of(ONE, epoch=5), ["g: Stable → Stable in epoch 5, 1 members"]),
        (BOTH, None, ["g: the group is gone"]),
        (None, None, []),
        (
            None,
            BOTH,
            [
                "Group g is Stable: 2 members, assigned by range (classic protocol, node 0).",
                "g: one on 10.0.0.1 has t:0-1",
                "g: two on 10.0.0.1 has t:2",
            ],
        ),
    ],
)
def test_changes_between_two_looks(before: Group | None, now: Group | None, lines: list[str]) -> None:
    assert list(changes("g", before, now)) == lines


def test_a_group_that_was_never_there() -> None:
    assert list(changes("g", None, None, "there is no group g.")) == ["there is no group g."]
