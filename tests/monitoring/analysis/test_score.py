"""How often the pipeline is right about what made a group rebalance, when a plain Kafka log is all that it has.

Histories with the truth beside them (the ledger's) are told from the log alone; precision and recall are printed for
each cause (pytest -s), and must not fall below what was measured when this was written, less a little.
"""

from __future__ import annotations

import pytest

from kafka_wire.records.rebalance_ledger import Why
from tests.monitoring.pipeline.histories import history
from tests.monitoring.pipeline.scoring import Known, score

SEEDS = range(14)
FLOORS = {
    Why.NEW_MEMBER: (0.95, 0.97),
    Why.MEMBER_LEFT: (0.95, 0.90),
    Why.SESSION_EXPIRED: (0.90, 0.90),
    Why.METADATA_CHANGED: (0.95, 0.90),
    Why.LEADER_REJOINED: (0.95, 0.95),
    Why.NOT_SYNCED: (0.70, 0.80),
}
"""Precision and recall, by cause."""


def test_causes_are_told_as_the_ledger_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    began: list[int] = []
    histories = []
    for seed in SEEDS:
        world = history(seed)
        known = Known(f"seed {seed}", world.generations(), world.commits(), world.rebalances)
        histories.append(known)
        for truth, told in known.pairs():
            assert told.began_after_ms is not None
            assert told.began_before_ms is not None
            assert told.began_ms is not None
            assert told.began_after_ms <= truth["began_ms"] <= told.began_before_ms
            assert (told.joined_ms, told.ended_ms) == (truth["joined_ms"] or told.joined_ms, truth["ended_ms"])
            assert (told.added, told.removed) == (truth["added"], truth["removed"]) or told.skipped_generations
            began.append(abs(told.began_ms - truth["began_ms"]))
    found = score(histories)
    began.sort()
    with capsys.disabled():
        print("", *found.lines(), sep="\n")
        print(f"began is off by {began[len(began) // 2]} ms (median), {began[len(began) * 9 // 10]} ms (9 of 10)")
    assert {truth for truth, _told in found.pairs} >= FLOORS.keys(), "a cause has not happened"
    assert found.below(FLOORS) == []
