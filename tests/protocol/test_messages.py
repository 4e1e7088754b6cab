"""Every message in every version: generated functions and construct tree write the same bytes, read them back as the
same value, and refuse the same bytes, with nothing but a DecodeError."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kafka_wire import reference, registry
from kafka_wire.api.delete_groups import DeleteGroupsRequest
from kafka_wire.api.describe_topic_partitions import DescribeTopicPartitionsRequest
from kafka_wire.codecs import decoder, encode_message
from kafka_wire.errors import DecodeError, LengthError, TrailingBytesError
from kafka_wire.records.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka_wire.schema import schema_of
from tests.protocol.arbitrary import arbitrary, messages, seeded_messages
from tests.protocol.messages import all_messages, every_version, name_of

CASES = every_version()
REQUESTS = {registry.messages(api_key)[0] for api_key in registry.API_NAMES}
EMBEDDED = (ConsumerProtocolSubscription, ConsumerProtocolAssignment)
"""Whose later versions are read as the latest that is known."""
# Bytes around a message, as in a connection's buffer: a decoder that reads past its end would take them for its own.
AHEAD, BEHIND = b"\x01\x7f\x03", b"\x01\x02\x00\x01" * 8

quick = settings(
    max_examples=50,
    derandomize=True,
    database=None,
    deadline=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example),
)


def read(cls: type[Any], version: int, data: bytes) -> Any:
    """What both codecs make of `data`, which they must agree on: a message, or DecodeError for a refusal."""
    outcomes: list[Any] = []
    buffer = AHEAD + data + BEHIND
    for decode in (
        lambda: decoder(cls, version)(data, 0, len(data)),
        lambda: decoder(cls, version)(buffer, len(AHEAD), len(AHEAD) + len(data)),
        lambda: reference.decode(cls, version, data)[0],
    ):
        try:
            outcomes.append(decode())
        except DecodeError:
            outcomes.append(DecodeError)
    assert outcomes[0] == outcomes[1], f"what follows the message changes its meaning: {data.hex()}"
    assert outcomes[0] == outcomes[2], f"generated and reference codec differ: {data.hex()}"
    return outcomes[0]


@pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)
@quick
@given(data=st.data())
def test_what_is_written_is_read_back(cls: type[Any], data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(list(schema_of(cls).versions)), "version")
    message = data.draw(messages(cls, version), "message")
    encoded = encode_message(message, version)
    assert reference.encode(message, version) == encoded
    assert read(cls, version, encoded) == message


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_no_version_loses_or_adds_anything(case: tuple[type[Any], int]) -> None:
    cls, version = case
    for message in seeded_messages(cls, version, 8):
        encoded = encode_message(message, version)
        assert reference.encode(message, version) == encoded
        assert read(cls, version, encoded) == message


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_a_part_of_a_message_is_refused(case: tuple[type[Any], int]) -> None:
    cls, version = case
    encoded = shortest_of(cls, version, 3)
    for cut in range(len(encoded)):
        assert read(cls, version, encoded[:cut]) is DecodeError, cut


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_what_is_behind_a_message_is_left_unread_where_it_may_be_there(case: tuple[type[Any], int]) -> None:
    cls, version = case
    for message in seeded_messages(cls, version, 3):
        encoded = encode_message(message, version)
        for behind in (b"\x00", bytes(3), b"\xff" * 7, b"\x00" + encoded):
            expected = message if cls in (*REQUESTS, *EMBEDDED) else DecodeError
            assert read(cls, version, encoded + behind) == expected


def test_of_requests_it_may_be_there() -> None:
    """And not of responses: tests decode ours, and see that nothing is behind them."""
    used = registry.codec(12, 4)
    request, response = encode_message(used.request(), 4) + b"\x00", encode_message(used.response(), 4) + b"\x00"
    assert used.decode_request(request, 0, len(request)) == used.request()
    with pytest.raises(TrailingBytesError):
        used.decode_response(response, 0, len(response))


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_codecs_agree_on_what_is_damaged(case: tuple[type[Any], int]) -> None:
    cls, version = case
    rng = random.Random(f"damage {name_of(case)}")
    encoded = shortest_of(cls, version, 5)
    for _ in range(40):
        data = damaged(encoded, rng)
        read(cls, version, data)


@pytest.mark.parametrize("marker", [0x80, 0xFE, 0xFF])
def test_a_struct_with_any_negative_marker_is_null(marker: int) -> None:
    encoded = encode_message(DescribeTopicPartitionsRequest(), 0)
    assert encoded[-2:] == b"\xff\0"
    data = encoded[:-2] + bytes((marker, 0))
    assert read(DescribeTopicPartitionsRequest, 0, data) == DescribeTopicPartitionsRequest()


@pytest.mark.parametrize("count", [4, 5, 1 << 30])
def test_more_elements_than_bytes_are_refused_before_they_are_read(count: int) -> None:
    """Also where the buffer goes on behind the message: what the next one says is no element of this one."""
    data = count.to_bytes(4, "big") + b"\0\1g" + b"\0\0" * 20
    with pytest.raises(LengthError, match=f"{count} elements of groups_names"):
        decoder(DeleteGroupsRequest, 0)(data, 0, 7)


@pytest.mark.parametrize("case", [case for case in CASES if case[1] in schema_of(case[0]).flexible], ids=name_of)
def test_tags_that_nobody_knows_are_stepped_over(case: tuple[type[Any], int]) -> None:
    """A newer client may add tagged fields (KIP-482); they must rise, fit, and be there once."""
    cls, version = case
    plain = cls()
    encoded = encode_message(plain, version)
    assert encoded[-1] == 0, "a message of defaults has no tagged fields"
    body = encoded[:-1]
    assert read(cls, version, body + b"\x01\x63\x03abc") == plain
    assert read(cls, version, body + b"\x02\x63\x00\xe3\x01\x81\x01" + bytes(129)) == plain
    refused = {
        "falling tags": b"\x02\x64\x00\x63\x00",
        "the same tag twice": b"\x02\x63\x00\x63\x00",
        "longer than the message": b"\x01\x63\x04abc",
        "fewer than announced": b"\x02\x63\x03abc",
        "a tag of six bytes": b"\x01\x80\x80\x80\x80\x80\x00\x00",
        "a size beyond int32": b"\x01\x63\xff\xff\xff\xff\x0f",
    }
    for why, tags in refused.items():
        assert read(cls, version, body + tags) is DecodeError, why


@pytest.mark.parametrize("case", [case for case in CASES if case[1] in schema_of(case[0]).flexible], ids=name_of)
def test_a_string_of_a_request_has_no_more_bytes_than_a_plain_one_can_have(case: tuple[type[Any], int]) -> None:
    """As Kafka's generated decoders see to. Records and answers are ours, and are read as they were written."""
    cls, version = case
    longest = OneLong(32_767, -1)
    arbitrary(cls, version, longest)
    for number in range(longest.count):
        at_most, beyond = (arbitrary(cls, version, OneLong(size, number)) for size in (32_767, 32_768))
        assert read(cls, version, encode_message(at_most, version)) == at_most
        data = encode_message(beyond, version)
        assert read(cls, version, data) == (DecodeError if cls in REQUESTS else beyond)
        if cls in REQUESTS:
            for refuse in (decoder(cls, version), lambda data, *_: reference.decode(cls, version, data)):
                with pytest.raises(LengthError, match="32768"):
                    refuse(data, 0, len(data))


class OneLong:
    """Choices of something in every field; the string with this number is long, in bytes."""

    def __init__(self, size: int, number: int) -> None:
        self.size = size
        self.number = number
        self.count = 0

    def integer(self, low: int, high: int) -> int:
        return min(1, high)

    def one_in(self, n: int) -> bool:
        return False

    def text(self) -> str:
        self.count += 1
        return "é" * (self.size // 2) + "x" * (self.size % 2) if self.count == self.number + 1 else "a"

    def binary(self, size: int | None = None) -> bytes:
        return bytes(1 if size is None else size)


def shortest_of(cls: type[Any], version: int, count: int) -> bytes:
    """The shortest of a few messages that have something in them: cutting it everywhere stays cheap."""
    encoded = sorted((encode_message(m, version) for m in seeded_messages(cls, version, count)), key=len)
    return next((data for data in encoded if len(data) > 20), encoded[-1])


def damaged(data: bytes, rng: random.Random) -> bytes:
    """`data` with one to three bytes changed, lost or added; lengths and counts are what breaks most."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(out) + 1)
        kind = rng.randrange(4)
        if kind == 0 or at == len(out):
            out[at:at] = rng.randbytes(rng.randint(1, 5))
        elif kind == 1:
            del out[at : at + rng.randint(1, 4)]
        else:
            out[at] = rng.choice((0x00, 0x01, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(out)
