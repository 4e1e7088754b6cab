"""What came of a story on a broker."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from coordinatord.testing.conform.chapters import chapter_of
from coordinatord.testing.conform.player import Frame
from coordinatord.testing.conform.story import Step, Story


class Verdict(Enum):
    """`SAME`: every answer is Kafka's. `DIFFERS`: at least one is not. `NOT_PLAYED`: the broker could not be asked."""

    SAME = "same"
    DIFFERS = "differs"
    NOT_PLAYED = "not played"


@dataclass(frozen=True, slots=True)
class Answered:
    """A step, and the broker's answer to it as text; None if the story did not get so far."""

    step: Step
    answer: list[str] | None

    @property
    def is_same(self) -> bool:
        return self.answer == self.step.recorded

    @property
    def is_like_coordinatord(self) -> bool:
        """Whether the answer differs from Kafka's as coordinatord's does, on purpose."""
        return bool(self.step.reason) and self.answer == self.step.ours


@dataclass(frozen=True, slots=True)
class Outcome:
    """`why`: why the story was not played, or not to its end. `frames` are those of the last time it was played."""

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
        """The answers that are not Kafka's, without those that the story did not get to."""
        return [answered for answered in self.answers if answered.answer is not None and not answered.is_same]

    @property
    def chapter(self) -> str:
        return chapter_of(self.story.name).title

    @property
    def kip(self) -> str:
        return chapter_of(self.story.name).kip

    @property
    def apis(self) -> list[str]:
        """The APIs that the story asks, in the order of their first request."""
        return list(dict.fromkeys(step.api for step in self.story.steps if step.api))

    def summary(self) -> str:
        """The first difference in one line."""
        if not self.is_played:
            return self.why
        if self.differing:
            first = self.differing[0]
            expected, got = first_difference(first.step.recorded, first.answer or [])
            return f"{asked(first.step)}: {got} instead of {expected}"
        return self.ending()

    def ending(self) -> str:
        """Why the story was not played to its end, and at which request."""
        unanswered = next((answered.step for answered in self.answers if answered.answer is None), None)
        if unanswered is None or not unanswered.recorded:
            return self.why
        return f"{asked(unanswered)}: {self.why} instead of {', '.join(_fields(unanswered.recorded)[:1])}"


def asked(step: Step) -> str:
    """The request of a step in a few words."""
    what = f"{step.api} v{step.version}" if step.api else {"<": "a late answer", "?": "a late answer"}.get(step.kind)
    return f"line {step.line}, {what or step.kind}"


def first_difference(expected: list[str], got: list[str]) -> tuple[str, str]:
    """The first fields that differ."""
    wanted, found = (_fields(lines) for lines in (expected, got))
    for one, other in zip(wanted, found, strict=False):
        if one != other:
            return one, other
    return (wanted[len(found)], "nothing more") if len(wanted) > len(found) else ("nothing more", found[len(wanted)])


def _fields(lines: list[str]) -> list[str]:
    """The fields without the brackets around them: a line for each field has them elsewhere than one line for all."""
    parts = (part.strip("[]{} ") for line in lines for part in line.split(", "))
    return [part.rsplit("=[", 1)[-1].rsplit("={", 1)[-1].lstrip("[{") for part in parts if part]


def difference(answered: Answered) -> list[str]:
    """Kafka's answer and the broker's, as a diff: `- ` Kafka's, `+ ` the broker's, and what they share."""
    lines = difflib.ndiff(answered.step.recorded, answered.answer or [])
    return [line for line in lines if not line.startswith("?")]
