"""The loops over bytes that are worth compiling: batches, records, flat messages, texts.

The loops are plain Python, which `compiling` has numba compile for a large log. Before that `chunk` uses `plain`:
interpreted, these loops would be slower than the decoders of `protocol`. No loop raises or explains: each rejects data
with a number, and the rejected data is passed to `protocol`'s own decoder, which returns the reason in words. Both
accept the same bytes; a property test checks that.

Positions are absolute in `buf`. Integers are int64 throughout, so that each loop is compiled once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from coordinatord.monitoring.offsets_log.decode.compiling import loop
from coordinatord.monitoring.offsets_log.decode.programs import END, INT, STRING, TAG_FACTOR, TAGS, UUID
from kafka_wire.records.batch import HEADER_BYTES, LENGTH_OVERHEAD, MAGIC, MIN_RECORD_BYTES
from kafka_wire.records.crc import crc32c as crc32c_of

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

# --- columns of a table of batches -----------------------------------------------------------------------------------
POSITION, AFTER, BASE_OFFSET, LAST_DELTA, ATTRIBUTES, BASE_TIMESTAMP, MAX_TIMESTAMP, PRODUCER_ID, PRODUCER_EPOCH = (
    range(9)
)
COUNT, SOUND = 9, 10
BATCH_COLUMNS = 11

# --- reasons for the end of a walk over batches ----------------------------------------------------------------------
DONE, CUT_SHORT, NO_BATCH, FULL = range(4)

# --- columns of a table of record sections (one per batch: the position of its decompressed records) ------------------
S_AT, S_END, S_BATCH = range(3)

# --- rows of a table of records: column by column, as each is used alone ----------------------------------------------
OFFSET, TIMESTAMP, KEY_AT, KEY_END, VALUE_AT, VALUE_END, BATCH = range(7)
RECORD_COLUMNS = 7

MAX_INT64 = 2**63 - 1
MAX_INT32 = 2**31 - 1
MAX_VARLONG_BYTES = 10
MAX_UVARINT_BYTES = 5


def _crc_tables() -> npt.NDArray[np.uint32]:
    """Return the tables of CRC-32C, eight bytes per step: the k-th is that of a byte followed by k zero bytes."""
    tables = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        tables[0, byte] = crc
    for k in range(1, 8):
        before = tables[k - 1]
        tables[k] = before >> 8 ^ tables[0][before & 255]
    return tables


_CRC = _crc_tables()


@loop
def _crc32c(buf, at, end):  # type: ignore[no-untyped-def]
    """Return the CRC-32C of buf[at:end], as an int64."""
    crc = np.uint32(0xFFFFFFFF)
    while end - at >= 8:
        crc ^= (
            np.uint32(buf[at])
            | np.uint32(buf[at + 1]) << 8
            | np.uint32(buf[at + 2]) << 16
            | np.uint32(buf[at + 3]) << 24
        )
        crc = (
            _CRC[7, crc & 255]
            ^ _CRC[6, crc >> 8 & 255]
            ^ _CRC[5, crc >> 16 & 255]
            ^ _CRC[4, crc >> 24]
            ^ _CRC[3, buf[at + 4]]
            ^ _CRC[2, buf[at + 5]]
            ^ _CRC[1, buf[at + 6]]
            ^ _CRC[0, buf[at + 7]]
        )
        at += 8
    while at < end:
        crc = _CRC[0, (crc ^ buf[at]) & 255] ^ crc >> 8
        at += 1
    return np.int64(crc ^ np.uint32(0xFFFFFFFF))


@loop
def _big_endian(buf, at, size):  # type: ignore[no-untyped-def]
    """Return the signed big-endian integer of `size` bytes."""
    value = np.int64(buf[at])
    if value > 127:
        value -= 256
    for position in range(at + 1, at + size):
        value = value << 8 | np.int64(buf[position])
    return value


def _big_endian_at_once(buf: Any, at: int, size: int) -> int:
    """Return the result of `_big_endian`, in one call."""
    return int.from_bytes(buf[at : at + size].tobytes(), "big", signed=True)


def _crc32c_at_once(buf: Any, at: int, end: int) -> int:
    """Return the result of `_crc32c`, in one call."""
    return crc32c_of(buf[at:end].tobytes())


# Until the loops are compiled: a walk over batches takes most of its time in these two.
_big_endian, _crc32c = _big_endian_at_once, _crc32c_at_once


@loop
def scan_batches(buf, at, end, with_crc, out):  # type: ignore[no-untyped-def]
    """Fill `out` with the batches from `at` on; return (their number, position of the next one, why the walk ended)."""
    found = 0
    while at < end:
        if found == out.shape[0]:
            return found, at, FULL
        if end - at < LENGTH_OVERHEAD + 5:
            return found, at, CUT_SHORT
        length = _big_endian(buf, at + 8, 4)
        if buf[at + 16] != MAGIC or length < HEADER_BYTES - LENGTH_OVERHEAD:
            return found, at, NO_BATCH
        after = at + LENGTH_OVERHEAD + length
        if after > end:
            return found, at, CUT_SHORT
        row = out[found]
        row[POSITION] = at
        row[AFTER] = after
        row[BASE_OFFSET] = _big_endian(buf, at, 8)
        row[LAST_DELTA] = _big_endian(buf, at + 23, 4)
        row[ATTRIBUTES] = _big_endian(buf, at + 21, 2)
        row[BASE_TIMESTAMP] = _big_endian(buf, at + 27, 8)
        row[MAX_TIMESTAMP] = _big_endian(buf, at + 35, 8)
        row[PRODUCER_ID] = _big_endian(buf, at + 43, 8)
        row[PRODUCER_EPOCH] = _big_endian(buf, at + 51, 2)
        row[COUNT] = _big_endian(buf, at + 57, 4)
        row[SOUND] = 1
        if with_crc and _crc32c(buf, at + 21, after) != _big_endian(buf, at + 17, 4) & 0xFFFFFFFF:
            row[SOUND] = 0
            # The length itself may be wrong: it is accepted if another batch follows.
            if end - after >= LENGTH_OVERHEAD + 5 and (
                buf[after + 16] != MAGIC or _big_endian(buf, after + 8, 4) < HEADER_BYTES - LENGTH_OVERHEAD
            ):
                return found, at, NO_BATCH
        found += 1
        at = after
    return found, at, DONE


@loop
def _varint(buf, at, end):  # type: ignore[no-untyped-def]
    """Return (zigzag varint, position after it); a position of -1 if there is none."""
    result = np.uint64(0)
    for index in range(MAX_VARLONG_BYTES):
        if at >= end:
            return np.int64(0), -1
        byte = np.uint64(buf[at])
        at += 1
        if index == MAX_VARLONG_BYTES - 1 and byte > 1:
            return np.int64(0), -1
        result |= (byte & np.uint64(127)) << np.uint64(7 * index)
        if byte < 128:
            return np.int64(result >> np.uint64(1)) ^ -np.int64(result & np.uint64(1)), at
    return np.int64(0), -1


@loop
def read_records(buf, sections, batches, append_time_bit, out, bad):  # type: ignore[no-untyped-def]
    """Fill the columns of `out` with the records of all sections; return their number. `bad[n]` is set for a rejected
    section, of which no record is in `out`. Records with headers are rejected, too: no coordinator writes any.
    """
    found = 0
    for number in range(sections.shape[0]):
        at, end, batch = sections[number, S_AT], sections[number, S_END], sections[number, S_BATCH]
        header = batches[batch]
        count, last_delta = header[COUNT], header[LAST_DELTA]
        base_offset, base_timestamp = header[BASE_OFFSET], header[BASE_TIMESTAMP]
        append_time = header[ATTRIBUTES] & append_time_bit != 0
        first = found
        if count < 0 or count > (end - at) // MIN_RECORD_BYTES or last_delta < 0 or base_offset < 0:
            bad[number] = 1
            continue
        sound = base_offset <= MAX_INT64 - last_delta
        for _ in range(count):
            size, at = _varint(buf, at, end)
            if at < 0 or size < 0 or size > end - at:
                sound = False
                break
            stop = at + size
            at += 1  # attributes: unused in magic 2
            delta, at = _varint(buf, at, stop)
            if at < 0:
                sound = False
                break
            timestamp = base_timestamp + delta
            # Overflow: both operands have the same sign, and the sum has the other.
            if not append_time and (base_timestamp ^ timestamp) & (delta ^ timestamp) < 0:
                sound = False
                break
            out[TIMESTAMP, found] = header[MAX_TIMESTAMP] if append_time else timestamp
            delta, at = _varint(buf, at, stop)
            if at < 0 or delta < 0 or delta > last_delta:
                sound = False
                break
            out[OFFSET, found] = base_offset + delta
            for field in range(KEY_AT, BATCH, 2):
                size, at = _varint(buf, at, stop)
                if at < 0 or size < -1 or size > stop - at:
                    at = -1
                    break
                if size < 0:
                    out[field, found] = out[field + 1, found] = -1
                else:
                    out[field, found] = at
                    at += size
                    out[field + 1, found] = at
            if at < 0 or at != stop - 1 or buf[at] != 0:
                sound = False
                break
            at = stop
            out[BATCH, found] = batch
            found += 1
        if not sound or at != end:
            bad[number] = 1
            found = first
    return found


@loop
def utf8(buf, at, end):  # type: ignore[no-untyped-def]
    """Return whether buf[at:end] is UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF."""
    while at < end:
        lead = buf[at]
        at += 1
        if lead < 0x80:
            continue
        low, high = 0x80, 0xBF
        if 0xC2 <= lead <= 0xDF:
            more = 1
        elif 0xE0 <= lead <= 0xEF:
            more = 2
            if lead == 0xE0:
                low = 0xA0
            elif lead == 0xED:
                high = 0x9F
        elif 0xF0 <= lead <= 0xF4:
            more = 3
            if lead == 0xF0:
                low = 0x90
            elif lead == 0xF4:
                high = 0x8F
        else:
            return False
        if more > end - at:
            return False
        for index in range(more):
            byte = buf[at + index]
            if byte < low or byte > high:
                return False
            low, high = 0x80, 0xBF
        at += more
    return True


@loop
def _uvarint(buf, at, end):  # type: ignore[no-untyped-def]
    """Return (unsigned varint of at most 31 bits, position after it); a position of -1 if there is none."""
    result = np.int64(0)
    for index in range(MAX_UVARINT_BYTES):
        if at >= end:
            return result, -1
        byte = np.int64(buf[at])
        at += 1
        result |= (byte & 127) << (7 * index)
        if byte < 128:
            return result, at if result <= MAX_INT32 else -1
    return result, -1


@loop
def _field(buf, at, end, operation, slot, parameter, row, ints, texts_at, texts_end):  # type: ignore[no-untyped-def]
    """Read one field; return the position after it, -1 if the field is missing or invalid."""
    if operation == INT:
        if parameter > end - at:
            return -1
        ints[slot, row] = _big_endian(buf, at, parameter)
        return at + parameter
    if operation == UUID:
        if end - at < 16:
            return -1
        size = np.int64(16)
    elif operation == STRING:
        if end - at < 2:
            return -1
        size = _big_endian(buf, at, 2)
        at += 2
    else:
        size, at = _uvarint(buf, at, end)
        size -= 1
        if at < 0:
            return -1
    if size == -1 and parameter == 1:
        texts_at[slot, row] = -1
        texts_end[slot, row] = -1
        return at
    if size < 0 or size > end - at:
        return -1
    if operation != UUID and not utf8(buf, at, at + size):
        return -1
    texts_at[slot, row] = at
    texts_end[slot, row] = at + size
    return at + size


@loop
def _tags(buf, at, end, code, first, known, row, ints, texts_at, texts_end):  # type: ignore[no-untyped-def]
    """Read a tag buffer whose known tags are the `known` rows of code from `first` on; return the position after it, or
    -1.
    """
    count, at = _uvarint(buf, at, end)
    if at < 0 or count > end - at:
        return -1
    last = np.int64(-1)
    for _ in range(count):
        tag, at = _uvarint(buf, at, end)
        if at < 0 or tag <= last:
            return -1
        last = tag
        size, at = _uvarint(buf, at, end)
        if at < 0 or size > end - at:
            return -1
        stop = at + size
        for pc in range(first, first + known):
            if code[pc, 2] // TAG_FACTOR == tag:
                parameter = code[pc, 2] % TAG_FACTOR
                if _field(buf, at, stop, code[pc, 0], code[pc, 1], parameter, row, ints, texts_at, texts_end) != stop:
                    return -1
        at = stop
    return at


@loop
def run_programs(buf, at_of, end_of, version_of, code, starts, defaults, ints, texts_at, texts_end, bad):  # type: ignore[no-untyped-def]
    """Decode the message in buf[at_of[n]:end_of[n]] in version version_of[n] for every n; `bad[n]` is set if it is
    rejected. An at_of of -1 is a null, whose row keeps the defaults.
    """
    for row in range(at_of.shape[0]):
        for slot in range(ints.shape[0]):
            ints[slot, row] = defaults[slot]
        for slot in range(texts_at.shape[0]):
            texts_at[slot, row] = -1
            texts_end[slot, row] = -1
        at, end, version = at_of[row], end_of[row], version_of[row]
        if at < 0:
            continue
        if version < 0 or version >= starts.shape[0] or starts[version] < 0:
            bad[row] = 1
            continue
        pc = starts[version]
        while at >= 0 and code[pc, 0] != END:
            if code[pc, 0] == TAGS:
                known = code[pc, 2]
                at = _tags(buf, at, end, code, pc + 1, known, row, ints, texts_at, texts_end)
                pc += 1 + known
                continue
            if code[pc, 0] != INT:
                at = _field(buf, at, end, code[pc, 0], code[pc, 1], code[pc, 2], row, ints, texts_at, texts_end)
            elif code[pc, 2] > end - at:
                at = -1
            else:  # `_field` without its call, which would take three quarters of the time
                ints[code[pc, 1], row] = _big_endian(buf, at, code[pc, 2])
                at += code[pc, 2]
            pc += 1
        if at != end:
            bad[row] = 1


@loop
def _sip_round(a, b, c, d):  # type: ignore[no-untyped-def]
    a += b
    b = (b << np.uint64(13) | b >> np.uint64(51)) ^ a
    a = a << np.uint64(32) | a >> np.uint64(32)
    c += d
    d = (d << np.uint64(16) | d >> np.uint64(48)) ^ c
    a += d
    d = (d << np.uint64(21) | d >> np.uint64(43)) ^ a
    c += b
    b = (b << np.uint64(17) | b >> np.uint64(47)) ^ c
    c = c << np.uint64(32) | c >> np.uint64(32)
    return a, b, c, d


@loop
def sip_hash(buf, at, end, secret):  # type: ignore[no-untyped-def]
    """Return SipHash-1-3 of buf[at:end], with a secret of two uint64: Python's hash of strings, for the same reason."""
    a, b = secret[0] ^ np.uint64(0x736F6D6570736575), secret[1] ^ np.uint64(0x646F72616E646F6D)
    c, d = secret[0] ^ np.uint64(0x6C7967656E657261), secret[1] ^ np.uint64(0x7465646279746573)
    size = end - at
    while True:
        left = min(end - at, 8)
        word = np.uint64(0) if left == 8 else np.uint64(size & 255) << np.uint64(56)
        for index in range(left):
            word |= np.uint64(buf[at + index]) << np.uint64(8 * index)
        at += left
        d ^= word
        a, b, c, d = _sip_round(a, b, c, d)
        a ^= word
        if left < 8:
            break
    c ^= np.uint64(255)
    for _ in range(3):
        a, b, c, d = _sip_round(a, b, c, d)
    return a ^ b ^ c ^ d


@loop
def intern(buf, at_of, end_of, secret, table, ids, first):  # type: ignore[no-untyped-def]
    """Number the texts buf[at_of[n]:end_of[n]] by their bytes, in order of appearance, nulls -1. Return how many.
    `table` must be filled with -1; its size must be a power of two above the number of rows. `first[id]` becomes the
    first row with that text. Without the `secret` of the hash, a client cannot choose texts that collide in the table.
    """
    found = 0
    mask = table.shape[0] - 1
    for row in range(at_of.shape[0]):
        at, end = at_of[row], end_of[row]
        if at < 0:
            ids[row] = -1
            continue
        place = np.int64(sip_hash(buf, at, end, secret) & np.uint64(mask))
        while True:
            known = table[place]
            if known < 0:
                table[place] = found
                first[found] = row
                ids[row] = found
                found += 1
                break
            other = at_of[first[known]]
            if end_of[first[known]] - other == end - at:
                index = 0
                while index < end - at and buf[other + index] == buf[at + index]:
                    index += 1
                if index == end - at:
                    ids[row] = known
                    break
            place = (place + 1) & mask
    return found


@loop
def gather(buf, at_of, end_of, offsets, data):  # type: ignore[no-untyped-def]
    """Concatenate texts: `offsets` (int32, one more than texts) and `data` of an Arrow string array."""
    total = 0
    for row in range(at_of.shape[0]):
        offsets[row] = total
        for position in range(at_of[row], end_of[row]):
            data[total] = buf[position]
            total += 1
    offsets[at_of.shape[0]] = total


@loop
def int32_at(buf, at_of, out):  # type: ignore[no-untyped-def]
    """Fill `out` with the int32 at each position."""
    for row in range(at_of.shape[0]):
        out[row] = _big_endian(buf, at_of[row], 4)


@loop
def leading_int16(buf, at_of, end_of, tag_of):  # type: ignore[no-untyped-def]
    """Fill tag_of with the first int16 of each message: a key's type, a value's version; -1 if there is none."""
    for row in range(at_of.shape[0]):
        if at_of[row] < 0 or end_of[row] - at_of[row] < 2:
            tag_of[row] = -1
        else:
            tag_of[row] = _big_endian(buf, at_of[row], 2)
