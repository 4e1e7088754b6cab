"""The columnar decoder against the decoders of `protocol`, record by record: the same rows, for anything at all."""

from __future__ import annotations

import json
import random
import struct
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from crc32c import crc32c

from coordinatord.monitoring.offsets_log.decode import chunk, compiling, kernels
from coordinatord.monitoring.offsets_log.decode.chunk import decode
from coordinatord.monitoring.offsets_log.decode.columns import SECRET
from coordinatord.monitoring.offsets_log.decode.projection import Names, Wanted
from coordinatord.monitoring.offsets_log.decode.row_types import KINDS, OFFSET_COMMITS, QUARANTINE
from kafka_wire.codecs import decoder, encode_message
from kafka_wire.errors import DecodeError
from kafka_wire.records.batch import build_batch, iterate_batches, write_crc
from kafka_wire.records.compression import Compression
from kafka_wire.records.offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kafka_wire.schema import schema_of
from tests.monitoring.pipeline.logs import (
    ALL,
    START_MS,
    arbitrary_batch,
    arbitrary_log,
    count,
    encoded,
    mutated,
    rows_of,
)
from tests.protocol.arbitrary import Seeded, arbitrary, seeded_messages

BASE = 1_000_000
compiling.compile_loops()  # the tests of single loops are of the compiled ones, as in use


def array(data: bytes | bytearray) -> kernels.Bytes:
    return np.frombuffer(bytearray(data), np.uint8)


def both(data: bytes | bytearray, wanted: Wanted = ALL) -> tuple[dict[str, list[dict[str, Any]]], chunk.Decoded]:
    """Rows of `data` by both roads, which must be the same, and how far they came."""
    compiled, plain = (decode(array(data), 0, len(data), BASE, wanted, compiled=way) for way in (True, False))
    assert (compiled.at, compiled.ended) == (plain.at, plain.ended)
    assert (compiled.batches, compiled.records) == (plain.batches, plain.records)
    rows = rows_of(compiled.tables)
    assert rows == rows_of(plain.tables)
    for kind, batches in (*compiled.tables.items(), *plain.tables.items()):
        assert kind in wanted.kinds
        for batch in batches:
            batch.validate(full=True)
            assert batch.schema.names == KINDS[kind].schema.names
    return rows, compiled


@pytest.mark.parametrize("seed", range(30))
def test_any_log_makes_the_same_rows(seed: int) -> None:
    rng = random.Random(seed)
    log = arbitrary_log(rng, rng.choice((1, 5, 40)))
    rows, decoded = both(log)
    assert decoded.at == len(log)
    assert count(rows) == decoded.records == sum(header.record_count for _, header in iterate_batches(log))


@pytest.mark.parametrize("seed", range(30))
def test_any_damage_is_met_in_the_same_way(seed: int) -> None:
    """Bytes changed anywhere, with the CRC put right again or not; logs cut anywhere."""
    rng = random.Random(1000 + seed)
    log = bytearray()
    for _ in range(12):
        batch = arbitrary_batch(rng, len(log))
        kind = rng.randrange(4)
        if kind == 1:
            batch = bytearray(mutated(bytes(batch), rng))
        elif kind == 2:
            batch[21:] = mutated(bytes(batch[21:]), rng)
            write_crc(batch)
        log += batch
    both(log[: rng.randrange(len(log))] if rng.randrange(2) else log)


@pytest.mark.parametrize("cls", [OffsetCommitKey, OffsetCommitValue])
def test_programs_take_what_the_compiled_decoders_take(cls: type[Any]) -> None:
    """Each message in each version, whole, cut and changed: accepted by both with the same values, or by neither."""
    programs = chunk.KEY if cls is OffsetCommitKey else chunk.VALUE
    rng = random.Random(cls.__name__)
    accepted = refused = 0
    for version in schema_of(cls).versions:
        messages = seeded_messages(cls, version, 20)
        whole = [encode_message(m, version) for m in messages]
        cases = [*whole, *(data[:n] for data in whole if len(data) < 300 for n in range(len(data)))]
        cases += [mutated(rng.choice(whole), rng) for _ in range(2000)]
        buf = array(b"".join(cases))
        ends = np.cumsum([len(case) for case in cases])
        ran = chunk.Ran(programs, buf, ends - [len(case) for case in cases], ends, np.full(len(cases), version))
        for row, case in enumerate(cases):
            try:
                message = decoder(cls, version)(case, 0, len(case))
            except DecodeError:
                assert ran.bad[row], case.hex()
                refused += 1
                continue
            assert not ran.bad[row], case.hex()
            accepted += 1
            for name in programs.ints:
                assert ran.ints(name)[row] == getattr(message, name)
            for name in programs.texts:
                at, end = (column[row] for column in ran.texts(name))
                text = getattr(message, name)
                found = bytes(16) if at < 0 and name == "topic_id" else buf[at:end].tobytes()
                assert found == (text.encode() if isinstance(text, str) else text)
    assert accepted > 100
    assert refused > 1000


def test_crc_is_the_libraries() -> None:
    rng = random.Random(3)
    for size in (0, 1, 7, 8, 9, 63, 64, 1000):
        data = rng.randbytes(size)
        assert kernels._crc32c(array(b"ab" + data + b"c"), 2, 2 + size) == crc32c(data)


def test_text_that_is_not_utf8_is_refused_as_python_refuses_it() -> None:
    rng = random.Random(4)
    cases = [rng.randbytes(rng.randrange(1, 6)) for _ in range(3000)]
    cases += ["aé☃𝄞".encode()[:n] for n in range(11)]
    cases += [
        bytes([0xED, 0xA0, 0x80]),
        bytes([0xF4, 0x90, 0x80, 0x80]),
        bytes([0xC0, 0x80]),
        bytes([0xE0, 0x80, 0x80]),
    ]
    cases += [
        chr(c).encode("utf-8", "surrogatepass")
        for c in (0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xD800, 0xDFFF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF)
    ]
    for case in cases:
        try:
            case.decode()
            sound = True
        except UnicodeDecodeError:
            sound = False
        assert kernels.utf8(array(case or b"x"), 0, len(case)) == sound, case.hex()


def commits(groups: list[str], topic: str = "t", value: bool = True) -> list[tuple[bytes, bytes | None]]:
    message = OffsetCommitValue(5, 2, "", START_MS) if value else None
    return [encoded(1, 4, OffsetCommitKey(group, topic, number), message) for number, group in enumerate(groups)]


def test_columns_of_a_commit() -> None:
    """Units, nulls and names, as the README has them."""
    topic_id = bytes(range(16))
    key = OffsetCommitKey("g", "t", 3)
    records = [
        encoded(1, 4, key, OffsetCommitValue(77, 5, "note", START_MS, -1, topic_id)),
        encoded(1, 1, key, OffsetCommitValue(78, -1, "", START_MS + 1, START_MS + 9)),
        encoded(1, 4, key, None),
    ]
    rows, _ = both(build_batch(records, START_MS + 2, 100))
    first, second, third = rows[OFFSET_COMMITS]
    assert first == {
        "log_partition": 7, "log_offset": 100, "timestamp_ms": START_MS + 2, "transactional": False,
        "producer_id": None, "producer_epoch": None, "record_bytes": sum(map(len, records[0])), "tombstone": False,
        "value_version": 4, "group_id": "g", "topic": "t", "partition": 3, "committed_offset": 77, "leader_epoch": 5,
        "metadata": "note", "commit_timestamp_ms": START_MS, "expire_timestamp_ms": None,
        "topic_id": "AAECAwQFBgcICQoLDA0ODw",
    }  # fmt: skip
    assert (second["value_version"], second["leader_epoch"], second["topic_id"]) == (1, None, None)
    assert second["expire_timestamp_ms"] == START_MS + 9
    assert third["tombstone"]
    assert third["group_id"] == "g"
    assert {third[name] for name in ("committed_offset", "metadata", "commit_timestamp_ms", "value_version")} == {None}


def test_choices_prune() -> None:
    names = ["pay-1", "pay-2", "other"] * 5
    data = build_batch([*commits(names), *commits(names, "u", value=False)], START_MS, 0)
    only = Wanted(frozenset({OFFSET_COMMITS}), groups=(Names(["pay-*"]),), topics=(Names(["t"]),))
    rows, _ = both(data, only)
    assert {row["group_id"] for row in rows[OFFSET_COMMITS]} == {"pay-1", "pay-2"}
    assert len(rows[OFFSET_COMMITS]) == 10
    rows, _ = both(data, Wanted(groups=(Names(["pay-*"]), Names(["pay-1", "other"]))))
    assert {row["group_id"] for row in rows[OFFSET_COMMITS]} == {"pay-1"}
    rows, _ = both(data, Wanted(first_offset=3, next_offset=6))
    assert [row["log_offset"] for row in rows[OFFSET_COMMITS]] == [3, 4, 5]
    assert both(data, Wanted(frozenset({"group_generations"})))[0] == {}


def test_a_batch_of_many_bytes_does_not_become_memory() -> None:
    """A step ends where decompressed records would pass its limit; the next goes on with the next batch."""
    records = commits(["g" * 1000] * 4000)
    batch = build_batch(records, START_MS, 0, compression=Compression.ZSTD)
    data = array(b"".join([batch] * 20))
    steps = found = at = 0
    while at < len(data):
        decoded = decode(data, at, len(data), 0, ALL, compiled=True)
        assert decoded.at > at
        at, steps, found = decoded.at, steps + 1, found + decoded.records
    assert found == 20 * 4000
    assert steps > 1


def test_a_bomb_is_quarantined() -> None:
    batch = build_batch([(b"\0\1", bytes(129 << 20))], START_MS, 0, compression=Compression.GZIP)
    decoded = decode(array(batch), 0, len(batch), BASE, ALL, compiled=True)
    (row,) = rows_of(decoded.tables)[QUARANTINE]
    assert row["level"] == "batch"
    assert "when decompressed" in row["reason"]
    assert (row["source"], row["position"], row["byte_count"]) == ("here", BASE, len(batch))
    assert row["bytes"] == bytes(batch)


def test_a_record_outside_its_batch_is_no_record_of_it() -> None:
    batch = build_batch(commits(["a", "b"]), START_MS, 10)
    struct.pack_into(">i", batch, 23, 0)  # the last offset delta, below that of the second record
    write_crc(batch)
    rows, _ = both(batch)
    (row,) = rows[QUARANTINE]
    assert row["reason"] == "a record of offset 11 is in the batch 10 to 10"


def test_members_of_another_protocol_type_and_damaged_ones() -> None:
    def group(protocol_type: str, subscription: bytes, assignment: bytes) -> tuple[bytes, bytes | None]:
        member = MemberMetadata("m", None, "c", "/h", 1, 2, subscription, assignment)
        value = GroupMetadataValue(protocol_type, 4, "range", "m", START_MS, [member])
        return encoded(2, 3, GroupMetadataKey("g"), value)

    sound = b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"
    data = build_batch(
        [group("connect", b"{}", b"x"), group("consumer", sound, b""), group("consumer", sound, b"\0\0\0")], START_MS
    )
    rows, _ = both(data)
    connect, empty, damaged = (row["members"][0] for row in rows["group_generations"])
    assert (connect["subscription"], connect["subscription_bytes"], connect["assignment_bytes"]) == (None, b"{}", b"x")
    assert empty["subscription"]["topics"] == ["t"]
    assert (empty["assignment"], empty["assignment_bytes"]) == (None, b"")
    assert (damaged["assignment"], damaged["assignment_bytes"]) == (None, b"\0\0\0")
    (row,) = rows[QUARANTINE]
    assert (row["level"], row["log_offset"], row["bytes"]) == ("member", 2, b"\0\0\0")
    assert row["reason"].startswith("assignment of member m: ")


def test_seeded_records_have_every_kind() -> None:
    """What the comparisons above compare: every table, every version of a commit."""
    rng = random.Random(5)
    found: dict[str, set[Any]] = {kind: set() for kind in KINDS}
    for _ in range(40):
        log = arbitrary_log(rng, 40)
        for kind, rows in rows_of(decode(array(log), 0, len(log), 0, ALL).tables).items():
            found[kind] |= {row.get("value_version", 0) for row in rows}
    assert all(found.values()), [kind for kind, versions in found.items() if not versions]
    assert found[OFFSET_COMMITS] >= {0, 1, 2, 3, 4, None}
    assert isinstance(arbitrary(OffsetCommitKey, 0, Seeded(rng)), OffsetCommitKey)


@pytest.mark.parametrize("first_offset", [0, 5, 10, 11])
@pytest.mark.parametrize("sound", [True, False])
def test_a_batch_that_ends_before_it_begins_is_no_less_there_for_a_first_offset(first_offset: int, sound: bool) -> None:
    data = bytearray(build_batch([(b"k", b"v")], START_MS, base_offset=10))
    struct.pack_into(">i", data, 23, -7)
    if sound:
        write_crc(data)
    behind = build_batch([(b"k", b"v")], START_MS, base_offset=11)
    rows, _ = both(data + behind, Wanted(first_offset=first_offset))
    quarantined = [row["log_offset"] for row in rows[QUARANTINE]]
    assert quarantined == ([10, 11] if first_offset <= 10 else [11]), "the record behind it is of no known type"


def test_texts_are_hashed_as_python_hashes_them() -> None:
    """SipHash-1-3, with a secret of zeros if PYTHONHASHSEED is 0; otherwise anybody could choose texts that collide."""
    if sys.hash_info.algorithm != "siphash13":
        pytest.skip("this Python hashes otherwise")
    data = bytes(range(1, 40))
    program = f"data = {data!r}; print([hash(data[:size]) for size in range(1, 40)])"
    told = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=True
    )
    secret = np.zeros(2, np.uint64)
    ours = [int(kernels.sip_hash(array(b"x" + data), 1, 1 + size, secret)) for size in range(1, 40)]
    assert [np.uint64(code).astype(np.int64) for code in ours] == json.loads(told.stdout)


def test_names_that_one_secret_brings_together_are_apart_for_another() -> None:
    """Texts of one place in the table for the secret of zeros: for the process's own they spread as any others do."""
    bits = 8
    zeros = np.zeros(2, np.uint64)
    texts = [struct.pack(">I", number) for number in range(1 << 15)]
    chosen = [text for text in texts if int(kernels.sip_hash(array(text), 0, 4, zeros)) & ((1 << bits) - 1) == 0]
    assert len(chosen) > 100
    places = {int(kernels.sip_hash(array(text), 0, 4, SECRET)) & ((1 << bits) - 1) for text in chosen}
    assert len(places) > 50
