"""What must hold in the simulated world, looked at all the time. `Watch` hears of everything; a violation ends the run.

From outside, as clients see it: leaders of generations, owners of partitions, commits that were acknowledged, requests
without an answer. From inside: who is expelled although he heartbeats, who stays although he is dead, parked requests
that nobody remembers, and at rest whether the log says what the memory says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinatord.base.clocks.timers import TICK_MS
from coordinatord.broker.log import replay
from coordinatord.broker.topics.names import OFFSETS_TOPIC
from coordinatord.coordination.group.replay import drop_logged_members
from coordinatord.coordination.group.replay import replay as replay_record
from coordinatord.coordination.group.result import Dropped, Joined, Result
from coordinatord.coordination.group.state import Group
from coordinatord.coordination.group.states import COMPLETING_REBALANCE, EMPTY, STABLE, Cause
from coordinatord.coordination.runtime.log import Producer
from coordinatord.coordination.runtime.partitions import ACTIVE
from coordinatord.coordination.service.groups import GroupActor
from coordinatord.testing.member.result import Assigned, Lost, Revoked
from coordinatord.testing.member.send import Send
from coordinatord.testing.member.subscription import decode_assignment
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_wire.api.offset_commit import OffsetCommitRequest
from kafka_wire.api.offset_fetch import OffsetFetchRequest
from kafka_wire.api.sync_group import SyncGroupRequest
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import KeyValues, Records
from kafka_wire.records.keys import decode_key, decode_value
from kafka_wire.records.offsets import GroupMetadataKey, OffsetCommitKey
from tests.testing.simulation.agreed import Agreed
from tests.testing.simulation.gate import WatchedConnection
from tests.testing.simulation.history import NOTHING_COMMITTED, Entry, History, Register
from tests.testing.simulation.remembered import watch_heartbeats
from tests.testing.simulation.sharing import Shares, Sharing
from tests.testing.simulation.story import answer_told, request_told
from tests.testing.simulation.unheard import Unheard, watch_unheard

if TYPE_CHECKING:
    from tests.testing.simulation.members import Consumer
    from tests.testing.simulation.network import Cable
    from tests.testing.simulation.nodes import Node, SimulatedDaemon
    from tests.testing.simulation.world import World

NOT_DONE = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""Errors which say that a commit has not happened. After COORDINATOR_NOT_AVAILABLE it may have, if the log failed."""

LATE_MS = 2 * TICK_MS + 3
"""How late a session may end: a tick of the wheel, one of the timer behind it, and the drift of the clocks."""

FLUSH_MS = 200
UNDISTURBED_MS = 10_000
"""With log.flush=interval a flush is due in time, and takes a moment, where nothing has stood still for a while."""

EXPIRY_EARLY_MS = 5_000
"""Nodes have clocks of their own, and a group may have moved from one to another."""


class Violated(AssertionError):
    """Something that must hold does not."""


class Watch:
    """See the module."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.history = History()
        self.owners: dict[tuple[str, str, int], dict[Consumer, int]] = {}
        self.agreed: dict[str, Agreed] = {}
        self.durable_generation: dict[str, int] = {}
        self.last_generation: dict[tuple[int, str], int] = {}
        self.contacts: dict[tuple[str, str], tuple[int, int]] = {}  # (group, member) -> (life, node's clock)
        self.heartbeats: dict[tuple[str, str], tuple[int, int]] = {}  # the same, of those that count
        self.known_since: dict[tuple[int, str], int] = {}  # when a group was first seen there
        self.pending_since: dict[tuple[int, str], int] = {}  # ids that were handed out
        self.begun: dict[tuple[int, str], tuple[int, int]] = {}  # the last generation, and when, in the engine's time
        self.arrived: dict[Send, int] = {}
        self.stable_since: dict[tuple[int, str], int] = {}
        self.commits: dict[Send, list[tuple[Register, Entry]]] = {}
        self.sharing: dict[str, Sharing] = {}
        self.unheard = Unheard(self)
        self.stopped: set[Any] = set()  # requests that no group knows yet, or ever will: faulty.py
        self.checks = 0
        self.rebalances = 0
        self.expelled = 0
        self.lost_lives = 0  # what these have promised, a disk has lost
        self.needed_ms: dict[str, int] = {}  # when a group last had members, by its node's clock

    def fail(self, what: str) -> None:
        self.world.story.say("WATCH", what)
        raise Violated(what)

    # What nodes do

    def started(self, node: Node, daemon: SimulatedDaemon) -> None:
        """A process has opened its log. Hear of every step from now on."""
        coordinator = daemon.coordinator
        original = coordinator.observe

        def observe(actor: GroupActor, result: Result, now_ms: int) -> None:
            self._stepped(node, actor, result, now_ms)
            original(actor, result, now_ms)

        coordinator.observe = observe  # type: ignore[method-assign]
        append = coordinator.log.append

        def append_watched(partition: int, records: Records, now_ms: int, producer: Producer | None = None) -> int:
            if isinstance(records, KeyValues):
                for key, value in records.pairs:
                    if key is not None and value is None:
                        self._taken_back(node, decode_key(key))
            return append(partition, records, now_ms, producer)

        coordinator.log.append = append_watched  # type: ignore[method-assign]
        watch_heartbeats(self, node, daemon)
        watch_unheard(self, node, daemon)

    def ended(self, node: Node, daemon: SimulatedDaemon | None) -> None:
        """A process is gone. That may be for a reason that is none."""
        if daemon is not None and daemon.failed is not None and not isinstance(daemon.failed, OSError):
            self.fail(f"{node.name} has failed: {daemon.failed!r}")

    def _stepped(self, node: Node, actor: GroupActor, result: Result, now_ms: int) -> None:
        group = actor.group
        life = node.life
        if group.members:
            self.needed_ms[group.group_id] = now_ms
        for transition in result.transitions:
            if not group.exists:
                continue
            if transition.new is EMPTY:
                self.needed_ms[group.group_id] = now_ms
            self.world.story.say(
                node.name,
                f"{group.group_id}: {transition.old.value} → {transition.new.value}, generation "
                f"{transition.generation_id}: {transition.reason}",
            )
            if transition.new is COMPLETING_REBALANCE:
                self._generation_begins(life, group, result)
            elif transition.new is STABLE:
                self.rebalances += 1
                self.stable_since[life, group.group_id] = now_ms
        for change in result.changes:
            if type(change) is Joined:
                self.contacts[group.group_id, change.member_id] = (life, now_ms)
            elif type(change) is Dropped:
                self.world.story.say(node.name, f"{group.group_id}: drops {change.member_id}: {change.cause}")
                if change.cause == Cause.SESSION_EXPIRED:
                    self._expelled(node, group, change, now_ms)

    def _taken_back(self, node: Node, key: Any) -> None:
        """A tombstone. In this world there is but one reason: nobody has needed the group for its retention."""
        group_id, now_ms = key.group, node.clock()
        needed_ms = self.needed_ms.get(group_id, 0)
        retention_ms = self.world.plan.retention_minutes * 60_000
        if now_ms - needed_ms < retention_ms - EXPIRY_EARLY_MS:
            self.fail(f"{group_id}: what was committed expires {now_ms - needed_ms} ms after it had members")
        if isinstance(key, OffsetCommitKey):
            self.world.story.say(node.name, f"{group_id}: the offset of {key.topic}-{key.partition} expires")
            self.history[group_id, key.topic, key.partition].lost(self.world.engine.now_ms)
        else:
            self.durable_generation.pop(group_id, None)
            self.last_generation.pop((node.life, group_id), None)
            self.begun.pop((node.life, group_id), None)
            self.agreed.pop(group_id, None)

    def _generation_begins(self, life: int, group: Group, result: Result) -> None:
        generation_id, group_id = group.generation_id, group.group_id
        floor = max(self.durable_generation.get(group_id, 0), self.last_generation.get((life, group_id), 0))
        if generation_id <= floor:
            self.fail(f"{group_id} begins generation {generation_id} after it has been at {floor}")
        self.last_generation[life, group_id] = generation_id
        self.begun[life, group_id] = generation_id, self.world.engine.now_ms
        told = [result.reply, *(answer for _, answer in result.replies)]
        if not any(type(each) is JoinGroupResponse and each.member_id == group.leader_id for each in told):
            self.fail(f"{group_id} begins generation {generation_id} with a leader that has not rejoined")

    def _expelled(self, node: Node, group: Group, dropped: Dropped, now_ms: int) -> None:
        self.expelled += 1
        life, heard_ms = self.heartbeats.get((group.group_id, dropped.member_id), (0, 0))
        session_ms = self.world.groups[group.group_id].session_ms
        if life == node.life and now_ms - heard_ms < session_ms:
            self.fail(
                f"{group.group_id}: {dropped.member_id} is expelled {now_ms - heard_ms} ms after a heartbeat; its "
                f"session is {session_ms} ms"
            )

    def delivered(self, cable: Cable, send: Send) -> None:
        """A request has reached its node and been read from the connection."""
        self.unheard.delivered(cable)
        node: Any = cable.server
        member_id = send.generation.member_id
        if not send.group or not member_id or node.daemon is None:
            return
        request = send.request
        if type(request) is OffsetCommitRequest:
            self.arrived[send] = self.world.engine.now_ms
        key = (getattr(request, "group_id", ""), member_id)
        self.contacts[key] = contact = (node.life, node.clock())
        if type(request) is HeartbeatRequest and not cable.connection.waiting_count:
            actor = node.daemon.coordinator.actors.get(request.group_id)
            if (
                actor is not None
                and member_id in actor.group.members
                and request.generation_id == actor.group.generation_id
            ):
                self.heartbeats[key] = contact

    def over(self, cable: Cable) -> None:
        """Nothing that was sent on it can arrive any more."""
        self.unheard.over(cable)
        now_ms = self.world.engine.now_ms
        for send in cable.sends:
            for register, entry in self.commits.get(send, ()):
                register.given_up(entry, now_ms)

    # What members do

    def sent(self, who: Consumer, send: Send, cable: Cable) -> None:
        request = send.request
        if type(request) is SyncGroupRequest and request.assignments:
            self._assigns(who, send)
        if self.world.story.is_traced and type(request) is not HeartbeatRequest:
            self.world.story.say(who.name, f"→ {cable.server.name}: {request_told(request)}")
        if type(request) is OffsetCommitRequest:
            now_ms = self.world.engine.now_ms
            entries = self.commits[send] = []
            for topic in request.topics:
                for each in topic.partitions:
                    register = self.history[request.group_id, topic.name, each.partition_index]
                    entries.append((register, register.sent(each.committed_offset, now_ms)))
            cable.sends.append(send)

    def answered(self, who: Any, send: Send, response: Any, sent_ms: int, life: int) -> None:
        request = send.request
        if response is None:
            return
        kind = type(request)
        if self.world.story.is_traced and (kind is not HeartbeatRequest or response.error_code):
            self.world.story.say(who.name, f"← {answer_told(response)}")
        self.checks += 1
        if kind is OffsetCommitRequest:
            self._commit_answered(who, send, response, life)
        elif kind is OffsetFetchRequest:
            self._fetched(who, response, sent_ms)
        elif kind is JoinGroupRequest and not response.error_code:
            self._joined(send, response, life)
        elif kind is SyncGroupRequest and not response.error_code and life > self.lost_lives:
            self._synced(send, response, life)

    def _commit_answered(self, who: Consumer, send: Send, response: Any, life: int) -> None:
        now_ms = self.world.engine.now_ms
        errors = [each.error_code for topic in response.topics for each in topic.partitions]
        request = send.request
        begun, begun_ms = self.begun.get((life, request.group_id), (0, 0))
        its = request.generation_id_or_member_epoch
        if not any(errors) and its < begun and begun_ms < self.arrived.get(send, 0):
            self.fail(f"{who.name} commits in generation {its} of {request.group_id} after {begun} has begun")
        for (register, entry), error in zip(self.commits.pop(send), errors, strict=True):
            if not error and life > self.lost_lives:
                register.acknowledged(entry, now_ms)
            elif error in NOT_DONE:
                register.refused(entry)
            else:
                register.given_up(entry, now_ms)

    def _fetched(self, who: Any, response: Any, sent_ms: int) -> None:
        for group in response.groups:
            for topic in group.topics:
                for each in topic.partitions:
                    if group.error_code or each.error_code:
                        continue
                    self.checks += 1
                    register = self.history[group.group_id, topic.name, each.partition_index]
                    if not register.may_be(each.committed_offset, sent_ms):
                        offset = each.committed_offset
                        self.fail(
                            f"{who.name} fetches {'nothing' if offset == NOTHING_COMMITTED else offset} for "
                            f"{topic.name}-{each.partition_index}; what may be there is: {register.told()}"
                        )

    def _joined(self, send: Send, response: Any, life: int) -> None:
        if not send.request.group_instance_id and life > self.lost_lives:
            wrong = self._agreed(send).joined(life, response.generation_id, response.leader)
            if wrong is not None:
                self.fail(f"{send.request.group_id}: {wrong}")

    def _synced(self, send: Send, response: Any, life: int) -> None:
        request = send.request
        known = self.durable_generation.get(request.group_id, 0)
        self.durable_generation[request.group_id] = max(known, request.generation_id)
        if not request.group_instance_id:
            wrong = self._agreed(send).told(life, request.generation_id, request.member_id, response.assignment)
            if wrong is not None:
                self.fail(f"{request.group_id}: {wrong}")

    def _agreed(self, send: Send) -> Agreed:
        return self.agreed.setdefault(send.request.group_id, Agreed())

    def timed_out(self, who: Consumer, send: Send, sent_ms: int, wire: Any) -> None:
        """Nobody has answered; somebody should have, if nothing was in the way."""
        cable = wire.cable
        self.world.story.say(who.name, f"has no answer to {request_told(send.request)}")
        if type(send.request) in (JoinGroupRequest, SyncGroupRequest):
            return  # they wait for others; `look` sees to those that are forgotten
        first = next((each for each, (_, used) in who.unanswered.items() if used is wire), None)
        if first is not send or cable.connection is None or not cable.server_open:
            return
        node: Any = cable.server
        if max(cable.path.disturbed_ms, node.disturbed_ms, who.disturbed_ms) < sent_ms:
            self.fail(f"{who.name} has no answer from {node.name} to {request_told(send.request)}")

    def changed(self, who: Consumer, change: Assigned | Revoked | Lost) -> None:
        """Partitions come and go."""
        group_id = who.group.group_id
        generation_id = who.member.generation.generation_id
        if change.partitions:
            if type(change) is Revoked and who.member.cooperative and not who.stopping:
                self._gives_up(who, change)
            elif type(change) is Lost:
                self._sharing(who).lost()
            words = {Assigned: "takes", Revoked: "gives up", Lost: "has lost"}[type(change)]
            numbers = ", ".join(str(number) for _, number in change.partitions)
            self.world.story.say(who.name, f"{words} {numbers} (generation {generation_id})")
        for topic, number in change.partitions:
            holders = self.owners.setdefault((group_id, topic, number), {})
            if not isinstance(change, Assigned):
                holders.pop(who, None)
                continue
            for other in list(holders):
                its = other.member.generation.generation_id
                if other is not who and other.alive and its == generation_id and not self._is_out(other):
                    self.fail(f"{topic}-{number} has two owners in generation {its}: {other.name} and {who.name}")
            holders[who] = generation_id

    def _is_out(self, who: Consumer) -> bool:
        """It has been expelled and does not know yet. A generation that was not logged when its coordinator died may
        come a second time, for others.
        """
        actor = self.world.actor(who.group.group_id)
        return actor is not None and who.member.generation.member_id not in actor.group.members

    def _assigns(self, who: Consumer, send: Send) -> None:
        request = send.request
        self._agreed(send).assigned(
            request.generation_id, {each.member_id: each.assignment for each in request.assignments}
        )
        shares = {each.member_id: frozenset(decode_assignment(each.assignment)) for each in request.assignments}
        wrong = self._sharing(who).assigned(Shares(request.generation_id, shares))
        if wrong is not None and who.member.cooperative:
            self.fail(f"generation {request.generation_id} of {who.group.group_id}: {wrong}")

    def _gives_up(self, who: Consumer, change: Revoked) -> None:
        member, its = who.member, who.member.generation
        wrong = self._sharing(who).revoked(its.member_id, its.generation_id, change.partitions, member.subscription)
        self.checks += 1
        if wrong is not None:
            self.fail(f"generation {its.generation_id} of {who.group.group_id}: {wrong}")

    def _sharing(self, who: Consumer) -> Sharing:
        return self.sharing.setdefault(who.group.group_id, Sharing(self.world.plan.topic_partitions))

    def poll_failed(self, who: Consumer, polled: Any) -> None:
        self.world.story.say(who.name, f"poll raises {polled.error.name}: {polled.what}")
        if polled.error not in (ErrorCode.FENCED_INSTANCE_ID,):
            self.fail(f"{who.name}: poll raises {polled.error.name}: {polled.what}")

    def process_ended(self, who: Consumer) -> None:
        for holders in self.owners.values():
            holders.pop(who, None)

    def disk_lost(self) -> None:
        """The power has failed where not everything was flushed before it was acknowledged."""
        now_ms = self.world.engine.now_ms
        self.lost_lives = self.world.lives  # answers may still be under way
        sure_ms = 0
        nodes = self.world.machine.workers
        # A process that had ended before has left to nobody what it had not flushed.
        ran = all(node.gone_ms == now_ms for node in nodes)
        if ran and all(node.disturbed_ms < now_ms - UNDISTURBED_MS and not node.worker.slow_ms for node in nodes):
            sure_ms = now_ms - self.world.settings.log_flush_interval_ms - FLUSH_MS
        for register in self.history.registers.values():
            register.lost(now_ms, sure_ms)
        self.durable_generation.clear()
        self.agreed.clear()
        # A generation's number may come a second time, for other members.
        for holders in self.owners.values():
            holders.clear()

    # From time to time

    def look(self) -> None:
        """At all nodes that run: the dead who are still members, and the parked whom nobody remembers."""
        for node in self.world.machine.workers:
            daemon = node.daemon
            if daemon is None or node.stopping or self.world.engine.now_ms < node.disturbed_ms + 1_000:
                continue
            self.checks += 1
            now_ms = node.clock()
            remembered: set[Any] = set(self.stopped)
            for actor in daemon.coordinator.actors.values():
                group = actor.group
                for member in group.members.values():
                    remembered.add(member.join_reply_to)
                    remembered.add(member.sync_reply_to)
                if group.members:
                    self.needed_ms[group.group_id] = now_ms
                for member_id in group.pending_members:
                    since_ms = self.pending_since.setdefault((node.life, member_id), now_ms)
                    if now_ms - since_ms > self.world.groups[group.group_id].session_ms + LATE_MS:
                        self.fail(f"{group.group_id}: the id {member_id} is waited for since {now_ms - since_ms} ms")
                if group.state is STABLE:
                    self._look_for_dead(node, group, now_ms)
            for epoch, held in daemon.coordinator.parked._held.items():
                remembered.update(context for context, _ in held.replies)
                if epoch <= daemon.writer.flushed_epoch:
                    self.fail(f"{node.name} holds {len(held.replies)} answers that are durable")
            for connection in daemon.connections.open:
                if not isinstance(connection, WatchedConnection):
                    continue  # of a request whose answer is lost
                connection.look()
                parked = connection.line.parked
                if parked is None or parked.done or parked.codec.api_key not in (11, 14):
                    pass
                elif parked not in remembered:
                    self.fail(f"{node.name} has forgotten a parked {parked.codec.name} of {connection.client_id}")
                if connection.line.held and connection.line.held[0].epoch <= daemon.writer.flushed_epoch:
                    self.fail(f"{node.name} holds an answer for {connection.client_id} that is durable")

    def _look_for_dead(self, node: Node, group: Group, now_ms: int) -> None:
        plan = self.world.groups[group.group_id]
        since_ms = max(
            self.stable_since.get((node.life, group.group_id), 0),
            self.known_since.setdefault((node.life, group.group_id), now_ms),
        )
        for member_id in group.members:
            life, heard_ms = self.contacts.get((group.group_id, member_id), (0, 0))
            last_ms = max(since_ms, heard_ms if life == node.life else 0)
            if now_ms - last_ms > plan.session_ms + LATE_MS:
                self.fail(
                    f"{group.group_id}: {member_id} was heard of {now_ms - last_ms} ms ago, and is still a member; "
                    f"its session is {plan.session_ms} ms"
                )

    def at_rest(self) -> None:
        """Nothing is under way: what the logs say is what the nodes have in memory."""
        for node in self.world.machine.workers:
            daemon = node.daemon
            assert daemon is not None
            coordinator = daemon.coordinator
            for partition, state in enumerate(coordinator.partitions.states):
                if state != ACTIVE:
                    continue
                logged = self._replayed(daemon, partition)
                live = {
                    group_id: actor.group
                    for group_id, actor in coordinator.actors.items()
                    if actor.partition == partition
                }
                self.checks += 1
                for group_id in sorted({*logged, *live}):
                    self._compare(node, group_id, logged.get(group_id), live.get(group_id))

    def _replayed(self, daemon: SimulatedDaemon, partition: int) -> dict[str, Group]:
        """Record by record: the last one of a key wins."""
        log = daemon.data.get(OFFSETS_TOPIC, partition)
        assert log is not None
        groups: dict[str, Group] = {}
        settings = daemon.coordinator.group_settings
        for batch in replay(log):
            for _, _, key_bytes, value_bytes in batch.records:
                key = decode_key(key_bytes)
                assert isinstance(key, (OffsetCommitKey, GroupMetadataKey))
                group = groups.setdefault(key.group, Group(key.group, settings, str))
                replay_record(group, key, None if value_bytes is None else decode_value(key, value_bytes))
        return {group_id: group for group_id, group in groups.items() if group.exists}

    def _compare(self, node: Node, group_id: str, logged: Group | None, live: Group | None) -> None:
        if logged is None or live is None:
            where = "in the log and not in memory" if live is None else "in memory and not in the log"
            self.fail(f"{node.name}: {group_id} is {where}")
            return
        if logged.offsets != live.offsets:
            differ = [
                (topic, each)
                for topic in {*logged.offsets, *live.offsets}
                for each in {*logged.offsets.get(topic, {}), *live.offsets.get(topic, {})}
                if logged.offsets.get(topic, {}).get(each) != live.offsets.get(topic, {}).get(each)
            ]
            topic, each = min(differ)
            says, has = (group.offsets.get(topic, {}).get(each) for group in (logged, live))
            self.fail(f"{node.name}: {group_id}, {topic}-{each}: the log says {says}, memory {has}")
        if live.state is STABLE and logged.metadata is not None:
            written = {each.member_id: each.assignment for each in logged.metadata.members}
            members = {member_id: each.assignment for member_id, each in live.members.items()}
            if written != members:
                self.fail(f"{node.name}: {group_id}: the log has the members {written}, memory {members}")
        drop_logged_members(logged)
        if logged.metadata != live.metadata:
            self.fail(f"{node.name}: {group_id}: the log says {logged.metadata}, memory {live.metadata}")
