"""The two quick decoders of a start are held against the ordinary ones, on sound and on mutated bytes."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_wire.codecs import encoder
from kafka_wire.errors import DecodeError
from kafka_wire.records.batch import HEADER_BYTES, BatchBuilder, read_header
from kafka_wire.records.key_values import key_values
from kafka_wire.records.keys import decode_value, encode_key, encode_value
from kafka_wire.records.newest import Newest, gather
from kafka_wire.records.offset_values import decode_offset_value
from kafka_wire.records.offsets import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from tests.protocol.arbitrary import messages

quick = settings(max_examples=150, derandomize=True, database=None, deadline=None,
                 suppress_health_check=(HealthCheck.too_slow,))  # fmt: skip
ANY_KEY = OffsetCommitKey("g", "t", 0)

KEYS = st.one_of(
    st.builds(
        lambda group, partition: encode_key(OffsetCommitKey(group, "t", partition)),
        st.sampled_from("gh"),
        st.integers(0, 3),
    ),
    st.sampled_from([None, b"", b"\0", b"\0\1", b"\0\2\0\1g", b"\0\3\0\1g", b"\1\1" + bytes(20), b"\0\0" + bytes(20)]),
)
RECORDS = st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=200)), min_size=1, max_size=30)


def _outcome(decode: object, *arguments: object) -> object:
    try:
        return decode(*arguments)  # type: ignore[operator]
    except DecodeError as error:
        return type(error)


@quick
@given(st.sampled_from(range(5)), st.data(), st.integers(0, 60), st.integers(0, 255))
def test_a_value_is_what_the_compiled_decoder_says(version: int, data: st.DataObject, at: int, byte: int) -> None:
    value = data.draw(messages(OffsetCommitValue, version))
    out = bytearray((0, version))
    encoder(OffsetCommitValue, version)(value, out)
    sound = bytes(out)
    mutated = bytearray(out)
    mutated[at % len(mutated)] = byte
    for each in (sound, bytes(mutated), sound[: at % len(sound)], sound + bytes([byte])):
        assert _outcome(decode_offset_value, each, {}) == _outcome(decode_value, ANY_KEY, each)


@quick
@given(
    st.integers(-5, 1 << 62), st.integers(-1, 1 << 62), st.sampled_from([bytes(16), b"i" * 16]), st.text(max_size=130)
)
def test_the_common_shapes_of_a_value(offset: int, timestamp: int, topic_id: bytes, metadata: str) -> None:
    data = encode_value(OffsetCommitValue(offset, 7, metadata, timestamp, -1, topic_id))
    assert decode_offset_value(data, {}) == decode_value(ANY_KEY, data)


def test_topic_ids_are_shared() -> None:
    known: dict[bytes, bytes] = {}
    data = [encode_value(OffsetCommitValue(number, 0, "", 0, -1, b"i" * 16)) for number in range(2)]
    first, second = (decode_offset_value(each, known).topic_id for each in data)
    assert first is second


def _gathered(batch: bytes, end: int, count: int, slices: int) -> list[tuple[bytes | None, bytes | None]]:
    """Every record as `gather` shows it: one by one, so that nothing is overwritten."""
    found: list[tuple[bytes | None, bytes | None]] = []
    at, done = HEADER_BYTES, 0
    while done < count:
        newest: Newest = {}
        at, taken, odd = gather(batch, at, end, min(slices, count - done), newest)
        found += newest.items()
        if odd is not None:
            found.append(odd)
        done += taken
    assert at == end
    return found


@quick
@given(RECORDS, st.integers(0, 1 << 40))
def test_gathering_one_by_one_shows_every_record(
    records: list[tuple[bytes | None, bytes | None]], later_ms: int
) -> None:
    builder = BatchBuilder()
    builder.extend(records[:1], 1_000)
    for key, value in records[1:]:
        builder.add(key, value, 1_000 + later_ms, [("h", b"x")] if value and len(value) % 3 == 0 else ())
    batch = bytes(builder.finish())
    header = read_header(batch)
    expected = [(key, value) for _, _, key, value in key_values(batch, 0, header)]
    assert _gathered(batch, len(batch), len(records), 1) == expected == records


@quick
@given(RECORDS, st.data())
def test_gathering_mutated_bytes_fails_as_reading_them_does(
    records: list[tuple[bytes | None, bytes | None]], data: st.DataObject
) -> None:
    builder = BatchBuilder()
    builder.extend(records, 1_000)
    batch = bytearray(builder.finish())
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(HEADER_BYTES, len(batch) - 1))] = data.draw(st.integers(0, 255))
    mutated = bytes(batch)
    header = read_header(mutated)
    try:
        expected = [(key, value) for _, _, key, value in key_values(mutated, 0, header)]
    except DecodeError:
        expected = None
    try:
        found = _gathered(mutated + b"behind it", len(mutated), len(records), 1)
    except (DecodeError, AssertionError):
        found = None
    assert found == expected


def test_what_is_odd_is_handed_back() -> None:
    key = encode_key(OffsetCommitKey("g", "t", 0))
    other = encode_key(GroupMetadataKey("g"))
    builder = BatchBuilder()
    builder.extend([(key, b"1"), (key, b"2"), (other, b"m"), (key, None), (key, None), (key, b"3")], 0)
    batch = bytes(builder.finish())
    newest: Newest = {}
    at, done, odd = gather(batch, HEADER_BYTES, len(batch), 6, newest)
    assert (done, odd, newest) == (3, (other, b"m"), {key: b"2"})
    at, done, odd = gather(batch, at, len(batch), 3, newest)
    assert (done, odd, newest) == (1, (key, None), {key: b"2"})
    newest.clear()
    at, done, odd = gather(batch, at, len(batch), 2, newest)
    assert (at, done, odd, newest) == (len(batch), 2, None, {key: b"3"})
