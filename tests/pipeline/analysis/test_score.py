"""How often the pipeline is right about what made a group rebalance, when a plain Kafka log is all that it has.

Histories with the truth beside them (the ledger's) are told from the log alone; precision and recall are printed for
each cause (pytest -s), and must not fall below what was measured when this was written, less a little.
"""

from __future__ import annotations

from collections import Counter

import pytest

from coordinatord.pipeline.analysis import rebalances as causes
from coordinatord.pipeline.analysis.rebalances import rebalances
from tests.pipeline.histories import history

SEEDS = range(14)
FLOORS = {
    causes.NEW_MEMBER: (0.95, 0.97),
    causes.MEMBER_LEFT: (0.95, 0.90),
    causes.SESSION_EXPIRED: (0.90, 0.90),
    causes.METADATA_CHANGED: (0.95, 0.90),
    causes.LEADER_REJOINED: (0.95, 0.95),
    causes.NOT_SYNCED: (0.70, 0.80),
}
"""Precision and recall, by cause."""


def test_causes_are_told_as_the_ledger_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    pairs: Counter[tuple[str, str]] = Counter()
    surely: list[bool] = []
    began: list[int] = []
    for seed in SEEDS:
        world = history(seed)
        truths = {each["generation_after"]: each for each in world.rebalances if each["outcome"] != "superseded"}
        for told in rebalances(world.generations(), world.commits()):
            truth = truths.pop(told.generation)
            assert told.trigger is not None
            assert told.began_after_ms is not None
            assert told.began_before_ms is not None
            assert told.began_ms is not None
            assert told.began_after_ms <= truth["began_ms"] <= told.began_before_ms
            assert (told.joined_ms, told.ended_ms) == (truth["joined_ms"] or told.joined_ms, truth["ended_ms"])
            assert (told.added, told.removed) == (truth["added"], truth["removed"]) or told.skipped_generations
            kind = truth["trigger"]["kind"]
            pairs[kind, told.trigger] += 1
            began.append(abs(told.began_ms - truth["began_ms"]))
            if told.confidence is not None and told.confidence >= 0.9:
                surely.append(kind == told.trigger)
        assert not truths, "the log has a row for each rebalance that ended"
    scores = {}
    for cause in sorted({cause for pair in pairs for cause in pair}):
        right = pairs[cause, cause]
        told_so = sum(count for (_, told_), count in pairs.items() if told_ == cause)
        were = sum(count for (truth_, _), count in pairs.items() if truth_ == cause)
        scores[cause] = (right / told_so if told_so else 0.0, right / were if were else 0.0)
        with capsys.disabled():
            print(
                f"\n{cause:<28} precision {scores[cause][0]:.2f} ({right} of {told_so}), "
                f"recall {scores[cause][1]:.2f} ({right} of {were})",
                end="",
            )
    began.sort()
    with capsys.disabled():
        print(
            f"\nof {len(surely)} told with a confidence of 0.9 or more {sum(surely) / len(surely):.3f} are right; "
            f"began is off by {began[len(began) // 2]} ms (median), {began[len(began) * 9 // 10]} ms (9 of 10)"
        )
    assert scores.keys() >= FLOORS.keys(), "a cause has not happened"
    for cause, (precision, recall) in FLOORS.items():
        assert scores[cause][0] >= precision, cause
        assert scores[cause][1] >= recall, cause
    assert sum(surely) >= 0.95 * len(surely)
