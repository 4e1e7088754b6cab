"""Mistakes in the daemon and in its members: a simulated world notices each."""

from __future__ import annotations

from tests.mutants.tool import Mutant

GROUP, LOG, CONTROL = "coordinatord.coordination.group.", "coordinatord.broker.log.", "coordinatord.server.control."
STORE = "coordinatord.server.postgresql."
SHARE = "coordinatord.coordination.share."
_WORLDS = "tests.testing.simulation.run --quiet-hours 3"


def _lived(where: str, old: str, new: str, seed: int, protocol: str = "classic", violation: str = "") -> Mutant:
    """`seed` is the first world that notices the mistake, as a violation of that name if it is given; where its story
    has changed, another one within a minute of one core's time.
    """
    worlds = f"{_WORLDS} --protocol {protocol}" + (f" --violates {violation}" if violation else "")
    return Mutant(where, old, new, f"{worlds} --seed {seed}", f"{worlds} --first-seed 0 --seconds 60")


# fmt: off
MUTANTS: dict[str, Mutant] = {
    "the journal is written and not flushed": _lived(LOG + "journal:Journal.flush", "self._file.datasync()", "pass", 1),
    "responses do not wait for the log": _lived(
        "coordinatord.coordination.runtime.actors:Actor.respond", "self.epoch > gate.flushed_epoch", "False", 5),
    "the leader's sync is answered before its assignment is logged": _lived(
        "coordinatord.coordination.runtime.actors:Actor.append", "self.epoch = self.coordinator.log.append(",
        "self.coordinator.log.append(", 7),
    "a comparison is off by one: responses leave while their flush is in progress": _lived(
        LOG + "writer:LogWriter.hold", "if epoch <= self.flushed_epoch:", "if epoch <= self.flushed_epoch + 1:", 0),
    "a response is sent with an earlier response, which waits for an earlier flush": _lived(
        "coordinatord.transport.net.response_queue:ResponseQueue.answer_at",
        "if last.epoch >= epoch and (last.is_patient or not is_patient):", "if True:", 0),
    "a failed write counts as successful": _lived(
        LOG + "writer:LogWriter._executed", "if epoch.error is not None:", "if False:", 9),
    "after a power failure the journal is not replayed": _lived(
        LOG + "data_dir:DataDirectory._open_partitions", "writes.setdefault(entry.name, []).append(entry)", "pass", 1),
    "log.flush=interval never flushes": _lived(
        LOG + "writer:LogWriter._flush_interval",
        "self._worker.submit(lambda: self._flush_aside(self._flusher.flush_journal, lambda: None))", "pass", 8),
    "a partition is loaded in the wrong order": _lived(
        "coordinatord.coordination.service.partition_load:PartitionLoad.run", "for batch in batches:",
        "for batch in reversed(list(batches)):", 0),
    "groups are served before they are loaded": _lived(
        "coordinatord.coordination.runtime.partitions:Partitions.availability", "if state == ACTIVE:",
        "if state != UNLOADED:", 0),
    "a node serves groups whose partition another node leads": _lived(
        "coordinatord.coordination.runtime.partitions:Partitions.availability", "else ErrorCode.NOT_COORDINATOR",
        "else ErrorCode.NONE", 2),
    "a rebalance does not begin a new generation": _lived(
        GROUP + "classic.rebalance:complete_join", "group.generation_id += 1", "group.generation_id += 0", 0),
    "a commit of an earlier generation is accepted": _lived(
        GROUP + "offsets.fencing:commit_refusal", "if generation_id != group.generation_id:",
        "if generation_id > group.generation_id:", 0),
    "the rebalance timer is not disarmed when all have joined": _lived(
        GROUP + "classic.rebalance:_cancel_join_timer", "if group.join_deadline_ms != NEVER:", "if False:", 0),
    "a rebalance waits forever for a handed-out member id that is never used": _lived(
        GROUP + "classic.joining:_join_without_id", "result.timers.append(timer)", "pass", 3),
    "members loaded from the log have no session timer": _lived(
        GROUP + "classic.step:restore", "keep_alive(group, member, member.session_timeout_ms, now_ms, result)", "pass",
        1),
    "a session ends a second before its time": _lived(
        GROUP + "classic.step:_session_timed_out", "if min(now_ms, member.timer_ms) < member.session_deadline_ms:",
        "if now_ms < member.session_deadline_ms - 1_000:", 7),
    "heartbeats do not extend a session, except the first in a generation": _lived(
        GROUP + "state:Member.keep_alive", "self.heard_ms = now_ms", "pass", 0),
    "members whose heartbeats are answered without decoding do not hear of a rebalance": _lived(
        GROUP + "state:Group.transition_to", "self.version += 1", "pass", 2),
    "a member whose session has expired stays, unless its request is parked": _lived(
        GROUP + "classic.step:_session_timed_out", "if parked and not member.is_new:", "if not parked:", 0),
    "a leader that is expelled while it waits for metadata never joins again (found by seeds 64 and 99)": _lived(
        "coordinatord.testing.member.joining:go_on_leading", "_end(member, ErrorCode.UNKNOWN_MEMBER_ID)", "pass", 2),
    "followers with a parked SyncGroup are not told that no assignment will come": _lived(
        GROUP + "classic.rebalance:reset_assignments",
        "if answer_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), result):",
        "if member.sync_reply_to is not None and not (member.__setattr__('sync_reply_to', None)):", 2),
    "a removed member's connection waits forever for its parked SyncGroup": _lived(
        GROUP + "classic.members:remove_member", "result.dropped.append(member.sync_reply_to)", "pass", 2),
    "requests behind a parked request are not served when it has been answered": _lived(
        "coordinatord.transport.net.connection:Connection.has_room", "if self._frames or self._is_paused:",
        "if False:", 1),
    "a response overtakes the response to an earlier request, which waits for the log": _lived(
        "coordinatord.transport.net.response_queue:ResponseQueue.answer", "if self.held:", "if False:", 0),
    "a leader that has not rejoined stays leader": _lived(
        GROUP + "classic.rebalance:_elect_leader", "if group.members[group.leader_id].join_reply_to is not None:",
        "if True:", 15),
    "all members get the first member's assignment": _lived(
        GROUP + "classic.syncing:_assign", 'member.assignment = by_id.get(member.member_id, b"")',
        'member.assignment = next(iter(by_id.values()), b"")', 0),
    "compaction drops tombstones and keeps the records that they deleted": _lived(
        LOG + "cleaning:_Cleaning._retain", "if last.get(key, -1) > offset or (over and not has_value):",
        "if not has_value:", 97),
    "compaction keeps the older records of a key, and not the last one": _lived(
        LOG + "cleaning:_Cleaning._retain", "if last.get(key, -1) > offset or", "if last.get(key, -1) == offset or", 0),
    "the next response takes the place of a response that is never sent (found by seed 3)": _lived(
        "coordinatord.coordination.service.groups:GroupActor.apply", "context.abandon()", "context.drop()", 2),
    "a cooperative member gives up partitions that the new assignment leaves it": _lived(
        "coordinatord.testing.member.joining:_complete", "revoked = tuple(each for each in owned if each not in kept)",
        "revoked = tuple(owned)", 2),
    "a sticky assignor ignores which member owns which partition": _lived(
        "coordinatord.testing.member.assignors.sticky:AbstractStickyAssignor.assign_partitions",
        "self.owned(subscription) for", "((), None) for", 2),
    "a request that `fail` answers with an error is processed as well": _lived(
        CONTROL + "requests:Requests._strike",
        "line.answer(context, error_response(request, context.api_version, fault.error))",
        "self._pass(self._nowhere.like(connection), frame); "
        "line.answer(context, error_response(request, context.api_version, fault.error))",
        1, "faulty"),
    "the client gets the answer to the first copy of a duplicate, too": _lived(
        CONTROL + "requests:Requests._strike", "self._pass(self._nowhere.like(connection), frame)",
        "self._pass(connection, frame)", 0, "faulty"),
    "a request that was held is not processed when it is released": _lived(
        CONTROL + "requests:Requests._go_on", "self._pass(connection, stopped.frame)", "pass", 1, "faulty"),
    "of two JoinGroups of a member the first one is answered, and the second one never": _lived(
        GROUP + "classic.members:update_member", "member.join_reply_to = join_reply_to",
        "member.join_reply_to = member.join_reply_to or join_reply_to", 6, "faulty"),
    "offsets of topics that members subscribe to expire": _lived(
        GROUP + "offsets.committed:expired_offsets", "if group.is_subscribed_to(topic):", "if False:", 11),
    "timers with distant deadlines are lost when the wheel turns": _lived(
        "coordinatord.base.clocks.timer_wheel:TimerWheel._drain", "self._place(key, tick)", "pass", 0),
    "a timer that is set with an earlier deadline than all others fires late": _lived(
        "coordinatord.base.clocks.timers:Timers.schedule", "if deadline_ms < self._wakes_at_ms:",
        "if self._wakes_at_ms == 1 << 62:", 1),
    "timers fire before the sockets are read, in which requests may have waited for long": _lived(
        "coordinatord.base.clocks.timers:Timers._look", "self._loop.call_soon(self._read)", "self._expire()", 0),
    "a timer fires with others, although requests that came before its deadline are unread": _lived(
        "coordinatord.base.clocks.timers:Timers._expire", "budget = Budget()",
        "self._due_ms = self._now_ms(); budget = Budget()", 121),
    "a session ends by an earlier deadline's timer, although requests before the last deadline are unread": _lived(
        GROUP + "classic.step:_session_timed_out", "min(now_ms, member.timer_ms)", "now_ms", 121),
    "a member that does not say what it owns is taken to have given up what it has to": _lived(
        GROUP + "consumer.reconcile:Reconciliation._still_owns", "if self._owned is None:\n            return True",
        "if self._owned is None:\n            return False", 11, "consumer", "NoDoubleClientAssignment"),
    "partitions that a member has yet to give up count as free": _lived(
        GROUP + "consumer.state:ConsumerGroup._own_all", "for part in (member.assigned, member.revoking):",
        "for part in (member.assigned,):", 0, "consumer", "ValidPartitionEpoch"),
    "a member is told the new epoch before it has given up what that takes from it": _lived(
        GROUP + "consumer.reconcile:Reconciliation._next",
        "return self._moved(MemberState.UNREVOKED_PARTITIONS, member_epoch, assigned, revoking)",
        "return self._moved(MemberState.UNREVOKED_PARTITIONS, self._epoch, assigned, revoking)", 2, "consumer",
        "ValidMemberEpoch"),
    "a member's target is only logged once": _lived(
        GROUP + "consumer.group_epoch:log_target", "consumer.target.get(member_id) != target",
        "member_id not in consumer.target", 0, "consumer", "LegalTargetAssignment"),
    "a member never gets what others had to give up first": _lived(
        GROUP + "consumer.reconcile:Reconciliation._next",
        "MemberState.UNRELEASED_PARTITIONS if has_unreleased else MemberState.STABLE", "MemberState.STABLE", 1,
        "consumer", "EventuallyConverges"),
    "the database does not compare the term of a change with that of who leads": _lived(
        "tests.testing.simulation.stored:WorldDatabase.change", "ModelDatabase.change(self, term,",
        "ModelDatabase.change(self, self.epoch,", 0, "store"),
    "an epoch counts as durable while its commit is still to be made": _lived(
        STORE + "store_flusher:StoreFlusher.write", "self._store.append(growths, rows)",
        "self.__dict__.setdefault('held', []).append((growths, rows)); "
        "len(self.held) > 1 and self._store.append(*self.held.pop(0))",
        0, "store"),
    "a commit whose connection was lost is taken for made": _lived(
        STORE + "store:PostgresStore._append", "is_unknown = True", "return", 0, "store"),
    "a commit whose connection was lost is taken for not made": _lived(
        STORE + "store:PostgresStore._has", "return True", "return False", 0, "store"),
    "the timer of acquisition locks does nothing": _lived(
        SHARE + "leader:SharePartitionActor._locks_timed_out", "if self.is_active:", "if False:", 0, "share"),
    "a lock lasts half of its time": _lived(
        SHARE + "partition.state:SharePartition.lock", "now_ms + self.limits.record_lock_duration_ms",
        "now_ms + self.limits.record_lock_duration_ms // 2", 0, "share"),
    "RENEW does not extend the lock": _lived(
        SHARE + "partition.acknowledge:_Acknowledging._change", "record.deadline_ms = partition.lock(self.now_ms)",
        "pass", 7, "share"),
    "a record that a member has acquired is given to another one": _lived(
        SHARE + "partition.acquire:_Acquiring._records", "if not record.is_acquirable:",
        "if record.state.is_terminal:", 0, "share"),
    "a member acknowledges records of another member": _lived(
        SHARE + "partition.acknowledge:_Acknowledging._hinders", "if whole.member_id != self.member_id:", "if False:",
        16, "share"),
    "a record is delivered once more than the limit allows": _lived(
        SHARE + "partition.state:InFlightState.change", "self.delivery_count >=", "self.delivery_count >", 0, "share"),
    "a second delivery does not count": _lived(
        SHARE + "partition.state:InFlightState.acquire", "self.delivery_count += 1", "pass", 0, "share"),
    "a restart moves the start offset back": _lived(
        SHARE + "partition.step:_initialize", "partition.start_offset = start",
        "partition.start_offset = max(0, start - 1)", 2, "share"),
    "an acknowledgement is answered before it is durable": _lived(
        SHARE + "state_persister:_Call._finish", "self._epoch, lambda", "0, lambda", 7, "share"),
    "acknowledgements are not persisted": _lived(
        SHARE + "leader:SharePartitionActor._write", "_joined(write.batches)", "()", 0, "share"),
    "records are archived without their dead letters": _lived(
        SHARE + "leader:SharePartitions.write_letters", "if self.dead_letters is None:", "if True:", 9, "share"),
    "released records are not delivered again": _lived(
        SHARE + "partition.window:next_fetch_offset", "if partition.may_have_available:", "if False:", 0, "share"),
    "records of which nothing was persisted before a restart are lost": _lived(
        SHARE + "partition.step:_initialize", "if gap_start is None and first > end + 1:", "if False:", 3, "share"),
}
# fmt: on
