"""Ask Kafka's own hash of a group's topics: the Java program java/MetadataHashCheck.java, run once for many groups.

`python -m tests.reference.metadata_hash` records its answers to the questions of the quick tests anew.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.coordination.group.consumer.hash_cases import RECORDED, RECORDED_SEEDS, question

SOURCE = Path(__file__).parent / "java" / "MetadataHashCheck.java"
TIMEOUT_S = 300


def ask(libs: Path, asked: list[list[Any]]) -> list[list[str]]:
    """Answers in order of the questions; see the program's head for their form."""
    command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{libs}/*", str(SOURCE)]
    lines = "".join(json.dumps(each) + "\n" for each in asked)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(asked), done.stderr[-4000:]
    return answers


def record(libs: Path) -> None:
    """Write the file that the quick tests compare with: a question and its answer in each line."""
    asked_all = [question(seed) for seed in RECORDED_SEEDS]
    with RECORDED.open("w") as out:
        for each in zip(asked_all, ask(libs, asked_all), strict=True):
            out.write(json.dumps(each, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    from tests.reference import broker

    record(broker.kafka_libs())
