"""Encoding and decoding of records of `__transaction_state`; the last record of each transactional id counts.

Key and value each start with an int16, as in `__consumer_offsets`: the key's type (0, the only one) and the value's
version. v1 of the value is flexible (KIP-890) and is the version that Kafka 4.4 writes; a null value is a tombstone.
"""

from __future__ import annotations

from kafka_wire.codecs import decoder, encoder
from kafka_wire.errors import DecodeError, TruncatedError
from kafka_wire.schema import array, int8, int16, int32, int64, message, string

TRANSACTION_LOG_TYPE = 0
TRANSACTION_LOG_VALUE_VERSION = 1


@message(versions="0", api_key=0)
class TransactionLogKey:
    transactional_id: str = string("0")


@message()
class PartitionsSchema:
    topic: str = string("0+")
    partition_ids: list[int] = array(int32, "0+")


@message(versions="0-1", flexible="1+", api_key=0)
class TransactionLogValue:
    producer_id: int = int64("0+")
    previous_producer_id: int = int64("1+", default=-1, tagged="1+", tag=0)
    next_producer_id: int = int64("1+", default=-1, tagged="1+", tag=1)
    producer_epoch: int = int16("0+")
    next_producer_epoch: int = int16("1+", default=-1, tagged="1+", tag=3)
    transaction_timeout_ms: int = int32("0+")
    transaction_status: int = int8("0+")
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, "0+", nullable="0+")
    transaction_last_update_timestamp_ms: int = int64("0+")
    transaction_start_timestamp_ms: int = int64("0+")
    client_transaction_version: int = int16("1+", default=0, tagged="1+", tag=2)


class UnknownTransactionRecordError(DecodeError):
    """Raised for a record whose key is not a transactional id. Callers skip the record but keep it in the log."""


def encode_key(transactional_id: str) -> bytes:
    """Return the key of a transactional id's records."""
    out = bytearray((0, TRANSACTION_LOG_TYPE))
    encoder(TransactionLogKey, 0)(TransactionLogKey(transactional_id), out)
    return bytes(out)


def encode_value(value: TransactionLogValue) -> bytes:
    """Return the bytes of a value, in the version that Kafka 4.4 writes."""
    out = bytearray((0, TRANSACTION_LOG_VALUE_VERSION))
    encoder(TransactionLogValue, TRANSACTION_LOG_VALUE_VERSION)(value, out)
    return bytes(out)


def decode_key(data: bytes) -> str:
    """Return the transactional id in a key. Raises `UnknownTransactionRecordError` for other types, `DecodeError` for
    damage.
    """
    if len(data) < 2:
        raise TruncatedError(f"a key of {len(data)} bytes")
    record_type = int.from_bytes(data[:2], "big", signed=True)
    if record_type != TRANSACTION_LOG_TYPE:
        raise UnknownTransactionRecordError(f"record type {record_type}")
    key: TransactionLogKey = decoder(TransactionLogKey, 0)(data, 2, len(data))
    return key.transactional_id


def decode_value(data: bytes) -> TransactionLogValue:
    """Decode a value. Raises `DecodeError` for damage or an unknown version."""
    if len(data) < 2:
        raise TruncatedError(f"a value of {len(data)} bytes")
    version = int.from_bytes(data[:2], "big", signed=True)
    value: TransactionLogValue = decoder(TransactionLogValue, version)(data, 2, len(data))
    return value
