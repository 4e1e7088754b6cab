"""Topics under test: a simulated disk, a hand-turned event loop, a clock that stands until it is moved.

Responses go through the codec of the request's version and back, so that a test sees what a client would.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from coordinatord.base.config import Settings
from coordinatord.broker.log import DataDirectory, LogWriter
from coordinatord.broker.log.simulated_disk import CrashKind, SimulatedDisk
from coordinatord.broker.topics import OFFSETS_TOPIC, Topics, catalogue_file
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.net.cooperative_tasks import CooperativeTask, run_through
from coordinatord.transport.net.received import AuthorizationResult
from kafka_wire import registry
from kafka_wire.api.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafka_wire.api.produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from kafka_wire.codecs import encode_message
from kafka_wire.records.batch import BatchBuilder
from kafka_wire.records.compression import Compression
from kafka_wire.schema import ZERO_UUID
from tests.broker.log.world import PATH, HandLoop, HandWorker

START_MS = 1_700_000_000_000


class Peer:
    """The connection that a request came by."""

    listener = "PLAINTEXT"
    room = 1 << 30

    def __init__(self) -> None:
        self.refusals: list[str] = []
        self.line = self

    def answer_parked(self, context: Context, response: Any, now_s: float) -> None:
        context.reply(response)

    def answer(self, context: Context, response: Any) -> None:
        context.reply(response)

    def refuse(self, kind: str, reason: str, **what: Any) -> None:
        self.refusals.append(reason)


class Context:
    """A request on its way, as handlers see it. `response` is what the client got, None so far."""

    def __init__(self, world: World, api_key: int, api_version: int) -> None:
        self.codec = registry.codec(api_key, api_version)
        self.admitted: AuthorizationResult | None = None
        self.api_version = api_version
        self.client_id = "test"
        self.client_host = "/127.0.0.1"
        self.room = Peer.room
        self.connection = Peer()
        self.listener = self.connection.listener
        self.closed = False
        self.request: Any = None
        self.response: Any = None
        self.answers = 0
        #: its response's records were not copied
        self.in_parts = False
        self.dropped = False
        self.done = False
        #: served, and its response waits for the log
        self.waits = False
        self._world = world

    @property
    def body(self) -> bytes:
        return encode_message(self.request, self.api_version)

    @property
    def where(self) -> tuple[bytes, int, int]:
        return self.body, 0, len(self.body)

    @property
    def may_describe(self) -> Callable[[str], bool] | None:
        return None if self.admitted is None else self.admitted.may_describe

    def keep(self) -> tuple[bytes, int, int]:
        return self.where

    def may_change(self, partitions: int) -> bool:
        return True

    def amended(self, response: Any) -> Any:
        return response

    def reply(self, response: Any) -> None:
        self.answers += 1
        self.done = True
        out = bytearray()
        if isinstance(response, bytes):  # the body as it is
            out += response
        else:
            self.codec.encode_response(response, out)
        self.response = self.codec.decode_response(bytes(out), 0, len(out))

    def reply_in_parts(self, response: Any) -> None:
        self.in_parts = True
        self.reply(response)

    def reply_alone(self, response: Any, now_s: float) -> None:
        self.reply(response)

    def go_on(self, slices: CooperativeTask) -> None:
        run_through(slices.steps)

    def answer_at(self, epoch: int, response: Any, failure: Callable[[], Any], *, is_patient: bool = False) -> None:
        self.waits = True
        self._world.writer.hold(epoch, lambda: self.reply(response), lambda: self.reply(failure()))

    def drop(self) -> None:
        self.dropped = True

    def drop_at(self, epoch: int) -> None:
        self.waits = True
        self.drop()


@dataclasses.dataclass(eq=False)
class Alarm:
    """A timer that was set."""

    at_ms: int
    callback: Callable[[], object]
    alarms: list[Alarm]

    def cancel(self) -> None:
        if self in self.alarms:
            self.alarms.remove(self)


class World:
    """A data directory with topics, and a client of them."""

    def __init__(self, disk: SimulatedDisk | None = None, **settings: Any) -> None:
        self.disk = disk or SimulatedDisk()
        self.settings = dataclasses.replace(Settings(), **settings)
        self.time_ms = START_MS
        self.alarms: list[Alarm] = []
        self.deleted: list[tuple[str, bytes]] = []
        self._uuids = 0
        self.open()

    def open(self) -> None:
        """Start, again when it was stopped or has crashed."""
        self.loop, self.worker = HandLoop(), HandWorker()
        self.failures: list[BaseException] = []
        self.data = self.open_data()
        flush: Any = self.settings.log_flush
        self.writer = LogWriter(
            self.data,
            self.loop,
            self.failures.append,
            worker=self.worker,
            flush=flush,
            now_ms=lambda: self.time_ms,
        )
        nodes = self.nodes()
        self.topics = Topics(
            self.settings,
            self.data,
            self.writer,
            nodes,
            new_uuid=self.new_uuid,
            now_ms=lambda: self.time_ms,
            schedule_at=self.schedule_at,
            shared=self.shared(),
        )
        self.topics.create_internal(OFFSETS_TOPIC)  # as if somebody had looked for a group
        self.topics.on_deleted(lambda name, topic_id: self.deleted.append((name, topic_id)))
        self.handlers = self.topics.handlers()

    def open_data(self) -> DataDirectory:
        return DataDirectory.open(
            PATH,
            disk=self.disk,
            config_for=lambda name: Topics.log_config(self.settings, name),
            catalogued=catalogue_file.catalogued,
        )

    def shared(self) -> Any:
        """What it shares with other processes: nothing."""
        return None

    def nodes(self) -> Nodes:
        nodes = Nodes(self.settings.node_id)
        nodes.advertise("PLAINTEXT", ("localhost", 9092))
        return nodes

    def stop(self) -> None:
        """A clean stop."""
        self.topics.drain()
        self.settle()
        self.writer.close()
        self.data.close()
        self.alarms.clear()

    def crash(self, kind: CrashKind = "kill") -> None:
        """SIGKILL keeps what was written, a power failure what was flushed and an arbitrary part of the rest."""
        self.disk.crash(kind)
        self.alarms.clear()

    def new_uuid(self) -> bytes:
        self._uuids += 1
        return self._uuids.to_bytes(4, "big") + bytes(12)

    def schedule_at(self, at_ms: int, callback: Callable[[], object]) -> Alarm:
        alarm = Alarm(at_ms, callback, self.alarms)
        self.alarms.append(alarm)
        return alarm

    def pass_time(self, ms: int) -> None:
        """Let time pass; alarms go off when they are due."""
        end_ms = self.time_ms + ms
        while due := sorted((alarm for alarm in self.alarms if alarm.at_ms <= end_ms), key=lambda each: each.at_ms):
            self.time_ms = max(self.time_ms, due[0].at_ms)
            due[0].cancel()
            due[0].callback()
        self.time_ms = end_ms

    def settle(self) -> None:
        """Turn the loop until nothing is left to do: everything is durable."""
        while self.loop.ready or self.worker.jobs:
            self.loop.turn()
            self.worker.run_one()

    def send(self, api_key: int, api_version: int, request: Any) -> Context:
        """A request through its codec to its handler; what happens then is the test's to see."""
        context = Context(self, api_key, api_version)
        out = bytearray()
        context.codec.encode_request(request, out)
        context.request = context.codec.decode_request(bytes(out), 0, len(out))
        response = self.handlers[api_key](context, context.request)
        if isinstance(response, CooperativeTask):
            response = run_through(response.steps)
        if response is not None:
            context.reply(response)
        return context

    def create(self, name: str, partitions: int = 1, **configs: str) -> bytes:
        """A topic; underscores in names of settings stand for dots. Returns its id."""
        own = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
        response = self.call(19, 7, CreateTopicsRequest([CreatableTopic(name, partitions, -1, [], own)]))
        [topic] = response.topics
        assert topic.error_code == 0, topic.error_message
        topic_id: bytes = topic.topic_id
        return topic_id

    def produce(
        self, topic: str, records: bytes | None, partition: int = 0, version: int = 9
    ) -> PartitionProduceResponse:
        """The partition's part of the response to one batch."""
        response = self.call(0, version, produce(topic, records, partition=partition))
        found: PartitionProduceResponse = response.responses[0].partition_responses[0]
        return found

    def call(self, api_key: int, api_version: int, request: Any) -> Any:
        """The response, after everything is durable."""
        context = self.send(api_key, api_version, request)
        self.settle()
        assert context.answers == 1
        return context.response


def batch(
    *values: bytes | None,
    keys: bytes | None = None,
    timestamp_ms: int = START_MS,
    compression: Compression = Compression.NONE,
    **header: int,
) -> bytes:
    """A produced batch, one record per value; `header` is producer_id, producer_epoch, base_sequence, attributes."""
    builder = BatchBuilder()
    builder.extend([(keys, value) for value in values], timestamp_ms)
    return bytes(builder.finish(compression=compression, **header))


def produce(
    topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1, topic_id: bytes = ZERO_UUID
) -> ProduceRequest:
    """A Produce request of one batch."""
    data = TopicProduceData(topic, topic_id, [PartitionProduceData(partition, records)])
    return ProduceRequest(None, acks, 1000, [data])
