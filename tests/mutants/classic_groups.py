"""Mistakes in the core of classic groups: random programs that were recorded from Kafka show each."""

from __future__ import annotations

from tests.mutants.tool import Mutant

_PROGRAMS = "pytest tests/reference/test_random_programs.py::test_we_do_what_kafka_did[random]"


def _told(where: str, old: str, new: str) -> Mutant:
    return Mutant(f"coordinatord.coordination.group.classic.{where}", old, new, _PROGRAMS)


# fmt: off
MUTANTS: dict[str, Mutant] = {
    "a wrong generation has the error of a member that is not known": _told(
        "step", "heartbeat_error(ErrorCode.ILLEGAL_GENERATION)", "heartbeat_error(ErrorCode.UNKNOWN_MEMBER_ID)"),
    "no static member is fenced": _told("members:refusal", "if owner != member_id:", "if False:"),
    "a member that does not sync may stay": _told("rebalance:sync_timed_out", "if not missing:", "if True:"),
    "the last join does not complete the rebalance": _told(
        "rebalance:maybe_complete_join", "        complete_join(group, now_ms, result)", "        pass"),
    "a leave does not complete the rebalance": _told(
        "leaving:leave", "maybe_complete_join(group, now_ms, result)", "pass"),
    "parked syncs stay parked": _told("rebalance:reset_assignments", "if answer_sync(", "if False and answer_sync("),
    "every protocol is supported": _told(
        "protocol_selection:supports_protocols", "if supported.get(protocol.name, 0) == size:", "if True:"),
    "any of the supported protocols wins": _told(
        "protocol_selection:select_protocol", "votes: dict[str, int] = {}", "return max(candidates)"),
    "rebalances are not timed": _told(
        "rebalance:_set_join_timer",
        "result.timers.append(Schedule(TimerKey(group.group_id, JOIN), group.join_deadline_ms))", "pass"),
}
# fmt: on
