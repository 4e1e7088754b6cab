"""What the members on one server share: connections to it, its topics, how fast time goes, and what has been asked."""

from __future__ import annotations

import asyncio
import random
import struct
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.day.templates import Template
from bench.generator import HOST, WrongAnswer
from bench.groups import require
from kafka_wire.api.api_versions import ApiVersionsRequest
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.headers import RequestHeader, write_request_header
from kafka_wire.registry import codec
from kafka_wire.schema import ZERO_UUID, schema_of

_correlation = struct.Struct(">i")


class Wire(asyncio.Protocol):
    """One connection. Answers come in the order of the requests."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, asyncio.Future[bytes]]] = deque()
        self._rest = b""
        self._correlation_id = 0
        self._transport: Any = None
        self._closing = False

    @classmethod
    async def open(cls, port: int) -> Wire:
        _, wire = await asyncio.get_running_loop().create_connection(cls, HOST, port)
        return wire

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        for _, waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(WrongAnswer(f"the server has closed a connection: {exc}"))
        self._waiting.clear()

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        pos, end = 0, len(data)
        while end - pos >= 4:
            (size,) = _correlation.unpack_from(data, pos)
            if end - pos - 4 < size:
                break
            correlation_id, waiting = self._waiting.popleft()
            if waiting.done():
                pass  # nobody waits for it any more
            elif _correlation.unpack_from(data, pos + 4)[0] != correlation_id:
                waiting.set_exception(WrongAnswer("an answer out of turn"))
            else:
                waiting.set_result(data[pos + 4 : pos + 4 + size])
            pos += 4 + size
        self._rest = data[pos:]

    async def ask(self, frame: bytearray) -> bytes:
        """Send a whole frame, into which a correlation id is written; its answer from the correlation id on."""
        self._correlation_id += 1
        _correlation.pack_into(frame, 8, self._correlation_id)
        waiting: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._correlation_id, waiting))
        self._transport.write(frame)
        return await waiting

    def close(self) -> None:
        self._transport.close()


def frame_of(api_key: int, api_version: int, client_id: str, message: Any, raw: bytes = b"") -> bytearray:
    """A request with its size; without a message `raw` is what is behind the client id."""
    out = bytearray(4)
    header = RequestHeader(api_key, api_version, 0, client_id)
    if message is None:
        write_request_header(header, False, out)
        out += raw
    else:
        used = codec(api_key, api_version)
        write_request_header(header, used.flexible, out)
        used.encode_request(message, out)
    _correlation.pack_into(out, 0, len(out) - 4)
    return out


def decoded(api_key: int, api_version: int, answer: bytes) -> Any:
    """The answer to a request of this version."""
    used = codec(api_key, api_version)
    return used.decode_response(answer, 5 if used.response_header_flexible else 4, len(answer))


@dataclass(slots=True)
class Topic:
    """A topic that a server has. `leader_epoch` is that of all of its partitions."""

    name: str
    topic_id: bytes
    leader_epoch: int
    partitions: int


@dataclass(slots=True)
class World:
    """See the module's docstring. `pace`: how many seconds of the clients' go by in one of ours."""

    port: int
    pace: float = 1.0
    chance: random.Random = field(default_factory=lambda: random.Random(17))
    topics: dict[str, Topic] = field(default_factory=dict)
    #: by api key: how often it has been asked
    asked: Counter[int] = field(default_factory=Counter)
    records: int = 0
    #: of heartbeats that were answered well, in seconds
    latencies_s: list[float] = field(default_factory=list)
    #: how long after its time a heartbeat or commit was sent, the longest
    late_s: float = 0.0
    #: requests as they were sent, by family, where somebody wants to see them
    sent: list[tuple[str, bytes]] | None = None
    _last: dict[int, int] = field(default_factory=dict)

    async def read_versions(self) -> None:
        """Which versions there are."""
        wire = await Wire.open(self.port)
        answer = decoded(18, 3, await wire.ask(frame_of(18, 3, "bench", ApiVersionsRequest("bench", "1"))))
        self._last = {each.api_key: each.max_version for each in answer.api_keys}
        wire.close()

    def version(self, template: Template) -> int:
        """What the client would use: its own, or the newest that the server has."""
        if template.message is None:
            return template.api_version  # asked for without knowing
        return min(template.api_version, self._last.get(template.api_key, template.api_version))

    async def make_topics(self, names: Sequence[str], partitions: int) -> None:
        """Make topics and remember their ids."""
        wire = await Wire.open(self.port)

        async def ask(message: Any, version: int) -> Any:
            api_key = schema_of(type(message)).api_key or 0
            return decoded(api_key, version, await wire.ask(frame_of(api_key, version, "bench", message)))

        made = await ask(CreateTopicsRequest([CreatableTopic(name, partitions, 1) for name in names], 30_000), 5)
        for each in made.topics:
            require(each.error_code, "CreateTopics")
        wanted = MetadataRequest([MetadataRequestTopic(ZERO_UUID, name) for name in names])
        for _ in range(100):
            found = await ask(wanted, 12)
            if not any(each.error_code or len(each.partitions) < partitions for each in found.topics):
                break
            await asyncio.sleep(0.1)
        for each in found.topics:
            require(each.error_code, "Metadata")
            (epoch,) = {partition.leader_epoch for partition in each.partitions}
            self.topics[each.name] = Topic(each.name, each.topic_id, epoch, len(each.partitions))
        wire.close()

    async def sleep(self, seconds: float) -> None:
        """For so many of the clients' seconds."""
        await asyncio.sleep(seconds / self.pace)
