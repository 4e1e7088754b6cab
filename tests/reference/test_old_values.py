"""Logs of old brokers: each version of the values that classic groups have, written by Kafka's own classes, is read.

Kafka 4.3 writes OffsetCommitValue v4 (v1 with a retention time) and GroupMetadataValue v3; brokers before it wrote the
others, and compaction keeps them for as long as nobody commits again.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from kafka_wire.codecs import encode_message
from kafka_wire.records.keys import decode_value
from kafka_wire.records.offset_values import decode_offset_value
from kafka_wire.records.offsets import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from kafka_wire.schema import schema_of
from tests.reference.java_programs import ask_messages

pytestmark = pytest.mark.reference

TIME_MS, TOPIC_ID = 1_700_000_000_000, bytes(range(1, 17))
OLDEST = 0
NEWEST = 4


def kafkas(libs: Path, cls: type[Any], fields: dict[int, dict[str, Any]]) -> dict[int, bytes]:
    """The bytes that Kafka writes of these fields (in its JSON's names), by version, led by the version."""
    questions = [
        ["both", cls.__name__, str(version), encode_message(cls(), version).hex(), json.dumps(values)]
        for version, values in fields.items()
    ]
    answers = ask_messages(libs, questions)
    return {
        version: version.to_bytes(2) + bytes.fromhex(answer[1]) for version, answer in zip(fields, answers, strict=True)
    }


@pytest.mark.parametrize("note", ["note", ""])
def test_offsets_of_every_version(kafka_libs: Path, note: str) -> None:
    assert str(schema_of(OffsetCommitValue).versions) == f"{OLDEST}-{NEWEST}"
    common = {"offset": 77, "metadata": note, "commitTimestamp": TIME_MS}
    epoch = {"leaderEpoch": 5}
    written = kafkas(
        kafka_libs,
        OffsetCommitValue,
        {
            0: common,
            1: {**common, "expireTimestamp": TIME_MS + 9},
            2: common,
            3: {**common, **epoch},
            4: {**common, **epoch, "topicId": base64.urlsafe_b64encode(TOPIC_ID).decode().rstrip("=")},
        },
    )
    plain = OffsetCommitValue(77, -1, note, TIME_MS)
    expected = {
        0: plain,
        1: OffsetCommitValue(77, -1, note, TIME_MS, TIME_MS + 9),
        2: plain,
        3: OffsetCommitValue(77, 5, note, TIME_MS),
        4: OffsetCommitValue(77, 5, note, TIME_MS, topic_id=TOPIC_ID),
    }
    key = OffsetCommitKey("group", "topic", 0)
    assert {version: decode_value(key, data) for version, data in written.items()} == expected
    assert {version: decode_offset_value(data, {}) for version, data in written.items()} == expected


def test_groups_of_every_version(kafka_libs: Path) -> None:
    assert str(schema_of(GroupMetadataValue).versions) == f"{OLDEST}-{NEWEST}"
    fields: dict[int, dict[str, Any]] = {}
    for version in range(OLDEST, NEWEST + 1):
        member: dict[str, Any] = {"memberId": "m", "clientId": "c", "clientHost": "/h", "sessionTimeout": 45_000}
        member |= {"subscription": base64.b64encode(b"sub").decode(), "assignment": base64.b64encode(b"ass").decode()}
        if version >= 1:
            member["rebalanceTimeout"] = 60_000
        if version >= 3:
            member["groupInstanceId"] = "static"
        group: dict[str, Any] = {"protocolType": "consumer", "generation": 4, "protocol": "range", "leader": "m"}
        if version >= 2:
            group["currentStateTimestamp"] = TIME_MS
        fields[version] = {**group, "members": [member]}
    for version, data in kafkas(kafka_libs, GroupMetadataValue, fields).items():
        value = decode_value(GroupMetadataKey("group"), data)
        assert (value.protocol_type, value.generation, value.protocol, value.leader) == ("consumer", 4, "range", "m")
        assert value.current_state_timestamp == (TIME_MS if version >= 2 else -1)
        [found] = value.members
        assert (found.member_id, found.client_id, found.client_host, found.session_timeout) == ("m", "c", "/h", 45_000)
        assert (found.subscription, found.assignment) == (b"sub", b"ass")
        assert found.rebalance_timeout == (60_000 if version >= 1 else -1)
        assert found.group_instance_id == ("static" if version >= 3 else None)
