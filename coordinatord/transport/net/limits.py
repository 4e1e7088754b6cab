"""Limits of one request, in addition to socket.request.max.bytes: see batching.py."""

from __future__ import annotations

from typing import Final

from kafka_wire.api_key import ApiKey

LARGE_BYTES: Final = 12 * 1024
"""Size above which a request is decoded on another thread. A request of this size takes some 3 ms to decode and to
handle, if it is a list of short names.
"""

LARGE_CARRIER_BYTES: Final = 128 * 1024
"""`LARGE_BYTES` for the APIs in `CARRIERS`, whose requests usually have few elements."""

MAX_HEADER_TAG_BYTES: Final = 4 * 1024
"""Limit of the tagged fields of a request's header, which are skipped on the event loop. Kafka 4.4 defines none, and a
request may have a million of them.
"""

MAX_LIST_BYTES: Final = 2 * 1024 * 1024
"""Limit of a request that is a list of names: ten thousand partitions (max.partitions) with names of 150 characters.
Decoded, such a request takes at most some 120 MB.
"""

MAX_GROUP_BYTES: Final = 16 * 1024 * 1024
"""Limit of JoinGroup and SyncGroup: sixteen times the size of a group's record in the log (message.max.bytes)."""

MAX_ANSWER_BYTES: Final = 100 * 1024 * 1024
"""Maximum size of a response without its records: the size of the largest request (socket.request.max.bytes). Instead
of a larger response the client gets the error response of UNKNOWN_SERVER_ERROR, as from Kafka for a response of 2 GiB.
"""

MAX_UNREAD_BYTES: Final = 128 * 1024 * 1024
"""Limit of the large responses of all connections that are being encoded, or that their peers have not read. Beyond the
limit, the connection with the largest response is closed.
"""

MAX_INCOMPLETE_BYTES: Final = 128 * 1024 * 1024
"""Limit of the requests of all connections that have not arrived in full. Beyond the limit, the connection with the
largest incomplete request is closed.
"""

COUNTED_BYTES: Final = 16 * 1024
"""An incomplete request is counted if more than this number of its bytes has arrived."""

MAX_ELEMENTS: Final = 10_000
"""Maximum number of elements (partitions, names, …) in a request that is handled in one piece: as many as
max.partitions.
"""

CARRIERS: Final = frozenset({ApiKey.PRODUCE, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
"""APIs whose requests carry records, subscriptions and assignments."""

IN_SLICES: Final = frozenset(
    {
        ApiKey.METADATA, ApiKey.LIST_OFFSETS, ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS,
        ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CLIENT_QUOTAS, ApiKey.INITIALIZE_SHARE_GROUP_STATE, ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE, ApiKey.DELETE_SHARE_GROUP_STATE, ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    }
)  # fmt: skip
"""APIs whose handlers work in slices: their requests may have any number of elements."""


def limit_of(api_key: int) -> int:
    """Return the maximum size of a request of an API; socket.request.max.bytes limits requests of all APIs."""
    if api_key == ApiKey.PRODUCE:
        return 1 << 31
    return MAX_GROUP_BYTES if api_key in CARRIERS else MAX_LIST_BYTES


def is_large(api_key: int, size: int) -> bool:
    """Return whether a request of this size is decoded on another thread."""
    return size > LARGE_BYTES and (size > LARGE_CARRIER_BYTES or api_key not in CARRIERS)
