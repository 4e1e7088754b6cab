"""How often the pipeline is right about what made a group rebalance, when a plain Kafka log is all that it has.

Histories with the truth beside them (the ledger's) are told from the log alone; precision and recall are printed for
each cause (pytest -s), and must not fall below what was measured when this was written, less a little. The rules were
tuned on the first histories. After the held-out ones no rule was changed: other seeds of that generator, and the engine
of `coordinatord simulate`, which was made for something else: the real coordinator and the real member, with
deployments, crashes, pauses and batches that take too long, under each assignor. (Seeds of it that are not here showed
that a rule was missing, that of polls.) tests/mutants/causes.py breaks the rules.
"""

from __future__ import annotations

import pytest

from kafka_wire.records.rebalance_ledger import Why
from tests.monitoring.pipeline.histories import history
from tests.monitoring.pipeline.scoring import Known, score
from tests.monitoring.pipeline.simulated import SCENARIOS, Simulated

pytestmark = pytest.mark.timeout(300)  # tests with mutants end earlier otherwise

TUNED_SEEDS = range(14)
HELD_OUT_SEEDS = range(1_000, 1_006)
SIMULATED_SEEDS = (7, 8)

FLOORS = {
    Why.NEW_MEMBER: (0.95, 0.97),
    Why.MEMBER_LEFT: (0.95, 0.90),
    Why.SESSION_EXPIRED: (0.90, 0.90),
    Why.METADATA_CHANGED: (0.95, 0.90),
    Why.LEADER_REJOINED: (0.95, 0.95),
    Why.NOT_SYNCED: (0.70, 0.80),
}
"""Precision and recall, by cause."""
NEVER_SIMULATED = (Why.LEADER_REJOINED, Why.NOT_SYNCED)
"""No simulated member requests an assignment of its own accord, or fails to."""
POLLS_FLOORS = {Why.MEMBER_LEFT: (0.97, 0.97), Why.SESSION_EXPIRED: (0.97, 0.90)}
"""In simulations, where members leave since their application takes too long: without that rule they seem dead."""


def generated(seeds: range) -> list[Known]:
    found = []
    for seed in seeds:
        world = history(seed)
        found.append(Known(f"seed {seed}", world.generations(), world.commits(), world.rebalances))
    return found


@pytest.fixture(scope="module")
def held_out() -> list[Known]:
    return generated(HELD_OUT_SEEDS)


@pytest.fixture(scope="module")
def simulated() -> list[Known]:
    found = []
    for name in SCENARIOS:
        for seed in SIMULATED_SEEDS:
            world = Simulated(name, seed)
            found.append(Known(f"{name}, seed {seed}", world.generations(), world.commits(), world.records))
    return found


def test_causes_are_told_as_the_ledger_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    began: list[int] = []
    histories = generated(TUNED_SEEDS)
    for known in histories:
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


def test_causes_on_other_seeds(held_out: list[Known], capsys: pytest.CaptureFixture[str]) -> None:
    found = score(held_out)
    with capsys.disabled():
        print("\nheld out, generated:", *found.lines(), sep="\n")
    assert len(found.stated) >= 150
    assert found.below(FLOORS) == []


def test_causes_under_the_simulation(simulated: list[Known], capsys: pytest.CaptureFixture[str]) -> None:
    found = score(simulated)
    with capsys.disabled():
        print("\nheld out, simulated:", *found.lines(), sep="\n")
    assert len(found.stated) >= 250
    floors = {cause: floor for cause, floor in FLOORS.items() if cause not in NEVER_SIMULATED}
    assert found.below(floors | POLLS_FLOORS) == []
    assert not {pair for pair in found.pairs if pair[1] in NEVER_SIMULATED}


def test_confidences_are_kept(held_out: list[Known], simulated: list[Known]) -> None:
    """Where 0.9 is stated, about nine of ten are right; being right more often than stated is the smaller fault."""
    found = score([*held_out, *simulated])
    found.check_confidences(above=0.0, apart=0.0, better=0.15)
    rows = found.calibration()
    share = sum(count for count, _, _ in rows if count >= 20) / len(found.stated)
    assert share >= 0.9, "nearly all are in a row of the table that is big enough to be looked at"
