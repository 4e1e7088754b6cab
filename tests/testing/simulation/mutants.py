"""Mistakes, each put into the daemon's own code for as long as a few worlds live: each must be noticed.

A mutant replaces a piece of one function's source, compiles that in the function's own module, and swaps the code
object, so that everybody who has imported the function runs the mistaken one. A piece that is not there any more, or
is there twice, is an error: whoever changes the code looks at what the mutant was about.

    python -m tests.testing.simulation.mutants                 all of them, on all cores; a table
    python -m tests.testing.simulation.mutants no-fsync        one of them, and how it was noticed
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import inspect
import itertools
import os
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from types import CodeType, FunctionType

from tests.testing.simulation.plan import HOUR_MS
from tests.testing.simulation.run import SHORT_QUIET_HOURS, play

LIMIT_S = 60.0
"""Of one core's time, for each mutant."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """`where` is "module:function" or "module:Class.method"; `old` is replaced by `new` in it."""

    name: str
    where: str
    old: str
    new: str
    mistake: str
    protocol: str = "classic"  # of the worlds that are to notice it
    invariant: str = ""  # that is to notice it: how the violation begins


GROUP, LOG, CONTROL = "coordinatord.coordination.group.", "coordinatord.broker.log.", "coordinatord.server.control."
STORE = "coordinatord.server.postgresql."
SHARE = "coordinatord.coordination.share."

MUTANTS = (
    Mutant("no-fsync", LOG + "journal:Journal.flush", "self._file.datasync()", "pass",
           "the journal is written and not flushed"),
    Mutant("answer-before-durable", "coordinatord.coordination.runtime.actors:Actor.respond",
           "self.epoch > gate.flushed_epoch", "False",
           "responses do not wait for the log"),
    Mutant("answer-sync-before-append", "coordinatord.coordination.runtime.actors:Actor.append",
           "self.epoch = self.coordinator.log.append(", "self.coordinator.log.append(",
           "the leader's sync is answered before its assignment is logged"),
    Mutant("durable-an-epoch-early", LOG + "writer:LogWriter.hold",
           "if epoch <= self.flushed_epoch:", "if epoch <= self.flushed_epoch + 1:",
           "a comparison is off by one: responses leave while their flush is in progress"),
    Mutant("wait-for-an-earlier-flush", "coordinatord.transport.net.response_queue:ResponseQueue.answer_at",
           "if last.epoch >= epoch and (last.is_patient or not is_patient):", "if True:",
           "a response is sent with an earlier response, which waits for an earlier flush"),
    Mutant("failed-flush-counts", LOG + "writer:LogWriter._executed",
           "if epoch.error is not None:", "if False:",
           "a failed write counts as successful"),
    Mutant("journal-is-not-read", LOG + "data_dir:DataDirectory._open_partitions",
           "writes.setdefault(entry.name, []).append(entry)", "pass",
           "after a power failure the journal is not replayed"),
    Mutant("interval-never-flushes", LOG + "writer:LogWriter._flush_interval",
           "self._worker.submit(lambda: self._flush_aside(self._flusher.flush_journal, lambda: None))", "pass",
           "log.flush=interval never flushes"),
    Mutant("replay-backwards", "coordinatord.coordination.service.partition_load:PartitionLoad.run",
           "for batch in batches:", "for batch in reversed(list(batches)):",
           "a partition is loaded in the wrong order"),
    Mutant("serve-while-loading", "coordinatord.coordination.runtime.partitions:Partitions.availability",
           "if state == ACTIVE:", "if state != UNLOADED:",
           "groups are served before they are loaded"),
    Mutant("serve-after-the-move", "coordinatord.coordination.runtime.partitions:Partitions.availability",
           "else ErrorCode.NOT_COORDINATOR", "else ErrorCode.NONE",
           "a node serves groups whose partition another node leads"),
    Mutant("generation-stays", GROUP + "classic.rebalance:complete_join",
           "group.generation_id += 1", "group.generation_id += 0",
           "a rebalance does not begin a new generation"),
    Mutant("old-generation-commits", GROUP + "offsets.fencing:commit_refusal",
           "if generation_id != group.generation_id:", "if generation_id > group.generation_id:",
           "a commit of an earlier generation is accepted"),
    Mutant("join-timer-stays", GROUP + "classic.rebalance:_cancel_join_timer",
           "if group.join_deadline_ms != NEVER:", "if False:",
           "the rebalance timer is not disarmed when all have joined"),
    Mutant("pending-id-without-timer", GROUP + "classic.joining:_join_without_id",
           "result.timers.append(timer)", "pass",
           "a rebalance waits forever for a handed-out member id that is never used"),
    Mutant("loaded-members-live-on", GROUP + "classic.step:restore",
           "keep_alive(group, member, member.session_timeout_ms, now_ms, result)", "pass",
           "members loaded from the log have no session timer"),
    Mutant("expelled-early", GROUP + "classic.step:_session_timed_out",
           "if min(now_ms, member.timer_ms) < member.session_deadline_ms:",
           "if now_ms < member.session_deadline_ms - 1_000:",
           "a session ends a second before its time"),
    Mutant("heartbeat-counts-for-nothing", GROUP + "state:Member.keep_alive",
           "self.heard_ms = now_ms", "pass",
           "heartbeats do not extend a session, except the first in a generation"),
    Mutant("heartbeats-outlive-the-generation", GROUP + "state:Group.transition_to",
           "self.version += 1", "pass",
           "members whose heartbeats are answered without decoding do not hear of a rebalance"),
    Mutant("zombies-heartbeat", GROUP + "classic.step:_session_timed_out",
           "if parked and not member.is_new:", "if not parked:",
           "a member whose session has expired stays, unless its request is parked"),
    Mutant("leader-stays-out", "coordinatord.testing.member.joining:go_on_leading",
           "_end(member, ErrorCode.UNKNOWN_MEMBER_ID)", "pass",
           "a leader that is expelled while it waits for metadata never joins again (found by seeds 64 and 99)"),
    Mutant("parked-sync-forgotten", GROUP + "classic.rebalance:reset_assignments",
           "if answer_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), result):",
           "if member.sync_reply_to is not None and not (member.__setattr__('sync_reply_to', None)):",
           "followers with a parked SyncGroup are not told that no assignment will come"),
    Mutant("parked-sync-of-the-removed", GROUP + "classic.members:remove_member",
           "result.dropped.append(member.sync_reply_to)", "pass",
           "a removed member's connection waits forever for its parked SyncGroup"),
    Mutant("behind-the-parked", "coordinatord.transport.net.connection:Connection.has_room",
           "if self._frames or self._is_paused:", "if False:",
           "requests behind a parked request are not served when it has been answered"),
    Mutant("answers-overtake", "coordinatord.transport.net.response_queue:ResponseQueue.answer",
           "if self.held:", "if False:",
           "a response overtakes the response to an earlier request, which waits for the log"),
    Mutant("no-new-leader", GROUP + "classic.rebalance:_elect_leader",
           "if group.members[group.leader_id].join_reply_to is not None:", "if True:",
           "a leader that has not rejoined stays leader"),
    Mutant("assignments-change-hands", GROUP + "classic.syncing:_assign",
           "member.assignment = by_id.get(member.member_id, b\"\")",
           "member.assignment = next(iter(by_id.values()), b\"\")",
           "all members get the first member's assignment"),
    Mutant("cleaner-drops-tombstones", LOG + "cleaning:_Cleaning._retain",
           "if last.get(key, -1) > offset or (over and not has_value):", "if not has_value:",
           "compaction drops tombstones and keeps the records that they deleted"),
    Mutant("cleaner-keeps-the-first", LOG + "cleaning:_Cleaning._retain",
           "if last.get(key, -1) > offset or", "if last.get(key, -1) == offset or",
           "compaction keeps the older records of a key, and not the last one"),
    Mutant("next-answer-for-the-dropped", "coordinatord.coordination.service.groups:GroupActor.apply",
           "context.abandon()", "context.drop()",
           "the next response takes the place of a response that is never sent (found by seed 3)"),
    Mutant("gives-up-everything", "coordinatord.testing.member.joining:_complete",
           "revoked = tuple(each for each in owned if each not in kept)", "revoked = tuple(owned)",
           "a cooperative member gives up partitions that the new assignment leaves it"),
    Mutant("sticks-to-nothing", "coordinatord.testing.member.assignors.sticky:AbstractStickyAssignor.assign_partitions",
           "self.owned(subscription) for", "((), None) for",
           "a sticky assignor ignores which member owns which partition"),
    Mutant("refused-and-done", CONTROL + "requests:Requests._strike",
           "line.answer(context, error_response(request, context.api_version, fault.error))",
           "self._pass(self._nowhere.like(connection), frame); "
           "line.answer(context, error_response(request, context.api_version, fault.error))",
           "a request that `fail` answers with an error is processed as well", protocol="faulty"),
    Mutant("duplicate-answered-twice", CONTROL + "requests:Requests._strike",
           "self._pass(self._nowhere.like(connection), frame)", "self._pass(connection, frame)",
           "the client gets the answer to the first copy of a duplicate, too", protocol="faulty"),
    Mutant("released-and-lost", CONTROL + "requests:Requests._go_on",
           "self._pass(connection, stopped.frame)", "pass",
           "a request that was held is not processed when it is released", protocol="faulty"),
    Mutant("first-join-counts", GROUP + "classic.members:update_member",
           "member.join_reply_to = join_reply_to", "member.join_reply_to = member.join_reply_to or join_reply_to",
           "of two JoinGroups of a member the first one is answered, and the second one never", protocol="faulty"),
    Mutant("active-groups-expire", GROUP + "offsets.committed:expired_offsets",
           "if group.is_subscribed_to(topic):", "if False:",
           "offsets of topics that members subscribe to expire"),
    Mutant("timers-get-lost", "coordinatord.base.clocks.timer_wheel:TimerWheel._drain",
           "self._place(key, tick)", "pass",
           "timers with distant deadlines are lost when the wheel turns"),
    Mutant("wakes-too-late", "coordinatord.base.clocks.timers:Timers.schedule",
           "if deadline_ms < self._wakes_at_ms:", "if self._wakes_at_ms == 1 << 62:",
           "a timer that is set with an earlier deadline than all others fires late"),
    Mutant("expires-before-it-reads", "coordinatord.base.clocks.timers:Timers._look",
           "self._loop.call_soon(self._read)", "self._expire()",
           "timers fire before the sockets are read, in which requests may have waited for long"),
    Mutant("expires-what-falls-due-meanwhile", "coordinatord.base.clocks.timers:Timers._expire",
           "budget = Budget()", "self._due_ms = self._now_ms(); budget = Budget()",
           "a timer fires with others, although requests that came before its deadline are unread"),
    Mutant("expires-by-an-earlier-timer", GROUP + "classic.step:_session_timed_out",
           "min(now_ms, member.timer_ms)", "now_ms",
           "a session ends by an earlier deadline's timer, although requests before the last deadline are unread"),
    Mutant("silence-is-revocation", GROUP + "consumer.reconcile:Reconciliation._still_owns",
           "if self._owned is None:\n        return True", "if self._owned is None:\n        return False",
           "a member that does not say what it owns is taken to have given up what it has to",
           "consumer", "NoDoubleClientAssignment"),
    Mutant("revoking-is-free", GROUP + "consumer.state:ConsumerGroup._own_all",
           "for part in (member.assigned, member.revoking):", "for part in (member.assigned,):",
           "partitions that a member has yet to give up count as free",
           "consumer", "ValidPartitionEpoch"),
    Mutant("epoch-before-revocation", GROUP + "consumer.reconcile:Reconciliation._next",
           "return self._moved(MemberState.UNREVOKED_PARTITIONS, member_epoch, assigned, revoking)",
           "return self._moved(MemberState.UNREVOKED_PARTITIONS, self._epoch, assigned, revoking)",
           "a member is told the new epoch before it has given up what that takes from it",
           "consumer", "ValidMemberEpoch"),
    Mutant("old-targets-stay", GROUP + "consumer.group_epoch:log_target",
           "consumer.target.get(member_id) != target",
           "member_id not in consumer.target",
           "a member's target is only logged once",
           "consumer", "LegalTargetAssignment"),
    Mutant("unreleased-is-forgotten", GROUP + "consumer.reconcile:Reconciliation._next",
           "MemberState.UNRELEASED_PARTITIONS if has_unreleased else MemberState.STABLE", "MemberState.STABLE",
           "a member never gets what others had to give up first",
           "consumer", "EventuallyConverges"),
    Mutant("no-term-check", "tests.testing.simulation.stored:WorldDatabase.change",
           "ModelDatabase.change(self, term,", "ModelDatabase.change(self, self.epoch,",
           "the database does not compare the term of a change with that of who leads",
           "store"),
    Mutant("answer-before-commit", STORE + "store_flusher:StoreFlusher.write",
           "self._store.append(growths, rows)",
           "self.__dict__.setdefault('held', []).append((growths, rows)); "
           "len(self.held) > 1 and self._store.append(*self.held.pop(0))",
           "an epoch counts as durable while its commit is still to be made",
           "store"),
    Mutant("unknown-is-committed", STORE + "store:PostgresStore._append",
           "is_unknown = True", "return",
           "a commit whose connection was lost is taken for made",
           "store"),
    Mutant("unknown-is-not-committed", STORE + "store:PostgresStore._has",
           "return True", "return False",
           "a commit whose connection was lost is taken for not made",
           "store"),
    Mutant("share-locks-never-end", SHARE + "leader:SharePartitionActor._locks_timed_out",
           "if self.is_active:", "if False:",
           "the timer of acquisition locks does nothing", "share"),
    Mutant("share-locks-end-early", SHARE + "partition.state:SharePartition.lock",
           "now_ms + self.limits.record_lock_duration_ms", "now_ms + self.limits.record_lock_duration_ms // 2",
           "a lock lasts half of its time", "share"),
    Mutant("share-renewal-forgotten", SHARE + "partition.acknowledge:_Acknowledging._change",
           "record.deadline_ms = partition.lock(self.now_ms)", "pass",
           "RENEW does not extend the lock", "share"),
    Mutant("share-acquired-twice", SHARE + "partition.acquire:_Acquiring._records",
           "if not record.is_acquirable:", "if record.state.is_terminal:",
           "a record that a member has acquired is given to another one", "share"),
    Mutant("share-acknowledged-by-others", SHARE + "partition.acknowledge:_Acknowledging._hinders",
           "if whole.member_id != self.member_id:", "if False:",
           "a member acknowledges records of another member", "share"),
    Mutant("share-delivered-too-often", SHARE + "partition.state:InFlightState.change",
           "self.delivery_count >=", "self.delivery_count >",
           "a record is delivered once more than the limit allows", "share"),
    Mutant("share-delivery-count-stays", SHARE + "partition.state:InFlightState.acquire",
           "self.delivery_count += 1", "pass",
           "a second delivery does not count", "share"),
    Mutant("share-start-falls", SHARE + "partition.step:_initialize",
           "partition.start_offset = start", "partition.start_offset = max(0, start - 1)",
           "a restart moves the start offset back", "share"),
    Mutant("share-answer-before-durable", SHARE + "local_persister:_Call._finish",
           "self._epoch, lambda", "0, lambda",
           "an acknowledgement is answered before it is durable", "share"),
    Mutant("share-state-not-persisted", SHARE + "leader:SharePartitionActor._write",
           "_joined(write.batches)", "()",
           "acknowledgements are not persisted", "share"),
    Mutant("share-released-stay", SHARE + "partition.window:next_fetch_offset",
           "if partition.may_have_available:", "if False:",
           "released records are not delivered again", "share"),
    Mutant("share-gap-forgotten", SHARE + "partition.step:_initialize",
           "if gap_start is None and first > end + 1:", "if False:",
           "records of which nothing was persisted before a restart are lost", "share"),
)  # fmt: skip


NAMES = [each.name for each in MUTANTS]

NOTICED_BY = {
    "no-fsync": 1,
    "answer-before-durable": 5,
    "answer-sync-before-append": 7,
    "durable-an-epoch-early": 0,
    "wait-for-an-earlier-flush": 0,
    "failed-flush-counts": 9,
    "journal-is-not-read": 1,
    "interval-never-flushes": 8,
    "replay-backwards": 0,
    "serve-while-loading": 0,
    "serve-after-the-move": 2,
    "generation-stays": 0,
    "old-generation-commits": 0,
    "join-timer-stays": 0,
    "pending-id-without-timer": 3,
    "loaded-members-live-on": 1,
    "expelled-early": 7,
    "heartbeat-counts-for-nothing": 0,
    "heartbeats-outlive-the-generation": 2,
    "zombies-heartbeat": 0,
    "leader-stays-out": 2,
    "parked-sync-forgotten": 2,
    "parked-sync-of-the-removed": 2,
    "behind-the-parked": 1,
    "answers-overtake": 0,
    "no-new-leader": 15,
    "assignments-change-hands": 0,
    "cleaner-drops-tombstones": 97,
    "cleaner-keeps-the-first": 0,
    "next-answer-for-the-dropped": 2,
    "gives-up-everything": 2,
    "sticks-to-nothing": 2,
    "refused-and-done": 1,
    "duplicate-answered-twice": 0,
    "released-and-lost": 1,
    "first-join-counts": 6,
    "active-groups-expire": 11,
    "timers-get-lost": 0,
    "wakes-too-late": 1,
    "expires-before-it-reads": 0,
    "expires-what-falls-due-meanwhile": 121,
    "expires-by-an-earlier-timer": 49,
    "silence-is-revocation": 11,
    "revoking-is-free": 0,
    "epoch-before-revocation": 2,
    "old-targets-stay": 0,
    "unreleased-is-forgotten": 1,
    "no-term-check": 0,
    "answer-before-commit": 0,
    "unknown-is-committed": 0,
    "unknown-is-not-committed": 0,
    "share-locks-never-end": 0,
    "share-locks-end-early": 0,
    "share-renewal-forgotten": 7,
    "share-acquired-twice": 0,
    "share-acknowledged-by-others": 16,
    "share-delivered-too-often": 0,
    "share-delivery-count-stays": 0,
    "share-start-falls": 2,
    "share-answer-before-durable": 7,
    "share-state-not-persisted": 0,
    "share-released-stay": 0,
    "share-gap-forgotten": 3,
}
"""The first seed from 0 on whose world notices a mutant, with SHORT_QUIET_HOURS: see README.md. Tried before others."""


class Stale(Exception):
    """The code is not what the mutant takes it for."""


def function_of(mutant: Mutant) -> FunctionType:
    """What the mutant changes."""
    module_name, _, path = mutant.where.partition(":")
    found: object = importlib.import_module(module_name)
    for name in path.split("."):
        found = inspect.getattr_static(found, name)
    if not isinstance(found, FunctionType):
        raise Stale(f"{mutant.name}: {mutant.where} is no function")
    return found


def mutated(mutant: Mutant) -> CodeType:
    """The function's code with the mistake in it."""
    function = function_of(mutant)
    source = textwrap.dedent(inspect.getsource(function))
    count = source.count(mutant.old)
    if count != 1:
        raise Stale(f"{mutant.name}: {mutant.old!r} is {count} times in {mutant.where}, and should be there once")
    namespace: dict[str, object] = dict(function.__globals__)
    exec(compile("from __future__ import annotations\n" + source.replace(mutant.old, mutant.new),
                 f"<{mutant.name}>", "exec"), namespace)  # fmt: skip
    made = namespace[function.__name__]
    assert isinstance(made, FunctionType)
    if made.__code__.co_freevars != function.__code__.co_freevars:
        raise Stale(f"{mutant.name}: {mutant.where} refers to an enclosing scope")
    return made.__code__


@contextlib.contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """The mistake is made."""
    function, code = function_of(mutant), mutated(mutant)
    before = function.__code__
    function.__code__ = code
    try:
        yield
    finally:
        function.__code__ = before


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one mutant. `what` is empty if nobody noticed it."""

    mutant: str
    seed: int
    worlds: int
    hours: float
    seconds: float
    what: str


def hunt(name: str, first_seed: int | None = None, limit_s: float = LIMIT_S) -> Outcome:
    """Let world after world live with the mistake until one notices: the one that is known to, and all from 0 on; or
    all from `first_seed` on.
    """
    mutant = next(each for each in MUTANTS if each.name == name)
    known = [NOTICED_BY[name]] if first_seed is None and name in NOTICED_BY else []
    began_s, hours, worlds, seed = time.process_time(), 0.0, 0, -1
    with applied(mutant):
        for seed in itertools.chain(known, itertools.count(first_seed or 0)):
            world, error = play(seed, quiet_hours=SHORT_QUIET_HOURS, protocol=mutant.protocol)
            worlds += 1
            hours += world.counts.virtual_ms / HOUR_MS
            took_s = time.process_time() - began_s
            if error is not None and mutant.invariant in str(error):
                return Outcome(name, seed, worlds, hours, took_s, f"{type(error).__name__}: {error}".split("\n")[0])
            if took_s > limit_s:
                break
    return Outcome(name, seed, worlds, hours, took_s, "")


def hunt_all(names: list[str], first_seed: int | None = None) -> list[Outcome]:
    """Each on a core of its own; tells of each on standard error when it is through."""
    outcomes = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for each in pool.map(hunt, names, [first_seed] * len(names)):
            outcomes.append(each)
            print(
                f"{each.mutant}: {each.seconds:.1f} s, {each.what or 'not noticed'}"[:200], file=sys.stderr, flush=True
            )
    return outcomes


def table(outcomes: list[Outcome]) -> str:
    """As it stands in README.md."""
    mistakes = {each.name: each.mistake for each in MUTANTS}
    lines = ["| mutant | the mistake | seed | virtual hours | seconds | noticed as |", "|---|---|---|---|---|---|"]
    for each in outcomes:
        what = each.what[:110].replace("|", "/") or "**not noticed**"
        cells = (each.mutant, mistakes[each.mutant], each.seed, f"{each.hours:.1f}", f"{each.seconds:.1f}", what)
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main() -> int:
    """The command; its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.testing.simulation.mutants", description=__doc__.splitlines()[0]
    )
    parser.add_argument("names", nargs="*", help="which (default: all)")
    parser.add_argument("--first-seed", type=int, help="hunt from this one on (default: the known one, then all)")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(NAMES)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    outcomes = hunt_all(arguments.names or NAMES, arguments.first_seed)
    print(table(outcomes))
    return 0 if all(each.what for each in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
