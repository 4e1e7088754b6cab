"""Random programs of the classic protocol; the command is that of programs.py."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from unittest import mock

from coordinatord.coordination.group.classic import step as classic
from coordinatord.coordination.group.events import TimedOut
from coordinatord.coordination.group.result import JOIN, SESSION, Result
from coordinatord.coordination.group.state import Group
from tests.reference.in_process import InProcess
from tests.reference.leader_choice import LeaderChoice
from tests.reference.programs import Chosen, Vocabulary, main
from tests.reference.random_player import Choices, RandomPlayer
from tests.reference.random_steps import BURST_S, MARGIN_S, SETTINGS, TOPICS, policy, program

TIE_MS = 100
"""Timers that end within this time may end in another order elsewhere."""


@contextlib.contextmanager
def choosing(ours: InProcess, topic_ids: Mapping[str, bytes]) -> Iterator[Chosen]:
    """Our daemon chooses the leaders that Kafka has chosen, and programs in which time decides are left out."""

    @contextlib.contextmanager
    def chosen(player: RandomPlayer, choices: Choices) -> Iterator[None]:
        with LeaderChoice().installed() as choice:
            choice.wanted, choice.generation = choices.leaders, player.generation
            player.on_burst = partial(look_for_timers, player, ours)
            with watched_timers(player):
                yield

    yield chosen


def other_deadlines(group: Group, event: TimedOut) -> list[int]:
    """Those of the rebalance when a member's timer ends, and of the members when the rebalance's does."""
    if event.key.kind == SESSION:
        return [group.join_deadline_ms, group.sync_deadline_ms]
    return [member.session_deadline_ms for member in group.members.values()]


def look_for_timers(player: RandomPlayer, ours: InProcess) -> None:
    """As members begin to act: a timer that is to end among what they do. On one broker they are quicker than it and
    unset it, on the other it ends first. A rebalance's timer can be there when it has been set anew many times.
    """
    now_ms = ours.daemon.now_ms()
    until_ms = now_ms + int((BURST_S + MARGIN_S) * 1000)
    for group_id, actor in ours.daemon.coordinator.actors.items():
        group = actor.group
        deadlines = [group.join_deadline_ms, group.sync_deadline_ms]
        deadlines += [member.session_deadline_ms for member in group.members.values()]
        # A deadline that has passed is that of a member whose timer is off: one that waits for an answer.
        is_near = any(now_ms <= at_ms <= until_ms for at_ms in deadlines)
        if is_near and group_id.startswith(f"{player.names.story}."):
            player.is_in_time = False


@contextlib.contextmanager
def watched_timers(player: RandomPlayer) -> Iterator[None]:
    """Nobody can say what a broker sees first: a timer that ends while members act and what they do, or of two timers
    that end together a member's and the rebalance's."""
    original = classic.timed_out

    def timed_out(group: Group, event: TimedOut, now_ms: int) -> Result:
        is_tie = any(abs(at_ms - now_ms) < TIE_MS for at_ms in other_deadlines(group, event))
        result = original(group, event, now_ms)
        # A rebalance that nobody has rejoined is only timed anew, but some member may just be about to.
        has_effect = result.transitions or result.changes or result.replies or event.key.kind == JOIN
        if has_effect and group.group_id.startswith(f"{player.names.story}.") and (is_tie or player.is_burst()):
            player.is_in_time = False
        return result

    with mock.patch.dict(classic.HANDLERS, {TimedOut: timed_out}):
        yield


CLASSIC = Vocabulary(
    "random", program, policy, SETTINGS, TOPICS, RandomPlayer, choosing,
    at_once=(350, 100, 40, 5, 1), attempts=12, quick_seeds=range(1, 21),
)  # fmt: skip
"""Twelve attempts: Kafka may have chosen a leader that no answer names, and of two members it takes either one, by a
hash of their random ids."""

if __name__ == "__main__":
    sys.exit(main(CLASSIC, sys.argv[1:]))
