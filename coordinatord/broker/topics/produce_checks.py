"""Checks of a Produce request's records: at once if they are few, else on another thread.

The checks decompress and read every record. A request of 400 KB can contain a hundred batches of 120 MB, which would
occupy the event loop for half a minute. So on the loop a request gets a small allowance of bytes and records. If the
request needs more, it is parked, and another thread starts again with a large allowance; records that exceed the large
one are rejected with MESSAGE_TOO_LARGE, upon which producers split a batch. Kafka has no such limit, since it
decompresses as a stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from coordinatord.broker.topics.configs import Configs
from kafka_wire.errors import ErrorCode
from kafka_wire.records.amend import recompress
from kafka_wire.records.batch import BatchHeader, Buffer, read_header
from kafka_wire.records.produced import Allowance, AllowanceExceededError, Rejected, validate_produced

LOOP_BYTES: Final = 128 * 1024
LOOP_RECORDS: Final = 4_000
"""Largest amount of records and decompressed bytes that is checked on the event loop: some milliseconds."""

REQUEST_BYTES: Final = 256 * 1024 * 1024
REQUEST_RECORDS: Final = 1_000_000
"""Largest amount of records and decompressed bytes of one request."""

RECOMPRESSION: Final = 16
"""Cost on the event loop of compressing one byte for the topic's compression.type, in checked bytes."""

Checked = tuple[BatchHeader, bytearray] | Rejected

TOO_MUCH: Final = Rejected(
    ErrorCode.MESSAGE_TOO_LARGE,
    f"the request's records are more than {REQUEST_BYTES} bytes when decompressed, or more than {REQUEST_RECORDS}",
)


ToCheck = tuple[Buffer | None, Configs]
"""One partition's records, and the settings of its topic."""


def checked_now(batches: Sequence[ToCheck], version: int, now_ms: int) -> list[Checked] | None:
    """Return the checked batches, or None if the checks would take too long on the event loop."""
    # Even the checksum of 60 MB takes 5 ms, and a decompressor that soon stops may have read all of its input.
    if sum([len(records) for records, _ in batches if records]) > LOOP_BYTES:
        return None
    allowance = Allowance(LOOP_BYTES, LOOP_RECORDS)
    try:
        return [_checked(each, version, now_ms, allowance, RECOMPRESSION) for each in batches]
    except AllowanceExceededError:
        return None


def checked_aside(
    batches: Iterable[ToCheck], version: int, now_ms: int, size: int = REQUEST_BYTES, records: int = REQUEST_RECORDS
) -> list[Checked]:
    """Return the checked batches, on another thread. A request may have `size` decompressed bytes and `records`
    records.
    """
    allowance = Allowance(size, records)
    checked: list[Checked] = []
    for each in batches:
        try:
            checked.append(_checked(each, version, now_ms, allowance, 0))
        except AllowanceExceededError:
            # The remaining partitions are not checked: each attempt could decompress as much again.
            allowance = Allowance(0, 0)
            checked.append(TOO_MUCH)
    return checked


def _checked(batch: ToCheck, version: int, now_ms: int, allowance: Allowance, recompression: int) -> Checked:
    records, configs = batch
    before = allowance.size
    checked = validate_produced(records, version, configs.limits, now_ms, allowance)
    if isinstance(checked, Rejected) or configs.compression is None or configs.compression == checked[0].codec:
        return checked
    allowance.take((before - allowance.size) * recompression, 0)
    again = recompress(checked[1], configs.compression)
    if len(again) > configs.limits.max_message_bytes:
        return Rejected(ErrorCode.MESSAGE_TOO_LARGE, "the batch is too large in the topic's compression.type")
    return read_header(again), again
