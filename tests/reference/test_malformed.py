"""Damaged requests: answered or refused as Kafka does it, and they cost us no memory."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinatord.testing.conform.raw_client import Link, RawClient, TcpLink
from kafka_wire.api.api_versions import ApiVersionsRequest
from tests.daemon import running
from tests.reference.broker import KafkaBroker, running_broker
from tests.reference.in_process import HOST, run, running_in_process
from tests.reference.malformed import CLOSED, NOTHING, REQUESTS, Frame, frames, listed_difference, outcome
from tests.reference.record import SETTINGS, coordinator_ready

ANSWER_S = 30.0  # Kafka answers each of them in a moment, or closes; its machine may be busy
FRAMES = frames()


class Asker:
    """Sends one frame after the other, on the same connection until it is closed."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.link: Link | None = None

    async def connect(self) -> Link:
        return await TcpLink.connect(HOST, self.port)

    async def ask(self, frame: Frame) -> str:
        if self.link is None:
            self.link = await self.connect()
        link = self.link
        link.write(len(frame.data).to_bytes(4, "big") + frame.data)
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await link.read_frame()
        except TimeoutError:
            self.drop()
            return NOTHING
        if answer is None:
            self.drop()
        return outcome(frame, answer, self.port)

    def drop(self) -> None:
        if self.link is not None:
            self.link.close()
            self.link = None


async def ask_ours(directory: Path) -> list[str]:
    """What our daemon says to each frame; to be run by `in_process.run`."""
    async with running_in_process(directory, SETTINGS) as ours:
        asker = Asker(ours.port)

        async def connect() -> Link:
            return (await ours.connect("raw")).link

        asker.connect = connect  # type: ignore[method-assign]
        return [await asker.ask(frame) for frame in FRAMES]


@pytest.fixture(scope="module")
def kafka(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with running_broker(kafka_libs, tmp_path_factory.mktemp("kafka"), SETTINGS) as broker:
        asyncio.run(coordinator_ready(broker))
        yield broker


@pytest.mark.reference
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_damaged_requests_are_answered_as_by_kafka(kafka: KafkaBroker, tmp_path: Path) -> None:
    async def ask_kafka() -> list[str]:
        asker = Asker(kafka.port)
        return [await asker.ask(frame) for frame in FRAMES]

    ours, kafkas = run(ask_ours(tmp_path)), asyncio.run(ask_kafka())
    differences, listed = [], Counter[str]()
    for frame, theirs, our in zip(FRAMES, kafkas, ours, strict=True):
        if theirs == our:
            continue
        reason = listed_difference(frame) if our == CLOSED else None
        if reason is None:
            differences.append(f"{frame.what}\n  {frame.data.hex()}\n  Kafka: {theirs}\n  ours:  {our}")
        else:
            listed[reason] += 1
    print(f"{len(FRAMES)} frames, {kafkas.count(CLOSED)} closed by Kafka; we are stricter: {dict(listed)}")
    assert differences == [], f"{len(differences)}:\n" + "\n".join(differences[:40])


@pytest.mark.reference
@pytest.mark.slow
@pytest.mark.parametrize("version", range(6))
def test_every_version_that_kafka_serves_is_served(kafka: KafkaBroker, tmp_path: Path, version: int) -> None:
    """ApiVersions, of the group family and itself: the same ranges, in every version of the answer."""
    request = ApiVersionsRequest("tests", "1")

    async def ask_kafka() -> Any:
        return await (await RawClient.connect(HOST, kafka.port)).ask(request, version)

    async def ask_ours() -> Any:
        async with running_in_process(tmp_path, SETTINGS) as ours:
            return await (await ours.connect("raw")).ask(request, version)

    theirs, our = asyncio.run(ask_kafka()), run(ask_ours())
    ranges = [
        {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys if one.api_key in REQUESTS}
        for answer in (theirs, our)
    ]
    assert ranges[0] == ranges[1]
    assert set(ranges[0]) == set(REQUESTS)
    assert our.error_code == theirs.error_code == 0


def test_damaged_requests_never_fail_a_handler(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever comes, it is answered or refused: no frame hangs, none makes us stumble."""
    ours = run(ask_ours(tmp_path))
    in_order = [answer for frame, answer in zip(FRAMES, ours, strict=True) if frame.what.endswith("in order")]
    assert CLOSED not in in_order
    assert NOTHING not in ours
    assert "a handler failed" not in capsys.readouterr().out
    cut = [answer for frame, answer in zip(FRAMES, ours, strict=True) if "cut to" in frame.what]
    assert set(cut) == {CLOSED}


MIB = 1 << 20
SIZES = [100 * MIB, 99 * MIB, 1 << 30, 0x7FFFFFFF]
"""As the size of a frame: the largest that is allowed, one below, and more than that."""


def test_absurd_lengths_cost_no_memory(tmp_path: Path) -> None:
    with running(tmp_path, SETTINGS) as daemon:
        port = int(daemon.bootstrap.rpartition(":")[2])
        _throw(port, FRAMES[:500])  # code and caches that the first requests need
        before = daemon.resident_bytes()
        waiting = [_announce(port, size) for _ in range(50) for size in SIZES]
        _throw(port, FRAMES)
        grown = daemon.resident_bytes() - before
        for client in waiting:
            client.close()
        assert grown < 24 * MIB, f"{grown / MIB:.1f} MiB"


def _announce(port: int, size: int) -> socket.socket:
    """A connection that promises a frame and sends a few bytes of it."""
    client = socket.create_connection((HOST, port), timeout=10)
    client.sendall(size.to_bytes(4, "big") + b"\0\x0b\0\x09abcd")
    return client


def _throw(port: int, some: list[Frame]) -> None:
    """Send frames and wait for what each brings: an answer or the end of the connection."""
    client = None
    for frame in some:
        client = client or socket.create_connection((HOST, port), timeout=10)
        client.sendall(len(frame.data).to_bytes(4, "big") + frame.data)
        head = b""
        with contextlib.suppress(ConnectionError):
            head = _received(client, 4)
            _received(client, int.from_bytes(head, "big") if len(head) == 4 else 0)
        if len(head) < 4:
            client.close()
            client = None
    if client is not None:
        client.close()


def _received(client: socket.socket, size: int) -> bytes:
    """So many bytes, which may come in pieces; fewer where the connection ends."""
    data = b""
    while len(data) < size and (more := client.recv(size - len(data))):
        data += more
    return data
