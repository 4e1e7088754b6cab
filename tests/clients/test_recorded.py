"""What tests/golden/traffic says it holds, and how it is written down."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kafka_wire.errors import UnknownApiError
from kafka_wire.headers import read_request_header, write_request_header
from kafka_wire.registry import codec
from tests.clients import recorded
from tests.clients.recorded import Recorded, Request
from tests.clients.recording_proxy import Frame, RecordingProxy
from tests.clients.traffic import FAMILIES, lines_of, of_family

MOST_BYTES = 300_000
STEADY_S = 600
JOIN, HEARTBEAT, LEAVE, COMMIT, API_VERSIONS = 11, 12, 13, 8, 18
ALL = [(family, phase) for family in sorted(FAMILIES) for phase in recorded.PHASES]


def counted(phase: Recorded) -> Counter[int]:
    return Counter(request.api_key for request in phase.requests)


def test_all_families_are_there_and_are_small() -> None:
    assert recorded.families() == sorted(FAMILIES)
    assert sum(path.stat().st_size for path in recorded.TRAFFIC.iterdir()) < MOST_BYTES


@pytest.mark.parametrize(("family", "phase"), ALL)
def test_each_request_is_what_our_codec_writes(family: str, phase: str) -> None:
    """To the byte: so a request with other ids and offsets is what the client would have sent."""
    of_a_later_version = 0
    for request in recorded.read(family, phase).requests:
        try:
            used = codec(request.api_key, request.api_version)
        except UnknownApiError:
            assert (request.api_key, request.api_version) == (API_VERSIONS, 5)
            of_a_later_version += 1
            continue
        header, start = read_request_header(request.data, 0, len(request.data), used.flexible)
        out = bytearray()
        write_request_header(header, used.flexible, out)
        used.encode_request(used.decode_request(request.data, start, len(request.data)), out)
        assert bytes(out) == request.data
    assert of_a_later_version == 0 or (family in ("java", "franz-go") and phase == "rebalance")


@pytest.mark.parametrize(("family", "phase"), ALL)
def test_members_are_told_apart(family: str, phase: str) -> None:
    """By client id, and no connection is of two."""
    read = recorded.read(family, phase)
    times = [request.at_ms for request in read.requests]
    assert times == sorted(times)
    owners = {(request.connection, request.client_id) for request in read.requests}
    assert len(owners) == len({connection for connection, _ in owners})
    assert {client_id.rpartition("-")[0] for _, client_id in owners} == {family}


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_phases_are_what_their_names_say(family: str) -> None:
    rebalance, steady, close = (recorded.read(family, phase) for phase in recorded.PHASES)
    assert counted(rebalance)[JOIN] >= 10, "three, then what each change asks of those who stay"
    assert counted(rebalance)[LEAVE] == 1, "one leaves, one is killed"
    assert steady.origin["ended_ms"] - steady.origin["began_ms"] == pytest.approx(STEADY_S * 1000, abs=1000)
    assert counted(steady)[JOIN] == counted(steady)[LEAVE] == 0
    assert counted(steady)[HEARTBEAT] == pytest.approx(3 * STEADY_S / 3, abs=10)
    assert counted(steady)[COMMIT] == pytest.approx(3 * STEADY_S / 5, abs=5)
    assert counted(close)[LEAVE] == 3


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    lines = [(0.04, 1, recorded.OPENED), (3.25, 1, "000c0004"), (9.0, 1, recorded.CLOSED)]
    recorded.write(recorded.path_of("some-client", "close", tmp_path), {"client": "some 1.0"}, lines)
    assert recorded.families(tmp_path) == ["some-client"]
    read = recorded.read("some-client", "close", tmp_path)
    assert read.origin == {"client": "some 1.0"}
    assert read.requests == [Request(3.2, 1, b"\0\x0c\0\x04")]
    assert (read.opened, read.closed) == ({1: 0.0}, {1: 9.0})


def test_a_phase_has_what_its_family_sent_in_it() -> None:
    def frame(client_id: bytes, at_s: float, connection: int = 1, direction: str = "request") -> Frame:
        data = b"\0\x0c\0\x04\0\0\0\x01" + len(client_id).to_bytes(2, "big") + client_id
        return Frame(12, 4, direction, data, connection, at_s)

    mine = frame(b"java-1", 11.0)
    frames = [
        mine,
        frame(b"java-1", 13.0),
        frame(b"java-1", 11.1, direction="response"),
        frame(b"kafka-python-1", 11.2, 2),
        frame(b"producer", 11.3, 3),
    ]
    proxy = RecordingProxy("127.0.0.1", 0, "127.0.0.1", 0)
    proxy.opened, proxy.closed = {1: 10.5, 2: 10.6, 3: 10.7}, {1: 12.5, 2: 12.6}
    found = lines_of(proxy, of_family(frames, "java"), 10.0, 10.0, 12.0)
    assert found == [(500.0, 1, recorded.OPENED), (1000.0, 1, mine.data.hex())]
