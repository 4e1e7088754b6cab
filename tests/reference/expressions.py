"""Ask RE2/J, of the version that Kafka has: the Java program java/ExpressionCheck.java, run once for many patterns.

`python -m tests.reference.expressions` records its answers to the patterns of the quick tests anew.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.coordination.group.consumer.expression_cases import RECORDED, RECORDED_SEEDS, TOPICS, patterns

SOURCE = Path(__file__).parent / "java" / "ExpressionCheck.java"
TIMEOUT_S = 300


def ask(libs: Path, asked: list[str]) -> list[Any]:
    """Answers in order of the patterns; see the program's head for their form."""
    command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{libs}/*", str(SOURCE)]
    lines = "".join(json.dumps([pattern, TOPICS]) + "\n" for pattern in asked)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(asked), done.stderr[-4000:]
    return answers


def record(libs: Path) -> None:
    """Write the file that the quick tests compare with: a pattern and its answer in each line."""
    asked = list(dict.fromkeys(patterns(RECORDED_SEEDS)))
    with RECORDED.open("w") as out:
        for pattern, answered in zip(asked, ask(libs, asked), strict=True):
            out.write(json.dumps([pattern, answered], separators=(",", ":")) + "\n")


if __name__ == "__main__":
    from tests.reference import broker

    record(broker.kafka_libs())
