"""Suite of stories: plays stories on a broker, several at a time, and compares the responses with those of Kafka."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping

from coordinatord.testing.conform.cleanup import clean_up
from coordinatord.testing.conform.outcome import Answered, Outcome, Verdict
from coordinatord.testing.conform.player import Player, PlayError
from coordinatord.testing.conform.selection import why_not
from coordinatord.testing.conform.story import Story
from coordinatord.testing.conform.target import Target, describe, until_ready

AT_ONCE = 24
STILL_S = 1.0
"""Time in seconds within which a broker may still create topics and groups of interrupted stories."""
GONE = "the broker does not accept connections any more"
"""Reason why a story was not played, or not to its end, if the broker has ended. Another story may have ended it."""
_TIME = re.compile(r"after (\d+) s: ")


async def play_all(
    target: Target,
    stories: Iterable[Story],
    run: str,
    *,
    assumed: Mapping[str, str],
    is_slow_wanted: bool = False,
    is_own: bool = False,
    at_once: int = AT_ONCE,
    tell: Callable[[Outcome], None] = lambda outcome: None,
) -> tuple[list[Outcome], list[str]]:
    """Return the outcome of each story, in order, and the names of the objects that could not be deleted afterwards.
    All objects that the stories create on the broker have names that begin with `run`. A story that differs is played
    once more alone, and the second outcome is final: on a busy machine a request can overtake one that was sent earlier
    on another connection. Raises Unsuitable.
    """
    broker = await describe(target, assumed, is_own=is_own)
    await until_ready(target, broker, run)
    turns = asyncio.Semaphore(at_once)

    async def play(story: Story) -> Outcome:
        reason = why_not(story, broker, is_slow_wanted=is_slow_wanted)
        if reason:
            return Outcome(story, why=reason, is_played=False)
        async with turns:
            return await play_one(target, story, run)

    outcomes = []
    try:
        for first in await asyncio.gather(*(play(story) for story in stories)):
            last = first
            if first.verdict is Verdict.DIFFERS:
                last = await play_one(target, first.story, f"{run}.again")
                if last.why == GONE and at_once == 1:
                    last = first  # no other story was played at the time: this one has ended the broker
            tell(last)
            outcomes.append(last)
    except asyncio.CancelledError:  # Ctrl-C; a second one does not wait for this
        for _ in range(0 if is_own else 3):
            await asyncio.sleep(STILL_S)
            await clean_up(target, broker, run)
        raise
    return outcomes, await clean_up(target, broker, run)


async def play_one(target: Target, story: Story, run: str) -> Outcome:
    """Return the outcome of one story."""
    player = Player(story, target.connect, target.host, target.port, f"{run}.{story.name}", target.timeout_s)
    why = ""
    try:
        await player.play()
    except ConnectionRefusedError:
        why = GONE
    except PlayError as error:
        why = error.why
    steps = [step for step in story.steps if step.is_answered]
    missing: list[list[str] | None] = [None] * (len(steps) - len(player.results))
    answers = [
        Answered(step, result if result is None else but_for_a_second(step.recorded, result))
        for step, result in zip(steps, [*player.results, *missing], strict=True)
    ]
    return Outcome(story, answers, why, player.frames, is_played=why != GONE or bool(player.clients))


def but_for_a_second(recorded: list[str], result: list[str]) -> list[str]:
    """Return `result`, or `recorded` if they differ by no more than a second in time: a busy machine is late now and
    then.
    """
    if not recorded or not result:
        return result
    (was_s, was), (is_s, now) = (_time_and_text(lines) for lines in (recorded, result))
    return recorded if was == now and abs(was_s - is_s) <= 1 else result


def _time_and_text(lines: list[str]) -> tuple[int, list[str]]:
    match = _TIME.match(lines[0])
    return (int(match[1]), [lines[0][match.end() :], *lines[1:]]) if match else (0, lines)
