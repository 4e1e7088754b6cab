"""Bytes after the end of a request are ignored, as in Kafka, and do not change its response.

librdkafka, at least up to 2.16, sends three of them with each request for the metadata of all topics (its issue 5049):
without a response `list_topics()` fails, and so do subscriptions by a regular expression.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from coordinatord.testing.conform.raw_client import read_response
from coordinatord.testing.conform.values import batch, header, message, subscription
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api_key import ApiKey
from kafka_wire.codecs import encode_message
from kafka_wire.headers import RequestHeader, write_request_header
from kafka_wire.registry import API_NAMES, codec, versions_of
from kafka_wire.schema import schema_of
from tests.reference import malformed
from tests.reference.in_process import InProcess, run, running_in_process

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "advertised.listeners": "PLAINTEXT://127.0.0.1:9092",  # each run listens on another port
}

ALL_TOPICS = {
    9: "0003 0009 00000003 0001 63 00" + "00 000000 00 00 00 00",
    10: "0003 000a 00000003 0001 63 00" + "00 000000 00 00 00 00",
    12: "0003 000c 00000003 0001 63 00" + "00 000000 00 00 00",
    13: "0003 000d 00000003 0001 63 00" + "00 000000 00 00 00",
}
"""Metadata of all topics by version, as librdkafka 2.16.0 sends it. It reserves four bytes for the count of topics, but
null takes one here, and the other three stay. So these three are read as the next fields.
"""

BEHIND = {
    "one byte": b"\1",
    "three zeros": bytes(3),
    "another request": header(12, 4, True) + b"\2g\0\0\0\1\2m\0\0",
    "much": b"\xff" * 5_000,
}

T_ID = b"the topic's id.."
"""A placeholder for the topic's real id."""
TRANSACTION = {"transactional_id": "x", "producer_id": 0, "producer_epoch": 0}
ONE = [{"name": "t", "partitions": [0]}]
RESOURCE = {"resource_type": 2, "resource_name": "t"}
CONFIG = {"name": "retention.ms", "value": "3600000"}

ACL_FILTER = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
ENTITY = [{"entity_type": "user", "entity_name": "alice"}]

SHARE_STATE = [{"topic_id": T_ID, "partitions": [{"partition": 0}]}]

REQUESTS: dict[int, dict[str, Any]] = {
    **malformed.REQUESTS,
    0: {
        "acks": -1, "timeout_ms": 1000,
        "topic_data": [{"name": "t", "topic_id": T_ID, "partition_data": [{"index": 0, "records": batch("a", "b")}]}],
    },
    1: {
        "max_wait_ms": 5, "min_bytes": 1, "max_bytes": 1000, "rack_id": "r",
        "topics": [{"topic": "t", "topic_id": T_ID, "partitions": [{"partition": 0, "partition_max_bytes": 1000}]}],
    },
    2: {"replica_id": -1, "topics": [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1}]}]},
    3: {"topics": [{"name": "t"}]},
    11: {**malformed.REQUESTS[11], "member_id": "", "protocols": [{"name": "range", "metadata": subscription("t")}]},
    16: {},
    19: {"topics": [{"name": "t", "num_partitions": 2, "replication_factor": 1, "configs": [CONFIG]}]},
    20: {"topics": [{"name": "none"}], "topic_names": ["none"], "timeout_ms": 1000},
    21: {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "offset": 1}]}], "timeout_ms": 1000},
    22: {"transactional_id": "x", "transaction_timeout_ms": 10_000},
    23: {"topics": [{"topic": "t", "partitions": [{"partition": 0, "leader_epoch": 0}]}]},
    24: {
        "transactions": [{**TRANSACTION, "topics": ONE}],
        **{f"v3_and_below_{name}": value for name, value in TRANSACTION.items()}, "v3_and_below_topics": ONE,
    },
    25: {**TRANSACTION, "group_id": "g"},
    26: {**TRANSACTION, "committed": True},
    27: {"markers": [{"producer_id": 0, "topics": [{"name": "t", "partition_indexes": [0]}]}]},
    28: {
        **TRANSACTION, "group_id": "g",
        "topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_metadata": "m"}]}],
    },
    32: {"resources": [{**RESOURCE, "configuration_keys": ["retention.ms"]}], "include_synonyms": True},
    33: {"resources": [{**RESOURCE, "configs": [CONFIG]}]},
    37: {"topics": [{"name": "t", "count": 3, "assignments": None}], "timeout_ms": 1000},
    43: {"topic_partitions": [{"topic": "t", "partitions": [0]}], "timeout_ms": 1000},
    44: {"resources": [{**RESOURCE, "configs": [{**CONFIG, "config_operation": 0}]}]},
    46: {"topics": [{"name": "t", "partition_indexes": [0]}], "timeout_ms": 1000},
    17: {"mechanism": "PLAIN"},
    29: {**ACL_FILTER, "resource_name_filter": None},
    30: {
        "creations": [
            {
                "resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "principal": "User:alice",
                "host": "*", "operation": 3, "permission_type": 3,
            }
        ]
    },
    31: {"filters": [ACL_FILTER]},
    36: {"auth_bytes": b"token"},
    48: {"components": [{"entity_type": "user", "match_type": 2}]},
    49: {"entries": [{"entity": ENTITY, "ops": [{"key": "producer_byte_rate", "value": 5.0}]}], "validate_only": True},
    50: {"users": [{"name": "alice"}]},
    51: {
        "upsertions": [
            {"name": "alice", "mechanism": 1, "iterations": 4096, "salt": b"x" * 20, "salted_password": b"y" * 32}
        ]
    },
    60: {"include_cluster_authorized_operations": True},
    61: {"topics": [{"name": "t", "partition_indexes": [0]}]},
    65: {"transactional_ids": ["x"]},
    66: {"state_filters": ["Ongoing"]},
    68: {
        "group_id": "new", "member_id": "m", "rebalance_timeout_ms": 1000, "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    },
    69: {"group_ids": ["new"]},
    74: {"resource_types": [2]},
    75: {"topics": [{"name": "t"}]},
    76: {"group_id": "share", "member_id": "m", "member_epoch": 0, "subscribed_topic_names": ["t"]},
    77: {"group_ids": ["share"]},
    78: {
        "group_id": "share", "member_id": "m", "share_session_epoch": 0, "max_wait_ms": 5, "max_records": 1,
        "batch_size": 1, "topics": [{"topic_id": T_ID, "partitions": [{"partition_index": 0}]}],
    },
    79: {
        "group_id": "share", "member_id": "m", "share_session_epoch": 1,
        "topics": [{"topic_id": T_ID, "partitions": [{"partition_index": 0, "acknowledgement_batches": []}]}],
    },
    83: {
        "group_id": "state",
        "topics": [{"topic_id": T_ID, "partitions": [{"partition": 0, "state_epoch": 1, "start_offset": 0}]}],
    },
    84: {"group_id": "state", "topics": SHARE_STATE},
    85: {"group_id": "state", "topics": SHARE_STATE},
    86: {"group_id": "state", "topics": SHARE_STATE},
    87: {"group_id": "state", "topics": SHARE_STATE},
    90: {"groups": [{"group_id": "share", "topics": None}]},
    91: {
        "group_id": "offsets",
        "topics": [{"topic_name": "t", "partitions": [{"partition_index": 0, "start_offset": 1}]}],
    },
    92: {"group_id": "offsets", "topics": [{"topic_name": "t"}]},
}  # fmt: skip

NOT_COMPARED = {ApiKey.DESCRIBE_LOG_DIRS}
"""Its response has the directory and the free space of its disk, which differ between runs."""

PAIRS = [(api_key, version) for api_key in sorted(REQUESTS) for version in versions_of(api_key)]
"""Requests are sent in this order."""

Answers = dict[tuple[int, int], bytes | None]


def frame_of(api_key: int, version: int) -> bytes:
    """A valid request, without its size."""
    used = codec(api_key, version)
    known = {field.name for field in schema_of(used.request).fields if version in field.versions}
    given = {name: value for name, value in REQUESTS[api_key].items() if name in known}
    out = bytearray()
    write_request_header(RequestHeader(api_key, version, 1, "c"), used.flexible, out)
    return bytes(out + encode_message(message(used.request, given), version))


async def ask(ours: InProcess, frame: bytes) -> bytes | None:
    """The response, on a new connection; None if the connection is closed instead."""
    link = (await ours.connect("raw")).link
    link.write(len(frame).to_bytes(4, "big") + frame)
    answer = await link.read_frame()
    link.close()
    return answer


async def ask_all(directory: Path, behind: bytes) -> Answers:
    async with running_in_process(directory, SETTINGS) as ours:
        client = await ours.connect("raw")
        made = await client.ask(CreateTopicsRequest([CreatableTopic("t", 2, 1)]), 7)
        await client.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 4)
        topic_id = made.topics[0].topic_id
        return {
            (api_key, version): await ask(ours, frame_of(api_key, version).replace(T_ID, topic_id) + behind)
            for api_key, version in PAIRS
        }


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answers]:
    """The responses to all requests: under "" without surplus bytes, and with each of `BEHIND`."""
    found = {}
    for what, behind in {"": b"", **BEHIND}.items():
        chance = random.Random(1)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(os, "urandom", chance.randbytes)
            found[what] = run(ask_all(tmp_path_factory.mktemp("data"), behind))
    return found


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{API_NAMES[pair[0]]}-v{pair[1]}")
def test_a_request_is_answered_as_if_nothing_were_behind_it(pair: tuple[int, int], answers: dict[str, Answers]) -> None:
    alone = answers[""][pair]
    assert alone is not None, "the request itself is refused"
    assert [what for what in BEHIND if answers[what][pair] != alone] == []


def test_all_that_is_served_is_asked_for(tmp_path: Path) -> None:
    async def served() -> set[int]:
        async with running_in_process(tmp_path, SETTINGS) as ours:
            return set(ours.daemon.door.router.routes.handlers)

    assert run(served()) == set(REQUESTS) | NOT_COMPARED


@pytest.mark.parametrize("version", ALL_TOPICS)
def test_librdkafka_is_told_all_topics(version: int, tmp_path: Path) -> None:
    async def asked() -> Any:
        async with running_in_process(tmp_path, SETTINGS) as ours:
            client = await ours.connect("raw")
            await client.ask(CreateTopicsRequest([CreatableTopic("orders", 2, 1)]), 7)
            return await ask(ours, bytes.fromhex(ALL_TOPICS[version]))

    answer = run(asked())
    assert answer is not None, "the connection was closed"
    told = read_response(codec(3, version), 3, answer)
    assert {topic.name: len(topic.partitions) for topic in told.topics if not topic.is_internal} == {"orders": 2}
