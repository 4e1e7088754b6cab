"""Outcome of a story on a broker."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from coordinatord.testing.conform.categories import chapter_of
from coordinatord.testing.conform.player import Frame
from coordinatord.testing.conform.story import Step, Story


class Verdict(Enum):
    """Verdict on a story. `SAME`: every response is Kafka's. `DIFFERS`: at least one is not. `NOT_PLAYED`: the broker
    cannot play it.
    """

    SAME = "same"
    DIFFERS = "differs"
    NOT_PLAYED = "not played"


@dataclass(frozen=True, slots=True)
class Answered:
    """A step, and the broker's response to it as text; None if the story ended before."""

    step: Step
    answer: list[str] | None

    @property
    def is_same(self) -> bool:
        return self.answer == self.step.recorded

    @property
    def is_like_coordinatord(self) -> bool:
        """True if the response differs from Kafka's in the same way as coordinatord's, which is deliberate."""
        return bool(self.step.reason) and self.answer == self.step.ours


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a story. `why`: the reason why the story was not played, or not to its end. `frames` are those of the
    last play.
    """

    story: Story
    answers: list[Answered] = field(default_factory=list)
    why: str = ""
    frames: Sequence[Frame] = ()
    is_played: bool = True

    @property
    def verdict(self) -> Verdict:
        if not self.is_played:
            return Verdict.NOT_PLAYED
        if self.why or not all(answered.is_same for answered in self.answers):
            return Verdict.DIFFERS
        return Verdict.SAME

    @property
    def differing(self) -> list[Answered]:
        """Responses that are not Kafka's, without those after the end of an interrupted story."""
        return [answered for answered in self.answers if answered.answer is not None and not answered.is_same]

    @property
    def chapter(self) -> str:
        return chapter_of(self.story.name).title

    @property
    def kip(self) -> str:
        return chapter_of(self.story.name).kip

    @property
    def apis(self) -> list[str]:
        """APIs that the story uses, in the order of their first request."""
        return list(dict.fromkeys(step.api for step in self.story.steps if step.api))

    def summary(self) -> str:
        """Return the first difference in one line."""
        if not self.is_played:
            return self.why
        if self.differing:
            first = self.differing[0]
            expected, got = first_difference(first.step.recorded, first.answer or [])
            return f"{request_text(first.step)}: {got} instead of {expected}"
        return self.ending()

    def ending(self) -> str:
        """Return the reason why the story was not played to its end, and the request at which it ended."""
        unanswered = next((answered.step for answered in self.answers if answered.answer is None), None)
        if unanswered is None or not unanswered.recorded:
            return self.why
        return f"{request_text(unanswered)}: {self.why} instead of {', '.join(_fields(unanswered.recorded)[:1])}"


def request_text(step: Step) -> str:
    """Return the request of a step in a few words."""
    what = f"{step.api} v{step.version}" if step.api else {"<": "a late answer", "?": "a late answer"}.get(step.kind)
    return f"line {step.line}, {what or step.kind}"


def first_difference(expected: list[str], got: list[str]) -> tuple[str, str]:
    """Return the first fields that differ."""
    wanted, found = (_fields(lines) for lines in (expected, got))
    for one, other in zip(wanted, found, strict=False):
        if one != other:
            return one, other
    return (wanted[len(found)], "nothing more") if len(wanted) > len(found) else ("nothing more", found[len(wanted)])


def _fields(lines: list[str]) -> list[str]:
    """Return the fields without the brackets around them, whose positions depend on the number of lines."""
    parts = (part.strip("[]{} ") for line in lines for part in line.split(", "))
    return [part.rsplit("=[", 1)[-1].rsplit("={", 1)[-1].lstrip("[{") for part in parts if part]


def difference(answered: Answered) -> list[str]:
    """Return Kafka's response and the broker's, as a diff: `- ` Kafka's, `+ ` the broker's, and common lines."""
    lines = difflib.ndiff(answered.step.recorded, answered.answer or [])
    return [line for line in lines if not line.startswith("?")]
