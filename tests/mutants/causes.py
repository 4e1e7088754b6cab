"""Mistakes in the rules that infer what caused a rebalance: histories with known causes show each."""

from __future__ import annotations

from typing import Final

from tests.mutants.tool import Mutant

CLASSIC: Final = "rebalances", "pytest tests/monitoring/analysis/test_score.py"
EPOCHS: Final = "epoch_rebalances", "pytest tests/monitoring/analysis/test_epoch_score.py"


def _inferred(of: tuple[str, str], function: str, old: str, new: str) -> Mutant:
    module, command = of
    return Mutant(f"coordinatord.monitoring.analysis.{module}:{function}", old, new, command)


# fmt: off
MUTANTS: dict[str, Mutant] = {
    "no member is silent": _inferred(
        CLASSIC, "silence_ms", "until_ms - max(last_ms, generation.at_ms, member.seen_ms or 0)", "0"),
    "a member that does not sync is not noticed": _inferred(
        CLASSIC, "_not_synced", "if waited_ms is None or", "if True or"),
    "each rejoin without a change is the leader's": _inferred(
        CLASSIC, "_nobody_came_or_went", "if shed or (leader is not None and leader.tells_generation):", "if False:"),
    "each classic member that is gone has left": _inferred(
        CLASSIC, "_somebody_went", "silence >= member.session_timeout_ms - HEARTBEAT_MS", "False"),
    "a member that stopped polling seems dead": _inferred(
        CLASSIC, "stopped_polling", "return is_apart and", "return False and"),
    "each consumer that is gone has left": _inferred(EPOCHS, "_left_or_expired", "if last_ms < line:", "if True:"),
    "members that come are not noticed": _inferred(
        EPOCHS, "_cause_by_additions", "members(changes.added), members(changes.resubscribed)", "[], []"),
    "new partitions are not noticed": _inferred(
        EPOCHS, "_nobody_did_it", "gained = sorted(epoch.first.owners().keys() - before.owners().keys())",
        "return None"),
}
# fmt: on
