"""Mistakes in dead letters of share groups: the tests of the pure share partition, or those of the queue, show each."""

from __future__ import annotations

from tests.mutants.tool import Mutant

SHARE = "coordinatord.coordination.share."


def _decided(where: str, old: str, new: str) -> Mutant:
    return Mutant(SHARE + "partition." + where, old, new, "pytest tests/coordination/share/test_dead_letters.py")


def _written(where: str, old: str, new: str) -> Mutant:
    return Mutant(SHARE + where, old, new, "pytest tests/coordination/share/handlers/test_dead_letters.py")


# fmt: off
MUTANTS: dict[str, Mutant] = {
    "a rejected record is archived without a dead letter": _decided(
        "acknowledge:_Acknowledging._change", "is_rejected and partition.limits.dead_letters", "False"),
    "a record at its limit is archived without a dead letter": _decided(
        "state:InFlightState.change", "RecordState.ARCHIVING if limits.dead_letters else RecordState.ARCHIVED",
        "RecordState.ARCHIVED"),
    "a dead letter is due although its write has failed": _decided(
        "writes:written", "if not committed and pending:", "if False:"),
    "the start offset passes records whose dead letters are not written": _decided(
        "state:RecordState.is_terminal", "self is RecordState.ARCHIVED", "self >= RecordState.ARCHIVING"),
    "a restart archives records without their dead letters": _decided(
        "step:_initialize", "return Result(wakes=True, letters=letters)", "return Result(wakes=True)"),
    "a record is archived before its dead letter is durable": _written(
        "dead_letters:DeadLetterQueue._ended", "self._topics.writer.hold(epoch, ", "(lambda call: call())("),
    "dead letters that wait already are written twice": _written(
        "dead_letters:DeadLetterQueue.add", "if known is not None:", "if False:"),
    "all dead letters are in one partition": _written(
        "dead_letters:DeadLetterQueue._place", "entry.key[2] % len(topic.partitions)", "0"),
    "a topic that does not allow dead letters gets them": _written(
        "dead_letters:DeadLetterQueue._place", "elif not topic.configs.value(ENABLED):", "elif False:"),
    "dead letters that another node did not get are given up": _written(
        "dead_letters:Unwritable.__init__", "error in RETRIED", "False"),
}
# fmt: on
