"""Validation of the records in a Produce request before a broker appends them to its log.

In Kafka the checks are in ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords and LogValidator; their
order, and so the error for a batch with two faults, is Kafka's.
"""

from __future__ import annotations

from typing import NamedTuple

from kafka_wire.errors import DecodeError, ErrorCode, TruncatedError
from kafka_wire.records.amend import set_create_time, set_log_append_time
from kafka_wire.records.batch import (
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    CorruptBatchError,
    check_crc,
    read_header,
)
from kafka_wire.records.compression import MAX_DECOMPRESSED_BYTES, Compression, CompressionError
from kafka_wire.records.key_values import key_values

#: Produce versions below this may not carry zstd (KIP-110).
ZSTD_SINCE_VERSION = 7


class Rejected(NamedTuple):
    """Why a batch is rejected. `record_index` is the index of the first invalid record, for the response's
    record_errors; -1 for none.
    """

    error: ErrorCode
    reason: str
    record_index: int = -1


class Limits(NamedTuple):
    """A topic's settings for produced records, under Kafka's names."""

    max_message_bytes: int = 1_048_588
    compacted: bool = False
    log_append_time: bool = False
    timestamp_before_max_ms: int = (1 << 63) - 1
    timestamp_after_max_ms: int = 3_600_000
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES


def validate_produced(
    records: Buffer | None, version: int, limits: Limits, now_ms: int
) -> tuple[BatchHeader, bytearray] | Rejected:
    """The single batch of a Produce partition, ready for the log with its final timestamps, or why it is rejected.

    `version` is that of the Produce request. The result is a copy: the request's buffer stays unchanged.
    """
    if not records:
        return Rejected(ErrorCode.INVALID_RECORD, "a Produce request has at least one record batch per partition")
    header = _single_batch(records, version, limits)
    if isinstance(header, Rejected):
        return header
    rejected = _check_header(header)
    if rejected:
        return rejected
    try:
        max_timestamp = _check_records(records, header, limits, now_ms)
    except CompressionError as error:
        return Rejected(ErrorCode.CORRUPT_MESSAGE, str(error))
    except DecodeError as error:
        return Rejected(ErrorCode.INVALID_RECORD, str(error))
    if isinstance(max_timestamp, Rejected):
        return max_timestamp
    batch = bytearray(records)
    if limits.log_append_time:
        set_log_append_time(batch, now_ms)
    elif header.is_log_append_time or header.max_timestamp != max_timestamp:
        set_create_time(batch, max_timestamp)
    return read_header(batch), batch


def _single_batch(records: Buffer, version: int, limits: Limits) -> BatchHeader | Rejected:
    try:
        header = read_header(records)
    except TruncatedError as error:
        # Kafka finds no batch in it and answers with an error that clients do not retry.
        return Rejected(ErrorCode.INVALID_RECORD, str(error))
    except DecodeError as error:
        return Rejected(ErrorCode.INVALID_RECORD, str(error))
    if header.codec == Compression.ZSTD and version < ZSTD_SINCE_VERSION:
        return Rejected(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Produce version {version} may not use zstd")
    if header.codec > Compression.ZSTD:
        return Rejected(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression type {header.codec}")
    if header.size != len(records):
        return Rejected(ErrorCode.INVALID_RECORD, "a Produce request has exactly one record batch per partition")
    if header.base_offset != 0:
        return Rejected(ErrorCode.INVALID_RECORD, f"the base offset of a produced batch is 0, not {header.base_offset}")
    if header.size > limits.max_message_bytes:
        return Rejected(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {header.size} bytes, max.message.bytes is {limits.max_message_bytes}",
        )
    try:
        check_crc(records, 0, header)
    except CorruptBatchError as error:
        return Rejected(ErrorCode.CORRUPT_MESSAGE, str(error))
    return header


def _check_header(header: BatchHeader) -> Rejected | None:
    if header.record_count <= 0:
        return Rejected(ErrorCode.INVALID_RECORD, f"a batch cannot hold {header.record_count} records")
    if header.last_offset_delta + 1 != header.record_count:
        return Rejected(
            ErrorCode.INVALID_RECORD,
            f"last offset delta {header.last_offset_delta} and record count {header.record_count} disagree",
        )
    if header.is_control:
        return Rejected(ErrorCode.INVALID_RECORD, "clients may not write control records")
    if header.producer_id != NO_PRODUCER_ID and header.base_sequence < 0:
        return Rejected(
            ErrorCode.INVALID_RECORD,
            f"sequence number {header.base_sequence} of producer id {header.producer_id} is negative",
        )
    return None


def _check_records(records: Buffer, header: BatchHeader, limits: Limits, now_ms: int) -> int | Rejected:
    """The greatest timestamp of the batch, or the rejection of its first invalid record."""
    max_timestamp = NO_TIMESTAMP
    check_time = not limits.log_append_time
    earliest, latest = now_ms - limits.timestamp_before_max_ms, now_ms + limits.timestamp_after_max_ms
    entries = key_values(records, 0, header, limits.max_decompressed_bytes)
    for index, (offset, timestamp, key, _value) in enumerate(entries):
        if offset != index:
            # Kafka rewrites such batches for obsolete clients; no v2 encoder produces them.
            return Rejected(ErrorCode.INVALID_RECORD, f"record {index} has offset delta {offset}", index)
        if limits.compacted and key is None:
            return Rejected(ErrorCode.INVALID_RECORD, "a compacted topic does not take a record without a key", index)
        if check_time and timestamp != NO_TIMESTAMP:
            if not earliest <= timestamp <= latest:
                return Rejected(
                    ErrorCode.INVALID_TIMESTAMP, f"timestamp {timestamp} is not within [{earliest}, {latest}]", index
                )
        elif header.is_log_append_time:
            return Rejected(ErrorCode.INVALID_TIMESTAMP, "a producer does not set the log-append time type", index)
        if timestamp > max_timestamp:
            max_timestamp = timestamp
    return max_timestamp
