"""All mutants, by name, and the lists that they are in."""

from __future__ import annotations

from tests.mutants import (
    causes,
    classic_groups,
    consumer_assignors,
    consumer_groups,
    dead_letters,
    log,
    member,
    share_nodes,
    simulation,
)
from tests.mutants.tool import Mutant

LISTS: dict[str, dict[str, Mutant]] = {
    "causes": causes.MUTANTS,
    "classic_groups": classic_groups.MUTANTS,
    "consumer_groups": consumer_groups.MUTANTS,
    "consumer_assignors": consumer_assignors.MUTANTS,
    "dead_letters": dead_letters.MUTANTS,
    "log": log.MUTANTS,
    "member": member.MUTANTS,
    "share_nodes": share_nodes.MUTANTS,
    "simulation": simulation.MUTANTS,
}
MUTANTS = {name: mutant for each in LISTS.values() for name, mutant in each.items()}
assert len(MUTANTS) == sum(map(len, LISTS.values())), "two mutants have the same name"
