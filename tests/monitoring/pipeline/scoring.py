"""How well causes are told, given histories of which they are known: precision and recall by cause, and whether stated
confidences are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from coordinatord.monitoring.analysis.generations import Commits, Generation
from coordinatord.monitoring.analysis.rebalances import Rebalance, rebalances

EDGES = (0.0, 0.7, 0.88, 0.93, 0.96, 1.01)
"""Of the rows of a table of confidences."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a pipeline gets of a group, and the ledger's records of it."""

    name: str
    generations: Sequence[Generation | None]
    commits: Commits
    ledger: Sequence[dict[str, Any]]

    def pairs(self) -> Iterator[tuple[dict[str, Any], Rebalance]]:
        """Each rebalance that the log tells of, with its truth; there is one for each that ended."""
        truths = {each["generation_after"]: each for each in self.ledger if each["outcome"] in ("completed", "empty")}
        for told in rebalances(self.generations, self.commits):
            yield truths.pop(told.generation), told
        assert not truths, "the log has a row for each rebalance that ended"


@dataclass(slots=True)
class Score:
    """`pairs` counts (true cause, cause that was told); `stated` has (confidence, whether it was right)."""

    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    stated: list[tuple[float, bool]] = field(default_factory=list)

    def of(self, cause: str) -> tuple[float, float]:
        """Precision and recall."""
        right, told, were = self._counts(cause)
        return (right / told if told else 0.0, right / were if were else 0.0)

    def _counts(self, cause: str) -> tuple[int, int, int]:
        told = sum(count for (_, each), count in self.pairs.items() if each == cause)
        were = sum(count for (each, _), count in self.pairs.items() if each == cause)
        return self.pairs[cause, cause], told, were

    def calibration(self) -> list[tuple[int, float, float]]:
        """(how many, what was stated on the average, the share that was right) of each range of confidence."""
        rows = []
        for low, high in pairwise(EDGES):
            within = [(stated, right) for stated, right in self.stated if low <= stated < high]
            if within:
                count = len(within)
                rows.append((count, sum(each[0] for each in within) / count, sum(each[1] for each in within) / count))
        return rows

    def check_confidences(self, above: float, apart: float, better: float) -> None:
        """Assert that rows of confidences above a limit are right about as often as stated, at most so much more often
        as `better`, and that errors are stated with less confidence, by more than `apart`.
        """
        for count, stated, right in self.calibration():
            if count >= 20 and stated > above:
                assert -0.06 <= right - stated <= better, (count, stated, right)
        wrong, right_ = ([each for each, is_right in self.stated if is_right is wanted] for wanted in (False, True))
        assert sum(wrong) / len(wrong) + apart < sum(right_) / len(right_)

    def lines(self) -> Iterator[str]:
        """To be printed."""
        for cause in sorted({cause for pair in self.pairs for cause in pair}):
            right, told, were = self._counts(cause)
            precision, recall = self.of(cause)
            yield f"{cause:<28} precision {precision:.2f} ({right} of {told}), recall {recall:.2f} ({right} of {were})"
        for count, stated, right in self.calibration():
            yield f"confidence {stated:.2f} stated {count:>4} times: {right:.2f} right"

    def below(self, floors: dict[str, tuple[float, float]]) -> list[str]:
        """Causes of which precision or recall is less than it shall be."""
        return [
            cause
            for cause, wanted in floors.items()
            if any(value < least for value, least in zip(self.of(cause), wanted, strict=True))
        ]


def score(histories: Iterable[Known]) -> Score:
    """Of all of them together."""
    found = Score()
    for history in histories:
        for truth, told in history.pairs():
            assert told.trigger is not None
            assert told.confidence is not None
            kind = truth["trigger"]["kind"]
            found.pairs[kind, told.trigger] += 1
            found.stated.append((told.confidence, kind == told.trigger))
    return found
