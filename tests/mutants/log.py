"""Mistakes in the log: histories of crashes show each."""

from __future__ import annotations

from typing import Final

from tests.mutants.tool import Mutant

HISTORY: Final = "tests.broker.log.history 0-199"
COMPACTED: Final = "tests.broker.log.compacted_history 0-299"


def _lost(where: str, old: str, new: str, command: str) -> Mutant:
    return Mutant(f"coordinatord.broker.log.{where}", old, new, command)


# fmt: off
MUTANTS: dict[str, Mutant] = {
    "the journal is not flushed": _lost(
        "flusher:Flusher.__init__", 'self._flushes = policy == "always"', "self._flushes = False", HISTORY),
    "a retired journal goes before its segments are flushed": _lost(
        "flusher:Flusher._flush_next", "if retired.segments:", "if False:", HISTORY),
    "a start after a crash begins no leader epoch": _lost(
        "data_dir", "if share is None and not is_new and not self.was_clean:", "if False:",
        f"{HISTORY} interval power"),
    "a cleaned segment is not flushed": _lost(
        "cleaning:_Cleaning._sync", "file.datasync()", "pass", COMPACTED),
    "old segments go before the cleaned one is committed": _lost(
        "segment_swap:commit", "base_offset = cleaned.base_offset",
        "[set_aside(disk, directory, each) for each in cleaned.replaces]; disk.sync_dir(directory)\n"
        "    base_offset = cleaned.base_offset", COMPACTED),
    "a committed swap is taken for an unfinished one": _lost(
        "segment_swap:recover", "sorted(_base(name) for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX))",
        "list[int]()", COMPACTED),
    "a log is compacted under its reader": _lost(
        "partition_log:PartitionLog.pinned",
        "self.pins += 1\n        try:\n            yield\n        finally:\n            self.pins -= 1", "yield",
        COMPACTED),
    "records of aborted transactions are taken for committed": _lost(
        "transaction_scan", "self.found.aborted.append(Aborted(producer_id, first_offset, header.base_offset, stable))",
        "pass", COMPACTED),
}
# fmt: on
