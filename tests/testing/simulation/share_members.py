"""Share consumers of the simulated world: what an application does with records, and a producer.

A `ShareMember` is one life of one process: it joins, fetches in a share session, takes its time with each record, and
accepts, releases, rejects or renews it; its acknowledgements go with the next fetch, or in a request of their own. It
keeps what KafkaShareConsumer keeps, so what it sends is legal, but for what it sends too late.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafka_wire.api import share_acknowledge, share_fetch
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import build_batch
from tests.testing.simulation.members import MemberWire, Process

if TYPE_CHECKING:
    from tests.testing.simulation.share_worlds import ShareWorld

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
HEARTBEAT_MS = 2_000
TIMEOUT_MS = 30_000
"""How long an answer is waited for before the connection is given up."""

TOPIC = "t0"

Key = tuple[bytes, int]
"""A topic id and a partition."""

Ack = tuple[int, int, int]
"""First offset, last offset, type."""


class Caller(Process):
    """A process that asks node-0. A lost connection answers None."""

    def __init__(self, world: ShareWorld, name: str) -> None:
        self.world = world
        self.engine = world.engine
        self.name = name
        world.lives += 1
        self.random = world.engine.chance(f"{name} {world.lives}")
        self.alive = True
        self.paused_until_ms = 0
        self.wires: dict[str, MemberWire] = {}

    def ask(self, purpose: str, request: Any, done: Callable[[Any], None]) -> None:
        """Send a request on the connection for `purpose`."""
        wire = self.wires.get(purpose)
        if wire is None:
            wire = self.wires[purpose] = MemberWire(self.world, self, self.world.machine.nodes[0])
        waiting = [done]

        def answered(response: Any) -> None:
            if waiting:
                waiting.pop()(response)

        wire.ask(answered, request)
        self.engine.at(self.engine.now_ms + TIMEOUT_MS, self._timed_out, waiting, wire)

    @staticmethod
    def _timed_out(waiting: list[Any], wire: MemberWire) -> None:
        if waiting:
            wire.close()

    def after(self, for_ms: int, call: Callable[..., object], *args: Any) -> None:
        self.engine.at(self.engine.now_ms + for_ms, self.soon, call, *args)

    def answered(self, done: Callable[[Any], None], response: Any) -> None:
        if self.alive:
            self.soon(done, response)

    def lost(self, wire: Any) -> None:
        for purpose, known in list(self.wires.items()):
            if known is wire:
                del self.wires[purpose]

    def end(self, *, told: bool = True) -> None:
        self.alive = False
        for wire in list(self.wires.values()):
            if told:
                wire.cable.client_closes()
            else:
                wire.cable.client_open = False
        self.wires.clear()


class Producer(Caller):
    """Appends records, and does not mind whether it gets an answer."""

    def put(self, topic_id: bytes, partition: int, count: int) -> None:
        records = [(b"", str(number).encode()) for number in range(count)]
        batch = bytes(build_batch(records, self.engine.now_ms))
        topic = TopicProduceData(TOPIC, topic_id, [PartitionProduceData(partition, batch)])
        self.ask("produce", ProduceRequest(None, -1, 5_000, [topic]), lambda _response: None)


class ShareMember(Caller):
    """See the module."""

    def __init__(self, world: ShareWorld, group_id: str, number: int) -> None:
        super().__init__(world, f"{group_id}.s{number}")
        self.group_id = group_id
        self.number = number
        self.member_id = f"{self.name}-{self.random.getrandbits(64):016x}"
        self.epoch = 0
        self.assigned: set[Key] = set()
        self.session: set[Key] = set()
        self.session_epoch = 0
        self.acks: dict[Key, list[Ack]] = {}
        self.asking = False
        self.stopping = False
        self.after(1, self._heartbeat)
        self.after(1, self._work)

    # What the world does to it

    def crash(self, *, told: bool) -> None:
        self.world.story.say(self.name, "is killed" if told else "loses its power")
        self._end(told=told)

    def stop(self) -> None:
        self.world.story.say(self.name, "stops")
        self.stopping = True

    def pause(self, for_ms: int) -> None:
        self.world.story.say(self.name, f"stands still for {for_ms / 1000:g} s")
        self.paused_until_ms = self.engine.now_ms + for_ms

    def _end(self, *, told: bool = True) -> None:
        self.end(told=told)
        self.world.member_ended(self)

    # Membership

    def _heartbeat(self) -> None:
        names = [TOPIC] if not self.epoch else None
        request = ShareGroupHeartbeatRequest(self.group_id, self.member_id, self.epoch, None, names)
        self.ask("group", request, self._heartbeat_answered)

    def _heartbeat_answered(self, response: Any) -> None:
        if response is not None and not response.error_code:
            self.epoch = response.member_epoch
            if response.assignment is not None:
                self.assigned = {
                    (topic.topic_id, each)
                    for topic in response.assignment.topic_partitions
                    for each in topic.partitions
                }
        elif response is not None and response.error_code in (
            ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND
        ):  # fmt: skip
            self.epoch = 0
        self.after(HEARTBEAT_MS if self.epoch and self.assigned else 200, self._heartbeat)

    # Records

    def _work(self) -> None:
        """Send the next request, of the fetching thread: one at a time."""
        if self.asking:
            return
        if self.stopping:
            self._close()
        elif not self.assigned and not self.session:
            self.after(200, self._work)
        elif self.acks and self.session_epoch and self.random.random() < 0.4:
            self._acknowledge()
        else:
            self._fetch()

    def _close(self) -> None:
        if self.session_epoch:
            acks = self._taken()
            topics = [share_acknowledge.AcknowledgeTopic(*each) for each in _by_topic(acks, _acknowledged)]
            request = share_acknowledge.ShareAcknowledgeRequest(self.group_id, self.member_id, -1, False, topics)
            self._ask(request, acks, lambda _response: self._end())
        else:
            self._end()

    def _taken(self) -> dict[Key, list[Ack]]:
        """The acknowledgements to send, which are on their way from now on."""
        acks, self.acks = self.acks, {}
        for key, batches in acks.items():
            self.world.watch.acknowledging(self, key, batches)
        return {key: sorted(batches) for key, batches in acks.items()}

    def _ask(self, request: Any, acks: dict[Key, list[Ack]], done: Callable[[Any], None]) -> None:
        self.asking = True

        def answered(response: Any) -> None:
            self.asking = False
            error = ErrorCode.NETWORK_EXCEPTION if response is None else ErrorCode(response.error_code)
            if error:
                self.session_epoch, self.session, self.acks = 0, set(), {}
            else:
                self.session_epoch += 1
                for topic in response.responses:
                    for each in topic.partitions:
                        key = topic.topic_id, each.partition_index
                        code = getattr(each, "acknowledge_error_code", each.error_code)
                        if key in acks and not code:
                            self.world.watch.acknowledged(self, key, acks[key])
                done(response)
            self.after(self.random.choice((1, 20, 300)) if not error else 300, self._work)

        self.ask("fetch", request, answered)

    def _acknowledge(self) -> None:
        acks = self._taken()
        renews = any(type_ == RENEW for batches in acks.values() for _, _, type_ in batches)
        topics = [share_acknowledge.AcknowledgeTopic(*each) for each in _by_topic(acks, _acknowledged)]
        request = share_acknowledge.ShareAcknowledgeRequest(
            self.group_id, self.member_id, self.session_epoch, renews, topics
        )
        self._ask(request, acks, lambda _response: None)

    def _fetch(self) -> None:
        chance = self.random
        if not self.session_epoch:
            self.acks, self.session = {}, set()
        acks = self._taken()
        renews = any(type_ == RENEW for batches in acks.values() for _, _, type_ in batches)
        added, gone = self.assigned - self.session, self.session - self.assigned
        self.session = set(self.assigned)
        wanted: dict[Key, list[Ack]] = {key: [] for key in sorted(added)} | acks
        forgotten: dict[bytes, list[int]] = {}
        for topic_id, index in sorted(gone):
            forgotten.setdefault(topic_id, []).append(index)
        request = share_fetch.ShareFetchRequest(
            self.group_id, self.member_id, self.session_epoch, 500, 1, 1 << 20, chance.choice((1, 5, 50)),
            chance.choice((1, 10, 100)), chance.randrange(2), False,
            [share_fetch.FetchTopic(*each) for each in _by_topic(wanted, _fetched)],
            [share_fetch.ForgottenTopic(*each) for each in forgotten.items()],
        )  # fmt: skip
        if renews:
            request.is_renew_ack = True
            request.max_wait_ms = request.min_bytes = request.max_bytes = request.max_records = 0
        self._ask(request, acks, self._records)

    def _records(self, response: Any) -> None:
        for topic in response.responses:
            for each in topic.partitions:
                key = topic.topic_id, each.partition_index
                for acquired in each.acquired_records:
                    self.world.watch.delivered_records(self, key, acquired)
                    self._process(key, acquired.first_offset, acquired.last_offset)

    def _process(self, key: Key, first: int, last: int) -> None:
        """Decide what becomes of these records, and when."""
        chance, world = self.random, self.world
        at_ms = 0
        while first <= last:
            end = chance.randint(first, last) if chance.random() < 0.5 else last
            type_ = ACCEPT
            at_ms += chance.choice((0, 10, 500))
            if world.is_mayhem:
                type_ = chance.choices((ACCEPT, RELEASE, REJECT, RENEW), (10, 3, 2, 1))[0]
                at_ms += chance.choices((0, 5_000, world.lock_ms - 100, world.lock_ms + 5_000), (20, 3, 1, 2))[0]
            self.after(at_ms, self._finish, self.session_epoch, key, (first, end, type_))
            first = end + 1

    def _finish(self, session_epoch: int, key: Key, ack: Ack) -> None:
        if not self.session_epoch or self.session_epoch < session_epoch:
            return  # its session has ended meanwhile, and the records are no longer its own
        self.acks.setdefault(key, []).append(ack)
        if ack[2] == RENEW:
            self.after(1_000, self._finish, session_epoch, key, (ack[0], ack[1], ACCEPT))


def _by_topic(acks: dict[Key, list[Ack]], made: Callable[[int, list[Ack]], Any]) -> list[tuple[bytes, list[Any]]]:
    topics: dict[bytes, list[Any]] = {}
    for (topic_id, index), batches in acks.items():
        topics.setdefault(topic_id, []).append(made(index, batches))
    return list(topics.items())


def _acknowledged(index: int, batches: list[Ack]) -> Any:
    return share_acknowledge.AcknowledgePartition(
        index, [share_acknowledge.AcknowledgementBatch(first, last, [type_]) for first, last, type_ in batches]
    )


def _fetched(index: int, batches: list[Ack]) -> Any:
    return share_fetch.FetchPartition(
        index, [share_fetch.AcknowledgementBatch(first, last, [type_]) for first, last, type_ in batches]
    )
