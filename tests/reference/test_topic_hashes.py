"""The hashes by which groups of the consumer protocol know that a topic has changed are Kafka's (KIP-1101)."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest

from coordinatord.group.consumer.topics import group_hash, topic_hash
from tests.group.topic_hashes import RECORDED, RECORDED_SEEDS, Case, groups

pytestmark = pytest.mark.reference

SOURCE = Path(__file__).parent / "java" / "TopicHash.java"


def kafkas(libs: Path, asked: list[list[Case]]) -> list[list[int]]:
    """What Kafka says; see the program's head."""
    lines = ["\t".join(map(_line, group)) for group in asked]
    command = ["java", "-XX:TieredStopAtLevel=1", "-Dstdout.encoding=UTF-8", "-cp", f"{libs}/*", str(SOURCE)]
    done = subprocess.run(
        command, input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [[int(number) for number in line.split("\t")] for line in done.stdout.splitlines()]


def _line(case: Case) -> str:
    topic_id = base64.urlsafe_b64encode(case.topic_id).decode().rstrip("=")
    return f"{topic_id}|{case.name}|{';'.join(','.join(racks) or '-' for racks in case.racks)}"


def test_hashes_are_kafkas(kafka_libs: Path) -> None:
    asked = groups(range(300))
    for group, answered in zip(asked, kafkas(kafka_libs, asked), strict=True):
        hashes = {case.name: topic_hash(*case) for case in group}
        assert [*hashes.values(), group_hash(hashes)] == answered


def test_what_is_recorded_is_what_kafka_says(kafka_libs: Path) -> None:
    assert kafkas(kafka_libs, groups(RECORDED_SEEDS)) == RECORDED
