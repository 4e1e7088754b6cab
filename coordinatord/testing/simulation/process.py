"""Consumer process: the real member, and a simulated application that polls and works.

The application works for `processing_ms` on each poll's batch, then polls again. It is assumed to keep up with its
partitions, so that each poll returns something. While the group is stable, a poll changes nothing and is skipped:
`_next_poll_ms` computes its time, and the next poll runs when the member needs one to continue. The commits of skipped
polls are computed when they matter (`_settle_commits`). So an hour of a thousand members takes seconds; all heartbeats
are real. If faults may hit requests, polls that commit are not skipped.

A paused process (garbage collection, a swapped-out container) does nothing, and no message reaches it until it resumes.
A slow batch keeps the application from polling, while heartbeats continue. A process that crashes sends nothing; a
process that is stopped finishes its batch, commits, and leaves the group unless it is a static member.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinatord.testing.member.assignors.java_hash import TopicPartition
from coordinatord.testing.member.consumer.state import ACKNOWLEDGING
from coordinatord.testing.member.events import Close, Failed, Poll, Received, Seek, Subscribe, Wakeup, Woken
from coordinatord.testing.member.result import Assigned, Result, Revoked
from coordinatord.testing.member.send import Send
from coordinatord.testing.member.state import Join, Member, MemberSettings
from coordinatord.testing.member.step import NOTHING, step
from coordinatord.testing.member.timer import NEVER
from coordinatord.testing.simulation.engine import START_MS, Engine, Link
from coordinatord.testing.simulation.faults import FaultyNode
from coordinatord.testing.simulation.node import TOPIC, Node
from coordinatord.testing.simulation.ownership import Ownership
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitResponse

POLL_TIMEOUT_MS = 1 << 40
"""Timeout of polls in milliseconds. A poll waits until it has records to return; `_after` decides that here."""

TO_NODE, FROM_NODE = 0, 1


class Process:
    """One lifetime of a member, from start to end. `number` is its index in the deployment."""

    def __init__(
        self,
        engine: Engine,
        node: Node,
        link: Link,
        ownership: Ownership,
        settings: MemberSettings,
        *,
        number: int,
        name: str,
        processing_ms: int,
        on_end: Callable[[Process], object],
        say: Callable[[str], object] = lambda _text: None,
        lossy: bool = False,
        faulty: FaultyNode | None = None,
    ) -> None:
        self.engine, self.node, self.link, self.ownership = engine, node, link, ownership
        self.number, self.name = number, name
        self.period_ms = max(1, processing_ms)
        self.on_end, self.say = on_end, say
        self.faulty = faulty  # applies faults to requests for the node
        self.lossy = lossy  # requests may get lost: each needs its own deadline
        self.member = Member(settings, engine.chance(f"back-off {name} {engine.now_ms}").random)
        self.alive = True
        self.stopping = False
        self.expelled = False  # but has not learned so yet
        self.paused_until_ms = 0
        self.busy_until_ms = 0
        self._working_since_ms = 0  # time of the last return of a poll
        self._poll_at_ms = NEVER  # time of the next poll
        self._wakes_at_ms = NEVER
        # Work is measured in milliseconds in which this process ran: a paused process does none.
        self._paused_ms = 0
        self._frozen_work = 0
        self._unanswered: dict[Send, None] = {}
        self._settled = False
        self._stopped_work: int | None = None  # no records are returned since then
        self._commit_base = 0  # start of the commit intervals
        self._committed: dict[TopicPartition, int] = {}  # committed work by owned partition
        self._held_back: dict[TopicPartition, int] = {}  # work when a poll returned no more of a partition's records
        spacing = settings.auto_commit_interval_ms
        self._commit_every = -(-spacing // self.period_ms) * self.period_ms
        self._run_step(Subscribe([TOPIC]))
        self._poll()

    @property
    def generation_id(self) -> int:
        """Generation of its current assignment; -1 during a rebalance."""
        return self.member.generation.generation_id if self._settled else -1

    @property
    def is_member(self) -> bool:
        """True if both the process and the coordinator consider it a member (ownership.Holder)."""
        return self.alive and not self.expelled and self.member.generation.generation_id > 0

    # Events of the process

    def crash(self) -> None:
        """End at once, without leaving the group."""
        if self.alive:
            self._end("crash")

    def pause(self, for_ms: int) -> None:
        """Stop the process for `for_ms`."""
        now_ms = self.engine.now_ms
        if not self.alive or now_ms < self.paused_until_ms:
            return
        self._settle_commits()
        self._settle_polls()
        self._frozen_work = self._work()
        self.paused_until_ms = now_ms + for_ms
        self._paused_ms += for_ms
        self.ownership.let_go(self, self.member.assignment, "pause")
        # Scheduled before any event that waits for the end of the pause, so that it runs first.
        self.engine.at(self.paused_until_ms, self._go_on)

    def slow(self, for_ms: int) -> None:
        """Extend the current batch to `for_ms`."""
        if self.alive and self._settled and not self.stopping:
            self._settle_commits()
            self._settle_polls()
            self.busy_until_ms = max(self.busy_until_ms, self.engine.now_ms + for_ms)
            # The poll after this batch commits; no earlier poll does.
            self._commit_base = self._work() + self.busy_until_ms - self.engine.now_ms - self._commit_every
            self._schedule_poll(self.busy_until_ms)

    def stop(self) -> None:
        """Finish the batch, commit, leave, end."""
        if self.alive and not self.stopping:
            self.stopping = True
            now_ms = self.engine.now_ms
            self.engine.at(now_ms if self.member.in_poll else self._next_poll_ms(now_ms), self._close)

    def expel(self) -> None:
        """Mark the member as dropped by the coordinator; its later commits are ignored."""
        self._settle_commits()
        self.expelled = True

    def _go_on(self) -> None:
        if self.alive:
            self.ownership.take(self, self.member.assignment)

    def _close(self) -> None:
        if not self.alive or self.member.closing is not None or self.member.closed:
            return
        if self._waits(self._close):
            return
        self._settle_commits()
        self._stopped_work = self._work()
        self._seek()
        self._run_step(Close())

    def _end(self, cause: str) -> None:
        self._settle_commits()
        self._forget(tuple(self._committed), cause)
        self.alive = False
        for group in (True, False):
            self._hung_up(group)
        self.on_end(self)

    def _waits(self, call: Callable[..., object], *args: Any) -> bool:
        """Return whether the process is paused; if so, schedule `call` for the end of the pause."""
        if self.engine.now_ms < self.paused_until_ms:
            self.engine.at(self.paused_until_ms, call, *args)
            return True
        return False

    # The member

    def _run_step(self, event: Any) -> None:
        now_ms = self.engine.now_ms
        result = step(self.member, event, now_ms)
        if result is NOTHING and self._settled:
            return  # a heartbeat response: by far the most common event
        for send in result.sends:
            self._send(send, now_ms)
        if result.changes:
            self._changed(result)
        if result.closed:
            self._end("stop")
            return
        if result.polled is not None and result.polled.error is not None:
            self._end(result.polled.error.name)  # an application ends when poll raises
            return
        self._after(now_ms)

    def _after(self, now_ms: int) -> None:
        """Schedule the next poll and the member's next deadline."""
        member = self.member
        if member.membership is not None and member.membership.reconciling is not None:
            for partition, state in member.partitions.items():
                if state.pending_revocation:
                    self._held_back.setdefault(partition, self._work())
        settled = member.is_settled
        if settled is not self._settled:
            self._settled = settled
            if settled:
                self._commit_base, self._stopped_work, self.expelled = self._work(), None, False
        if member.in_poll:
            # A poll returns when there are records to work on; during a rebalance that holds for members that keep
            # their partitions (KIP-429). An application without processing time is in its next poll at once.
            if settled or (member.cooperative and member.partitions and self.period_ms > 1):
                step(member, Wakeup(), now_ms)
                self._working_since_ms = now_ms
            elif not member.cooperative and self._stopped_work is None:
                self._stopped_work = self._work()
        if not member.in_poll and member.closing is None:
            if not settled and self._has_to_poll():
                self._schedule_poll(self._next_poll_ms(now_ms))
            elif settled and self._poll_at_ms == NEVER:
                # The poll is only needed as a sign of life, or for its commit if a fault may hit the commit.
                alive_ms = now_ms + member.settings.max_poll_interval_ms // 2
                poll_ms = max(self._next_poll_ms(now_ms), self._next_poll_ms(alive_ms) - self.period_ms)
                if self.faulty is not None:
                    poll_ms = min(poll_ms, self._next_poll_ms(max(now_ms, member.auto_commit_ms)))
                self._schedule_poll(poll_ms)
        deadline_ms = member.next_deadline_ms
        if deadline_ms < self._wakes_at_ms or self._wakes_at_ms <= now_ms:
            self._wakes_at_ms = deadline_ms
            if deadline_ms < NEVER:
                self.engine.at(deadline_ms, self._wake, deadline_ms)

    def _has_to_poll(self) -> bool:
        """Return whether the member needs the application's next poll to continue."""
        member = self.member
        if member.membership is not None:
            return member.membership.state is not ACKNOWLEDGING  # it waits for a response
        return bool(member.inbox) or not member.in_flight or _is_over(member.join)

    def _wake(self, wakes_at_ms: int) -> None:
        if wakes_at_ms != self._wakes_at_ms or not self.alive or self._waits(self._wake, wakes_at_ms):
            return
        self._wakes_at_ms = NEVER
        deadline_ms = self.member.next_deadline_ms
        if deadline_ms <= self.engine.now_ms:
            self._run_step(Woken())
        elif deadline_ms < NEVER:
            self._wakes_at_ms = deadline_ms
            self.engine.at(deadline_ms, self._wake, deadline_ms)

    def _next_poll_ms(self, now_ms: int) -> int:
        """Return the time at which the application finishes the batch that it is working on at `now_ms`."""
        if now_ms < self.busy_until_ms:
            return self.busy_until_ms
        since_ms = max(self._working_since_ms, self.busy_until_ms)
        batches = max(1, -(-(now_ms - since_ms) // self.period_ms))
        return since_ms + batches * self.period_ms

    def _schedule_poll(self, when_ms: int) -> None:
        if when_ms != self._poll_at_ms:
            self._poll_at_ms = when_ms
            self.engine.at(when_ms, self._poll_now, when_ms)

    def _poll_now(self, poll_at_ms: int) -> None:
        if poll_at_ms != self._poll_at_ms or not self.alive or self._waits(self._poll_now, poll_at_ms):
            return
        if self.engine.now_ms < self.busy_until_ms:
            self._schedule_poll(self.busy_until_ms)
            return
        self._poll()

    def _poll(self) -> None:
        self._poll_at_ms = NEVER
        member = self.member
        if member.in_poll or member.closing is not None or member.closed:
            return
        self._settle_commits()
        self._seek()
        self._run_step(Poll(POLL_TIMEOUT_MS))

    # The network

    def _send(self, send: Send, now_ms: int) -> None:
        self._unanswered[send] = None
        work = self._work_done() if type(send.request) is OffsetCommitRequest else 0
        self.link.carry(TO_NODE, now_ms, self._arrive, send, work)
        if self.lossy:
            self.engine.at(now_ms + send.timeout_ms, self._expire, send)

    def _arrive(self, send: Send, work: int) -> None:
        """Deliver a request to the node. The request arrives even if its process has crashed in the meantime."""

        def answer(leaves_ms: int, response: Any) -> None:
            self.link.carry(FROM_NODE, leaves_ms, self._received, send, response, work)

        def lost() -> None:
            self.link.carry(FROM_NODE, self.engine.now_ms, self._disconnected, send.group)

        if self.faulty is None:
            is_answered = self.node.serve(self.name, send.request, answer)
        else:
            is_answered = self.faulty.serve(self.name, send, answer, lost)
        if not is_answered and not self.lossy:
            self.engine.at(self.engine.now_ms + send.timeout_ms, self._expire, send)

    def _received(self, send: Send, response: Any, work: int) -> None:
        if not self.alive or self._waits(self._received, send, response, work) or send not in self._unanswered:
            return
        del self._unanswered[send]
        if type(send.request) is OffsetCommitRequest:
            self._commit_answered(response, work)
        self._run_step(Received(send, response))

    def _expire(self, send: Send) -> None:
        """Close the connection of a request without a response in time. Clients do, and then all its requests fail."""
        if self.alive and send in self._unanswered and not self._waits(self._expire, send):
            self._disconnected(send.group)

    def _disconnected(self, group: bool) -> None:
        """Fail the requests on a connection that the node or this process has closed."""
        if not self.alive or self._waits(self._disconnected, group):
            return
        self._hung_up(group)
        for send in [each for each in self._unanswered if each.group is group]:
            if send in self._unanswered:
                del self._unanswered[send]
                self._run_step(Failed(send))

    def _hung_up(self, group: bool) -> None:
        """Close a connection of this process at the node."""
        if self.faulty is not None:
            self.faulty.closed(self.name, group)

    # The work

    def _work(self) -> int:
        """Return the milliseconds that this process has run, plus an arbitrary offset."""
        now_ms = self.engine.now_ms
        return self._frozen_work if now_ms < self.paused_until_ms else now_ms - self._paused_ms

    def _work_done(self) -> int:
        return self._work() if self._stopped_work is None else self._stopped_work

    def _settle_commits(self) -> None:
        """Apply the interval commits of skipped polls."""
        if self.faulty is None and self._settled and not self.expelled and self.engine.now_ms >= self.busy_until_ms:
            commits = (self._work() - self._commit_base) // self._commit_every
            if commits > 0:
                self._commit_base += commits * self._commit_every
                self._committed = dict.fromkeys(self._committed, self._commit_base)

    def _settle_polls(self) -> None:
        """Apply the last skipped poll: max.poll.interval runs from its time."""
        now_ms = self.engine.now_ms
        if self._settled and not self.member.in_poll and now_ms >= self.busy_until_ms:
            batch_ms = (now_ms - max(self._working_since_ms, self.busy_until_ms)) % self.period_ms
            self.member.heartbeat.polled(now_ms - batch_ms)

    def _seek(self) -> None:
        """Set the member's positions to the application's progress, in milliseconds of a partition's records."""
        offset = self.engine.now_ms - START_MS
        for partition in self.member.partitions:
            step(self.member, Seek(partition, offset), self.engine.now_ms)

    def _commit_answered(self, response: OffsetCommitResponse, work: int) -> None:
        for topic in response.topics:
            for each in topic.partitions:
                partition = (topic.name, each.partition_index)
                if not each.error_code and self._committed.get(partition, work) < work:
                    self._committed[partition] = work
                    self._commit_base = max(self._commit_base, work)

    def _changed(self, result: Result) -> None:
        for change in result.changes:
            what = "1 partition" if len(change.partitions) == 1 else f"{len(change.partitions)} partitions"
            if isinstance(change, Assigned):
                word = "generation" if self.member.membership is None else "epoch"
                if change.partitions or word == "generation":
                    self.say(f"{self.name} takes {what}, {word} {self.member.generation.generation_id}")
                self._committed.update(dict.fromkeys(change.partitions, self._work()))
                self.ownership.take(self, change.partitions)
                has_epochs = self.member.membership is not None
                generation_id = self.member.generation.generation_id
                self.ownership.assigned(self, change.partitions, generation_id, has_epochs=has_epochs)
            elif self.stopping or isinstance(change, Revoked):
                self.say(f"{self.name} gives up {what}")
                self._forget(change.partitions, "stop" if self.stopping else "rebalance")
            else:
                self.say(f"{self.name} has lost {what}: it is out of the group")
                self._forget(change.partitions, "expulsion")

    def _forget(self, partitions: tuple[TopicPartition, ...], cause: str) -> None:
        done = self._work_done()
        held_back, self._held_back = self._held_back, {}
        committed = self._committed
        self.ownership.redone(sum(max(0, held_back.get(each, done) - committed.pop(each)) for each in partitions))
        self.ownership.let_go(self, partitions, cause)


def _is_over(join: Join | None) -> bool:
    return join is None or join.assignment is not None or join.error is not None
