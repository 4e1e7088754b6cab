"""Does it come true? The same scenario with real consumers in real time: about a minute for each broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.validate import Predicted, is_close, predict, see


@pytest.fixture(scope="module")
def predicted() -> Predicted:
    return predict()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "which",
    [pytest.param("ours", marks=pytest.mark.clients), pytest.param("kafka", marks=pytest.mark.reference)],
)
def test_what_is_predicted_is_what_is_seen(which: str, predicted: Predicted, tmp_path: Path) -> None:
    seen = see(which, tmp_path)
    assert predicted.rebalances[0] == predicted.rebalances[2] == seen.rebalances
    assert is_close(seen.unowned_ms, predicted.unowned_ms), (seen, predicted)
    assert is_close(seen.longest_gap_ms, predicted.longest_gap_ms), (seen, predicted)
