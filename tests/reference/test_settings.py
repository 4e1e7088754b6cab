"""The settings that the quick tests compare ours with are those of Kafka."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.reference.broker import kafka_libs

pytestmark = pytest.mark.reference

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-settings.tsv"
SOURCE = Path(__file__).parent / "java" / "SettingsDump.java"


def test_the_recorded_settings_are_those_of_kafka() -> None:
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{kafka_libs()}/*", str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    recorded = [line for line in GOLDEN.read_text().splitlines() if not line.startswith("#")]
    assert done.stdout.splitlines() == recorded
