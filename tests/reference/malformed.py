"""Requests of the group family, damaged: cut at every byte, with absurd lengths, with random bytes, with some behind.

All of it is seeded, so the frames are the same every time. Each frame is about groups of its own (`g000017`), so that
what one does has no bearing on the next: what comes back is a function of the frame alone.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from coordinatord.testing.conform import values
from kafka_wire.codecs import encode_message
from kafka_wire.errors import DecodeError, LengthError, TextError
from kafka_wire.headers import RequestHeader, read_request_header, write_request_header
from kafka_wire.registry import codec, versions_of

GROUP = "g000000"
SEED = 20260117
ABSURD_PER_REQUEST = 8
MUTATED_PER_REQUEST = 24
ID_AT = 8
"""What is before: API, version and correlation id. A damaged one of these asks for something else entirely."""

TOPIC = {"name": "t", "topic_id": b"\1" * 16, "partitions": [{"partition_index": 1, "committed_offset": 2}]}
FETCHED = {"name": "t", "topic_id": b"\1" * 16, "partition_indexes": [1, 2]}
MEMBER = {"group_id": GROUP, "member_id": "m", "group_instance_id": "i"}

REQUESTS: dict[int, dict[str, Any]] = {
    8: {**MEMBER, "generation_id_or_member_epoch": 3, "retention_time_ms": -1, "topics": [TOPIC]},
    9: {
        "group_id": GROUP,
        "topics": [{"name": "t", "partition_indexes": [1, 2]}],
        "groups": [{"group_id": GROUP, "member_id": "m", "member_epoch": 1, "topics": [FETCHED]}],
        "require_stable": True,
    },
    10: {"key": GROUP, "key_type": 0, "coordinator_keys": [GROUP, "k"]},
    11: {
        **MEMBER, "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\0\0\0\0\0\0"}], "reason": "why",
    },
    12: {**MEMBER, "generation_id": 1},
    13: {"group_id": GROUP, "member_id": "m", "members": [{"member_id": "m", "group_instance_id": "i", "reason": "r"}]},
    14: {
        **MEMBER, "generation_id": 1, "protocol_type": "consumer", "protocol_name": "range",
        "assignments": [{"member_id": "m", "assignment": b"as"}],
    },
    15: {"groups": [GROUP, "k"], "include_authorized_operations": True},
    16: {"states_filter": ["Dead"], "types_filter": ["classic"]},
    18: {"client_software_name": "soft", "client_software_version": "1.0"},
    42: {"groups_names": [GROUP]},  # one, since Kafka answers in the order of a hash map
    47: {"group_id": GROUP, "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]},
}  # fmt: skip
"""Something in every field, about a group that is not there."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame without its size, and how it came to be."""

    what: str
    data: bytes


def frames() -> list[Frame]:
    """All of them. Each has its own group."""
    chance = random.Random(SEED)
    found = []
    for api_key in REQUESTS:
        versions = versions_of(api_key)
        for version in range(versions.first, versions.last + 1):
            for what, data in _damaged(request_frame(api_key, version), chance):
                own = data.replace(GROUP.encode(), f"g{len(found):06}".encode())
                found.append(Frame(f"{codec(api_key, version).name} v{version} {what}", own))
    return found


def request_frame(api_key: int, version: int) -> bytes:
    """A request in order."""
    used = codec(api_key, version)
    known = {name: value for name, value in REQUESTS[api_key].items() if _exists(used.request, name, version)}
    if api_key == 16 and version < 4:
        known = {}
    out = bytearray()
    write_request_header(RequestHeader(api_key, version, 1, "client"), used.flexible, out)
    return bytes(out + encode_message(values.message(used.request, known), version))


def _exists(request: type[Any], name: str, version: int) -> bool:
    """Whether the version has the field: the encoder refuses what it would have to leave out."""
    return any(f.name == name and version in f.versions for f in values.schema_of(request).fields)


def _damaged(good: bytes, chance: random.Random) -> Iterator[tuple[str, bytes]]:
    yield "in order", good
    yield "with three bytes behind it", good + bytes(3)
    for size in range(len(good)):
        yield f"cut to {size} of {len(good)} bytes", good[:size]
    for _ in range(ABSURD_PER_REQUEST):
        at = chance.randrange(ID_AT, len(good))
        length = chance.choice(
            [b"\x7f\xff", b"\x80\0", b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff\x0f"]
        )
        yield f"{length.hex()} at {at}", good[:at] + length + good[at + len(length) :]
    for _ in range(MUTATED_PER_REQUEST):
        yield _mutated(good, chance)


def _mutated(good: bytes, chance: random.Random) -> tuple[str, bytes]:
    data = bytearray(good)
    done = []
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        at = chance.randrange(ID_AT, len(data))
        match chance.randrange(4):
            case 0:
                data[at] ^= 1 << chance.randrange(8)
                done.append(f"bit flipped at {at}")
            case 1:
                data[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
                done.append(f"{data[at]:#04x} at {at}")
            case 2:
                del data[at]
                data.append(0)  # of the same size, so that not each of them is merely cut
                done.append(f"without byte {at}")
            case _:
                data.insert(at, chance.randrange(256))
                del data[-1]
                done.append(f"one more byte at {at}")
    return ", ".join(done), bytes(data)


_UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_API_VERSIONS = 18
CLOSED = "closed"
NOTHING = "nothing"


def outcome(frame: Frame, answer: bytes | None, port: int) -> str:
    """What came back, as text that can be compared: without the ids and the port that differ from run to run."""
    if answer is None:
        return CLOSED
    if int.from_bytes(frame.data[:2], "big") == _API_VERSIONS:
        return answer[:6].hex()  # what is offered differs, of course
    return _UUID.sub(b"<uuid>", answer.replace(port.to_bytes(4, "big"), b"port")).hex()


LISTED = (
    (TextError, re.compile(""), "a string that is not UTF-8 would become the same as other such strings"),
    (LengthError, re.compile(r"length -\d+ of "), "-1 is null, other negative lengths are damage"),
    (LengthError, re.compile(r"varint \d+ does not fit an int32"), "fewer than no tagged fields is damage"),
    (LengthError, re.compile(r"tag \d+ after tag "), "tags rise"),
)
"""What Kafka reads and we refuse, by the error of our decoder; `stories/malformed_but_read.txt` and
`stories/malformed_tag_counts.txt` tell it with one frame each."""


def listed_difference(frame: Frame) -> str | None:
    """Why we close the connection on a frame that Kafka reads; None when no reason is on the list."""
    key, version = (int.from_bytes(frame.data[at : at + 2], "big") for at in (0, 2))
    used = codec(key, version)
    try:
        _, start = read_request_header(frame.data, 0, len(frame.data), used.flexible)
        used.decode_request(frame.data, start, len(frame.data))
    except DecodeError as error:
        for kind, text, reason in LISTED:
            if isinstance(error, kind) and text.match(str(error)):
                return reason
        return None
    return None
