"""Validation of the records in a Produce request before a broker appends them to its log.

In Kafka the checks are in ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords and LogValidator; their
order, and so the error for a batch with two faults, is Kafka's.

A few kilobytes may decompress to gigabytes, and a batch may have very many empty records. So the checks of a request
get an `Allowance`, and stop when it is used up.
"""

from __future__ import annotations

from typing import NamedTuple

from kafka_wire.errors import DecodeError, ErrorCode, TruncatedError
from kafka_wire.message_parts import joined
from kafka_wire.records.amend import set_create_time, set_log_append_time
from kafka_wire.records.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    CorruptBatchError,
    check_crc,
    read_header,
    record_section,
)
from kafka_wire.records.compression import MAX_DECOMPRESSED_BYTES, Compression, CompressionError, TooLargeError
from kafka_wire.records.stamps import LARGEST_RECORD, stamps

MAX_FAULTS = 10_000
"""Limit of invalid records in a response, for each batch, in some 800 KB. Kafka lists all."""

#: Produce versions below this may not carry zstd (KIP-110).
ZSTD_SINCE_VERSION = 7


class Fault(NamedTuple):
    """One invalid record: its index in the batch, the reason, and whether its timestamp is the reason."""

    record: int
    reason: str
    is_time: bool = False


class Rejected(NamedTuple):
    """Rejection of a batch. `faults` are its invalid records, for the response's record_errors (KIP-467); none if the
    batch itself is invalid. `is_early`: Kafka checks this before it appends anything
    (ProduceRequest.validateRecords).
    """

    error: ErrorCode
    reason: str
    faults: tuple[Fault, ...] = ()
    is_early: bool = False


class Limits(NamedTuple):
    """A topic's settings for produced records, under Kafka's names."""

    max_message_bytes: int = 1_048_588
    compacted: bool = False
    log_append_time: bool = False
    timestamp_before_max_ms: int = (1 << 63) - 1
    timestamp_after_max_ms: int = 3_600_000
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
    """Limit of a batch's records together, which is no setting."""
    max_decompressed_message_bytes: int = LARGEST_RECORD
    """Limit of one record of a compressed batch, without its length."""


class AllowanceExceededError(Exception):
    """The records need more work than is allowed."""


class Allowance:
    """Work that may still be spent on a request's records: `size`, their decompressed bytes, and `records`, their
    number. The check of each batch takes from both.
    """

    __slots__ = ("records", "size")

    def __init__(self, size: int, records: int) -> None:
        self.size = size
        self.records = records

    def take(self, size: int, records: int) -> None:
        """Subtract from the allowance. Raises AllowanceExceededError if less is left."""
        if size > self.size or records > self.records:
            raise AllowanceExceededError
        self.size -= size
        self.records -= records


def validate_produced(
    records: Buffer | None, version: int, limits: Limits, now_ms: int, allowance: Allowance | None = None
) -> tuple[BatchHeader, bytearray] | Rejected:
    """Validate the single batch of a Produce partition. Returns the batch, ready for the log with its final timestamps,
    or its rejection.

    `version` is that of the Produce request. The result is a copy: the request's buffer stays unchanged. Raises
    AllowanceExceededError if the batch needs more work than `allowance` has left.
    """
    if not records:
        return _early(ErrorCode.INVALID_RECORD, "a Produce request has at least one record batch per partition")
    header = _single_batch(records, version, limits)
    if isinstance(header, Rejected):
        return header
    try:
        section = _section(records, header, limits, allowance)
        max_timestamp = _check_records(section, header, limits, now_ms)
    except TooLargeError as error:
        return Rejected(ErrorCode.MESSAGE_TOO_LARGE, str(error))
    except CompressionError as error:
        return Rejected(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))  # as in Kafka
    except DecodeError as error:
        return Rejected(ErrorCode.INVALID_RECORD, str(error))
    if isinstance(max_timestamp, Rejected):
        return max_timestamp
    batch = joined([records])
    if limits.log_append_time:
        set_log_append_time(batch, now_ms)
    elif header.attributes & LOG_APPEND_TIME or header.max_timestamp != max_timestamp:
        set_create_time(batch, max_timestamp)
    else:
        return header, batch
    return read_header(batch), batch


def _early(error: ErrorCode, reason: str) -> Rejected:
    return Rejected(error, reason, is_early=True)


def _single_batch(records: Buffer, version: int, limits: Limits) -> BatchHeader | Rejected:
    """Return the header of the only batch, or the rejection of a header with impossible values."""
    try:
        header = read_header(records)
    except TruncatedError as error:
        # Kafka finds no batch in it and responds with an error that clients do not retry.
        return _early(ErrorCode.INVALID_RECORD, str(error))
    except DecodeError as error:
        return _early(ErrorCode.INVALID_RECORD, str(error))
    codec = header.attributes & CODEC_MASK
    if codec == Compression.ZSTD and version < ZSTD_SINCE_VERSION:
        return _early(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Produce version {version} may not use zstd")
    if codec > Compression.ZSTD:
        return Rejected(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression type {codec}")
    size = header.length + LENGTH_OVERHEAD
    if size != len(records):
        return _early(ErrorCode.INVALID_RECORD, "a Produce request has exactly one record batch per partition")
    if header.base_offset != 0:
        return Rejected(ErrorCode.INVALID_RECORD, f"the base offset of a produced batch is 0, not {header.base_offset}")
    if size > limits.max_message_bytes:
        return Rejected(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {size} bytes, max.message.bytes is {limits.max_message_bytes}",
        )
    try:
        check_crc(records, 0, header)
    except CorruptBatchError as error:
        return Rejected(ErrorCode.CORRUPT_MESSAGE, str(error))
    if header.record_count <= 0:
        return Rejected(ErrorCode.INVALID_RECORD, f"a batch cannot hold {header.record_count} records")
    if header.last_offset_delta + 1 != header.record_count:
        return Rejected(
            ErrorCode.INVALID_RECORD,
            f"last offset delta {header.last_offset_delta} and record count {header.record_count} disagree",
        )
    if header.attributes & CONTROL:
        return Rejected(ErrorCode.INVALID_RECORD, "clients may not write control records")
    if header.producer_id != NO_PRODUCER_ID and header.base_sequence < 0:
        return Rejected(
            ErrorCode.INVALID_RECORD,
            f"sequence number {header.base_sequence} of producer id {header.producer_id} is negative",
        )
    return header


def _section(records: Buffer, header: BatchHeader, limits: Limits, allowance: Allowance | None) -> Buffer:
    """Return the decompressed records."""
    codec = header.attributes & CODEC_MASK
    if codec == Compression.LZ4:
        from kafka_wire.records.compressors import check_lz4_frame

        check_lz4_frame(memoryview(records)[HEADER_BYTES:])
    if allowance is None:
        return record_section(records, 0, header, limits.max_decompressed_bytes)
    if not codec:
        allowance.take(header.length + LENGTH_OVERHEAD, header.record_count)
        return memoryview(records)[HEADER_BYTES:]
    allowance.take(0, header.record_count)
    try:
        section = record_section(records, 0, header, min(limits.max_decompressed_bytes, allowance.size))
    except TooLargeError:
        if allowance.size < limits.max_decompressed_bytes:
            raise AllowanceExceededError from None
        raise
    allowance.take(len(section), 0)
    return section


def _check_records(section: Buffer, header: BatchHeader, limits: Limits, now_ms: int) -> int | Rejected:
    """Return the greatest timestamp of the batch, or its rejection with all invalid records. As in Kafka, a record has
    one fault, that of its key before that of its timestamp; a record that cannot be decoded precedes all others.
    """
    # A delta can take a timestamp out of the range of a Java long, where Kafka's wraps around: no topic accepts it.
    earliest = max(now_ms - limits.timestamp_before_max_ms, -(1 << 63))
    latest = min(now_ms + limits.timestamp_after_max_ms, (1 << 63) - 1)
    compacted, check_time = limits.compacted, not limits.log_append_time
    largest = limits.max_decompressed_message_bytes if header.attributes & CODEC_MASK else LARGEST_RECORD
    is_log_append_time = bool(header.attributes & LOG_APPEND_TIME)
    max_timestamp = NO_TIMESTAMP
    faults: list[Fault] = []
    count = 0
    is_time = False
    for index, (offset, timestamp, no_key) in enumerate(stamps(section, header, largest)):
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        if offset != index:
            # Kafka rewrites such batches for obsolete clients; no v2 encoder produces them.
            fault = Fault(index, f"Record {index} has offset delta {offset}")
        elif compacted and no_key:
            fault = Fault(index, "Compacted topic cannot accept message without key")
        elif check_time and timestamp != NO_TIMESTAMP:
            if earliest <= timestamp <= latest:
                continue
            reason = f"Timestamp {timestamp} of message with offset {offset} is out of range. The timestamp should be "
            fault = Fault(index, f"{reason}within [{earliest}, {latest}]", is_time=True)
        elif is_log_append_time:
            fault = Fault(index, "Producer should not set timestamp type to LogAppendTime.", is_time=True)
        else:
            continue
        count += 1
        is_time = is_time or fault.is_time
        if count <= MAX_FAULTS:
            faults.append(fault)
    if is_time:
        return Rejected(ErrorCode.INVALID_TIMESTAMP, "invalid timestamp", tuple(faults))
    if faults:
        return Rejected(ErrorCode.INVALID_RECORD, f"{count} record errors in total", tuple(faults))
    return max_timestamp
