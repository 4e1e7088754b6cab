"""Mistakes in share groups of several nodes: their state is stored by another node, and another node may lead."""

from __future__ import annotations

from typing import Final

from tests.mutants.tool import Mutant

SHARE = "coordinatord.coordination.share."
STATE: Final = "pytest tests/server/workers/test_share_state.py"
FETCH: Final = "pytest tests/coordination/share/handlers/test_fetch.py"

# fmt: off
MUTANTS: dict[str, Mutant] = {
    "state for another node is acknowledged before it is durable": Mutant(
        SHARE + "apis.state:ShareStateApis._respond", "if epoch <= gate.flushed_epoch or gate.has_flushed(epoch):",
        "if True:", STATE),
    "a share coordinator that was away is not tried again": Mutant(
        SHARE + "state_persister:_Call._is_retried", "error in RETRIED", "False", STATE),
    "a topic that another node has not read about is not tried again": Mutant(
        SHARE + "state_persister:_Call._is_retried",
        "error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self._persister.exists(part)", "False", STATE),
    "each node takes itself for the share coordinator": Mutant(
        SHARE + "state_persister:StatePersister.elsewhere", "(peers, worker)", "None", STATE),
    "the topic of another node's share coordinator is not used": Mutant(
        "coordinatord.coordination.runtime.partitions:Partitions.exist",
        "if not self.states and self._topic is not None:", "if False:", STATE),
    "the ends of other nodes' partitions are read here": Mutant(
        SHARE + "end_offsets:PartitionEnds.ask", "topic.partitions[key[1]].is_here", "True", STATE),
    "a node that no longer leads delivers records": Mutant(
        SHARE + "apis.fetch:_PendingShareFetch.finish", "and handler.leads()", "", FETCH),
}
