"""Ask Kafka's own server-side assignors: the Java program java/ServerAssignorCheck.java, run once for many questions.

`python -m tests.reference.server_assignors` records its answers to the questions of the quick tests anew.
"""

from __future__ import annotations

import json
import lzma
import subprocess
from pathlib import Path
from typing import Any

from tests.coordination.group.consumer.assignor_cases import RECORDED, RECORDED_SEEDS, Question, questions
from tests.coordination.group.share import assignor_cases as share_cases

SOURCE = Path(__file__).parent / "java" / "ServerAssignorCheck.java"
TIMEOUT_S = 300


def ask(libs: Path, asked: list[Question]) -> list[list[Any]]:
    """Answers in order of the questions; see the program's head for their form."""
    command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{libs}/*", str(SOURCE)]
    lines = "".join(json.dumps(each) + "\n" for each in asked)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(asked), done.stderr[-4000:]
    return answers


def record(libs: Path, path: Path, asked: list[Question]) -> None:
    """Write a file that the quick tests compare with: questions, each with its answer."""
    recorded = [list(each) for each in zip(asked, ask(libs, asked), strict=True)]
    path.write_bytes(lzma.compress(json.dumps(recorded, separators=(",", ":")).encode(), preset=9))


if __name__ == "__main__":
    from tests.reference import broker

    record(broker.kafka_libs(), RECORDED, questions(RECORDED_SEEDS))
    record(broker.kafka_libs(), share_cases.RECORDED, share_cases.questions(share_cases.RECORDED_SEEDS))
