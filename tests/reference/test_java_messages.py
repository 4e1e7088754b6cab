"""Kafka's own classes read what we write and write what we read, byte for byte, for every message in every version."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from kafka_wire import registry
from kafka_wire.codecs import decode_message, encode_message
from kafka_wire.errors import DecodeError, LengthError, TextError, TrailingBytesError, TruncatedError
from kafka_wire.records.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from tests.protocol.arbitrary import seeded_messages
from tests.protocol.as_json import as_json
from tests.protocol.messages import every_version, kafkas, name_of
from tests.protocol.test_messages import damaged
from tests.reference.java_programs import ask_messages

pytestmark = pytest.mark.reference

MESSAGES_EACH = 12
DAMAGED_EACH = 60
LONGEST_TO_DAMAGE = 600

# Kafka's generated readers are laxer than we are, in these ways and no others. Nothing that a client sends by intent
# is among them: a message that is written and read as KIP-482 says has none of this.
STRICTER: dict[type[DecodeError], tuple[str, str]] = {
    TextError: (r"codec can't decode", "Java puts U+FFFD where bytes are not UTF-8; two group ids would become one"),
    TrailingBytesError: (r"", "Java leaves unread what follows a message (we: a request) or a known tagged field"),
    LengthError: (
        r"length -\d+ of |^-?\d+ elements of |tag \d+ after tag \d+|does not fit an int32|tagged fields in",
        "Java takes any negative length for null where null is allowed, tags in any order, even twice, and lets the "
        "bits of a varint beyond 32 fall off",
    ),
    TruncatedError: (
        r"ends at \d+, beyond|a field reaches|tagged field",
        "Java does not hold a tagged field to its size",
    ),
}

MAY_HAVE_MORE = {
    *(registry.messages(api_key)[0] for api_key in registry.API_NAMES),
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
}
"""What a later version puts behind these is left unread, here as in Java."""


RENAMED = {"TxnOffsetCommitRequest": ('"generationId"', '"generationIdOrMemberEpoch"')}
"""Fields that have another name here."""


def javas() -> list[tuple[type[Any], int]]:
    """The messages and versions of Kafka's classes."""
    return list(every_version(kafkas()))


# To us a tag that this version does not have is one that nobody knows: stepped over.
LAXER = re.compile(r"Tag \d+ is not valid for version \d+")


def test_java_reads_and_writes_the_same_bytes(kafka_libs: Path) -> None:
    cases = [(cls, v, message) for cls, v in javas() for message in seeded_messages(cls, v, MESSAGES_EACH)]
    questions = [
        [
            "both",
            cls.__name__,
            str(version),
            encode_message(message, version).hex(),
            json.dumps(as_json(message, version)).replace(*RENAMED.get(cls.__name__, ("", ""))),
        ]
        for cls, version, message in cases
    ]
    wrong = []
    for (cls, version, message), question, answer in zip(
        cases, questions, ask_messages(kafka_libs, questions), strict=True
    ):
        ours = question[3]
        if answer != [ours, ours, "true"]:
            wrong.append(f"{name_of((cls, version))}: {answer}\n  ours: {ours}\n  {question[4]}")
        else:
            assert decode_message(cls, version, bytes.fromhex(answer[1])) == message
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong[:10])


def test_damaged_messages_mean_the_same_to_java(kafka_libs: Path) -> None:
    """Damaged messages: what we accept means the same to Java; what we alone refuse is of a kind that is listed. What
    follows a request is left unread by both.
    """
    cases = []
    for cls, version in javas():
        rng = random.Random(f"java {name_of((cls, version))}")
        encoded = [encode_message(m, version) for m in seeded_messages(cls, version, 20)]
        encoded = [data for data in encoded if len(data) <= LONGEST_TO_DAMAGE]
        cases += [(cls, version, damaged(rng.choice(encoded), rng)) for _ in range(DAMAGED_EACH)]
    questions = [["read", cls.__name__, str(version), data.hex()] for cls, version, data in cases]
    stricter: list[tuple[str, DecodeError]] = []
    for (cls, version, data), answer in zip(cases, ask_messages(kafka_libs, questions), strict=True):
        case = f"{name_of((cls, version))} {data.hex()}: {answer}"
        try:
            message = decode_message(cls, version, data)
        except DecodeError as refusal:
            if answer[0] != "error":
                stricter.append((case, refusal))
        else:
            if answer[0] == "error":
                assert LAXER.fullmatch(answer[2]), case
                continue
            assert answer[1] == "0" or cls in MAY_HAVE_MORE, case
            assert decode_message(cls, version, bytes.fromhex(answer[0])) == message, case
    unlisted = [(case, why) for case, why in stricter if not re.search(STRICTER[type(why)][0], str(why))]
    assert unlisted == []
    assert {type(why) for _, why in stricter} == set(STRICTER), "what is no longer different should not be listed"
