"""Kafka's own classes read what we write and write what we read, byte for byte, for every message in every version."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.compiler import decode_message, encode_message
from tests.protocol.arbitrary import seeded_messages
from tests.protocol.messages import every_version, name_of
from tests.reference.java_messages import ask, to_json

pytestmark = pytest.mark.reference

MESSAGES_EACH = 12


def test_java_reads_and_writes_the_same_bytes(kafka_libs: Path) -> None:
    cases = [(cls, v, message) for cls, v in every_version() for message in seeded_messages(cls, v, MESSAGES_EACH)]
    questions = [
        ["both", cls.__name__, str(version), encode_message(message, version).hex(), to_json(message, version)]
        for cls, version, message in cases
    ]
    wrong = []
    for (cls, version, message), question, answer in zip(cases, questions, ask(kafka_libs, questions), strict=True):
        ours = question[3]
        if answer != [ours, ours, "true"]:
            wrong.append(f"{name_of((cls, version))}: {answer}\n  ours: {ours}\n  {question[4]}")
        else:
            assert decode_message(cls, version, bytes.fromhex(answer[1])) == message
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong[:10])
