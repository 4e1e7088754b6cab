"""Mistakes in the client, coordinatord.testing.member: the tests of it notice each."""

from __future__ import annotations

from tests.mutants.tool import Mutant

TESTS = "scenarios heartbeats joining polling committing timers metrics custom_assignors nodes world"
SHELL = "connections wire"
CONSUMER = "consumer_membership consumer_reconciling consumer_world consumer_like_others"


def _member(module: str, old: str, new: str, tests: str = TESTS) -> Mutant:
    files = " ".join(f"tests/testing/member/test_{each}.py" for each in tests.split())
    return Mutant(f"coordinatord.testing.member.{module}", old, new, f"pytest {files}")


# fmt: off
MUTANTS: dict[str, Mutant] = {
    "a timer expires a millisecond late": _member(
        "timer", "return now_ms >= self.deadline_ms", "return now_ms > self.deadline_ms"),
    "an answer begins no new session": _member(
        "timer", "        self.session.deadline_ms = now_ms + self.session_timeout_ms\n", ""),
    "the next heartbeat is due an interval later": _member(
        "timer", "self.heartbeat.deadline_ms = now_ms + self.heartbeat_interval_ms",
        "self.heartbeat.deadline_ms = now_ms + 2 * self.heartbeat_interval_ms"),
    "back-off does not grow": _member("timer", "grown *= BACKOFF_BASE", "grown *= 1"),
    "a poll does not show that the application is alive": _member(
        "timer", "        self.poll.deadline_ms = now_ms + self.max_poll_interval_ms\n", "        pass\n"),
    "a negative timeout is taken": _member("timer", "if timeout_ms < 0:", "if False:"),
    "a timer does not know when it began": _member("timer", "        self.start_ms = now_ms\n", ""),
    "the last poll is forgotten": _member(
        "timer", "self.last_poll_ms = self.poll.start_ms = now_ms", "self.poll.start_ms = now_ms"),
    "a second call is taken": _member("calls", "    if under_way:\n", "    if False:\n"),
    "a closed consumer takes calls": _member("calls", "    if member.closed:\n", "    if False:\n"),
    "a close does not wait for commits": _member("polling", "pending = _awaited(member)", "pending = 0"),
    "a close waits for a join": _member(
        "polling", "type(each.request) not in (JoinGroupRequest, SyncGroupRequest)", "True"),
    "a rejoin does not wait for the coordinator's responses": _member(
        "joining", "member.settings.single_threaded and member.join is None and member.pending_requests", "False"),
    "a fetch does not tell the high watermark": _member(
        "fetching", "state.high_watermark = data.high_watermark", "pass"),
    "a commit is not remembered": _member("committing", "            state.committed = offset\n", "            pass\n"),
    "heartbeats are not measured": _member(
        "heartbeats", "    member.metrics.heartbeat_latency.record(now_ms - send.sent_ms)\n", ""),
    "nobody is told what helps against a poll that comes too late": _member(
        "heartbeats", "    result.warnings.append(", "    (lambda _warning: None)("),
    "an unknown assignor is offered": _member(
        "state", "if unknown or not self.partition_assignment_strategy:", "if False:"),
    "user data stay at home": _member("joining", "assignor.subscription_user_data(member.subscription)", "None"),
    "the busiest node is asked": _member("nodes", "return min(ready,", "return max(ready,"),
    "a node that failed is asked again at once": _member(
        "nodes", "link.retry_at_ms = now_ms + self._backoff.after_ms(link.failures)", "link.retry_at_ms = now_ms"),
    "the back-off of a node does not grow": _member("nodes", "link.failures += 1", "link.failures = 0"),
    "nobody begins again with the bootstrap servers": _member(
        "nodes", "if chosen is None and self._rebootstraps", "if False and self._rebootstraps"),
    "the coordinator has no connection of its own": _member(
        "connections", "return (send.to, True), self._member", "return (send.to, False), self._member", SHELL),
    "only the bootstrap servers are asked": _member(
        "connections", "chosen = nodes.choose_for_metadata(now_ms) if of_metadata else nodes.choose(now_ms)",
        "chosen = -1", SHELL),
    "a static member goes out as a dynamic one": _member(
        "wire", "if version < static_since and", "if False and", SHELL),
    "nobody looks at the poll timer": _member("heartbeats", "heartbeat.poll.is_expired(now_ms)", "False"),
    "an application within a poll is taken for dead": _member("heartbeats", "not member.in_poll and ", ""),
    "REBALANCE_IN_PROGRESS is no sign of life": _member(
        "heartbeats", "            _failed(member, now_ms)\n        else:\n            _received(member, now_ms)",
        "            _failed(member, now_ms)\n        else:\n            _failed(member, now_ms)"),
    "REBALANCE_IN_PROGRESS asks for no rejoin": _member(
        "heartbeats", 'member.request_rejoin("group is already rebalancing")', "pass"),
    "ILLEGAL_GENERATION forgets the member id": _member(
        "heartbeats", "keep_member_id = error is ErrorCode.ILLEGAL_GENERATION", "keep_member_id = False"),
    "UNKNOWN_MEMBER_ID keeps the member id": _member(
        "heartbeats", "keep_member_id = error is ErrorCode.ILLEGAL_GENERATION", "keep_member_id = True"),
    "news of an earlier generation count": _member(
        "heartbeats", "if send.generation != member.generation:", "if False:"),
    "nobody is told of FENCED_INSTANCE_ID": _member(
        "heartbeats", "if error is ErrorCode.FENCED_INSTANCE_ID:", "if False:"),
    "a coordinator that is none is believed": _member(
        "heartbeats", "if error in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR):", "if False:"),
    "a coordinator that was found gets no new session": _member(
        "finding", "    member.heartbeat.reset_session_timeout(now_ms)\n", ""),
    "answers of the coordinator that is gone still count": _member("finding", "send.abandoned = True", "pass"),
    "without a thread no heartbeat follows a failover": _member(
        "step", "heartbeats.schedule_task(member, now_ms)", "pass"),
    "the id of MEMBER_ID_REQUIRED is dropped": _member("joining", "Generation(-1, member_id)", 'Generation(-1, "")'),
    "a join is tried again without a pause": _member(
        "joining", "member.join_again_ms = now_ms + member.settings.retry_backoff_ms", "member.join_again_ms = now_ms"),
    "eager members keep what they own": _member("joining", "elif not member.cooperative:", "elif False:"),
    "what is lost is called revoked": _member(
        "joining", "result.changes.append(Lost(owned))", "result.changes.append(Revoked(owned))"),
    "cooperative members do not come back after a revocation": _member(
        "joining", 'member.request_rejoin("need to revoke partitions and re-join")', "pass"),
    "one cooperative assignor makes the member cooperative": _member(
        "state", "self.cooperative = not is_classic or all(", "self.cooperative = not is_classic or any("),
    "what was consumed is not committed before a rejoin": _member(
        "joining", "if not commit_before_rejoin(member, now_ms, result):", "if False:"),
    "the leader does not look at its topics": _member(
        "joining", "if assigned_of != member.metadata_snapshot:", "if False:"),
    "a leader that is expelled while it waits for metadata stays out": _member(
        "joining", "        member.election = None\n        _end(member, ErrorCode.UNKNOWN_MEMBER_ID)\n",
        "        member.election = None\n"),
    "a change of the subscription waits for the next rebalance": _member(
        "joining", "member.joined_subscription != member.subscription:", "False:"),
    "a static leader that came back assigns": _member("leading", "if response.skip_assignment:", "if False:"),
    "static members leave": _member("leaving", "leave = member.settings.group_instance_id is None", "leave = True"),
    "what is paused is handed out": _member("fetching", "state is not None and state.paused", "False"),
    "what was fetched for another offset is handed out": _member(
        "fetching", "not state.is_fetchable or state.position != kept.next_offset", "not state.is_fetchable"),
    "a poll hands out one record too many": _member(
        "fetching", "kept.at : kept.at + room]", "kept.at : kept.at + room + 1]"),
    "the last record is read twice": _member(
        "fetching", "kept.next_offset = taken[-1].offset + 1", "kept.next_offset = taken[-1].offset"),
    "partitions are taken before others are given up": _member(
        "consumer.reconciling",
        "    if revoked:\n        result.changes.append(Revoked(revoked))\n"
        "    assign_partitions(member, wanted)\n    result.changes.append(Assigned(added))\n",
        "    assign_partitions(member, wanted)\n    result.changes.append(Assigned(added))\n"
        "    if revoked:\n        result.changes.append(Revoked(revoked))\n",
        CONSUMER),
    "nothing is committed before partitions are given up": _member(
        "consumer.reconciling", "if commit_before_rejoin(member, now_ms, result):", "if True:", CONSUMER),
    "the coordinator is not told what was given up": _member(
        "consumer.heartbeats", "if joins or said.assignment != membership.current:",
        "if joins or said.assignment is None:", CONSUMER),
    "what was given up is told before it was": _member(
        "consumer.heartbeats", "for topic_id, each in membership.claimed.items()",
        "for topic_id, each in membership.target.partitions.items()", CONSUMER),
    "what was reconciled is told an interval later": _member(
        "consumer.reconciling",
        "    transition_to(member, ACKNOWLEDGING, result)\n    membership.due_ms = now_ms\n\n\ndef _named",
        "    transition_to(member, ACKNOWLEDGING, result)\n\n\ndef _named", CONSUMER),
    "a fenced member keeps its partitions": _member(
        "consumer.membership",
        "    membership.attempts = membership.retry_ms = 0\n    _lose(member, now_ms, result)\n",
        "    membership.attempts = membership.retry_ms = 0\n    join(member, now_ms, result)\n", CONSUMER),
    "a fenced member joins with its last epoch": _member(
        "consumer.membership", "    set_epoch(member, JOINING_EPOCH)\n    transition_to(member, JOINING",
        "    transition_to(member, JOINING", CONSUMER),
    "a failed heartbeat is not said again in full": _member(
        "consumer.heartbeats", "    membership.say_all_again()\n", "", CONSUMER),
    "a response to an earlier life counts": _member(
        "consumer.heartbeats", "if send is not membership.in_flight or send.context != membership.lives:", "if False:",
        CONSUMER),
    "a static member leaves for good": _member(
        "consumer.membership", "LEAVING_FOR_NOW_EPOCH if is_static and not wanted else LEAVING_EPOCH", "LEAVING_EPOCH",
        CONSUMER),
    "who does not poll stays": _member(
        "consumer.heartbeats", "if not member.in_poll and member.heartbeat.poll.is_expired(now_ms):", "if False:",
        CONSUMER),
    "offsets are asked for without the epoch": _member(
        "positions", "if member.membership is not None and member.membership.epoch > 0:", "if False:", CONSUMER),
}
# fmt: on
