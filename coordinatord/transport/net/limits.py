"""What one request may have, beside socket.request.max.bytes: see split.py."""

from __future__ import annotations

from typing import Final

from kafka_wire.api_key import ApiKey

LARGE_BYTES: Final = 12 * 1024
"""Decoding and answering as much takes some 3 ms, if it is a list of short names."""

LARGE_CARRIER_BYTES: Final = 128 * 1024
"""The same for `CARRIERS`, which usually have few elements."""

MAX_HEADER_TAG_BYTES: Final = 4 * 1024
"""Tagged fields of a request's header, which are skipped on the event loop. Kafka 4.4 defines none, and a request may
have a million of them.
"""

MAX_LIST_BYTES: Final = 2 * 1024 * 1024
"""Ten thousand partitions (max.partitions) with names of 150 characters. Decoded it is at most some 120 MB."""

MAX_GROUP_BYTES: Final = 16 * 1024 * 1024
"""JoinGroup and SyncGroup: sixteen times what may be logged of a group (message.max.bytes)."""

MAX_ANSWER_BYTES: Final = 100 * 1024 * 1024
"""The largest response, besides its records: as large as the largest request (socket.request.max.bytes). Instead of a
larger one the client gets the error response of UNKNOWN_SERVER_ERROR, as from Kafka for one of 2 GiB."""

MAX_UNREAD_BYTES: Final = 128 * 1024 * 1024
"""Of all connections' large answers that are being made, or that their peers do not read. The largest goes first."""

MAX_INCOMPLETE_BYTES: Final = 128 * 1024 * 1024
"""Of all connections' requests that have not arrived in full. The largest goes first."""

COUNTED_BYTES: Final = 16 * 1024
"""An incomplete request is counted if more than so much of it has arrived."""

MAX_ELEMENTS: Final = 10_000
"""How many partitions, names, … a request may list that is answered in one piece: as many as max.partitions."""

CARRIERS: Final = frozenset({ApiKey.PRODUCE, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
"""Requests that carry records, subscriptions and assignments."""

IN_SLICES: Final = frozenset(
    {
        ApiKey.METADATA, ApiKey.LIST_OFFSETS, ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS,
        ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CLIENT_QUOTAS,
    }
)  # fmt: skip
"""Requests whose handlers work in slices: these may have any number of elements."""


def limit_of(api_key: int) -> int:
    """The largest request of an API; socket.request.max.bytes limits all of them."""
    if api_key == ApiKey.PRODUCE:
        return 1 << 31
    return MAX_GROUP_BYTES if api_key in CARRIERS else MAX_LIST_BYTES


def is_large(api_key: int, size: int) -> bool:
    """Whether a request of this size is decoded on another thread."""
    return size > LARGE_BYTES and (size > LARGE_CARRIER_BYTES or api_key not in CARRIERS)
