"""Ask Kafka's own generated message classes: the Java program beside this file, compiled when a test needs it."""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCE = Path(__file__).parent / "java" / "MessageCheck.java"
TIMEOUT_S = 300


def ask(libs: Path, questions: list[list[str]]) -> list[list[str]]:
    """Answer all questions in one run of the program; see its head for their form."""
    command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += ["-cp", f"{libs}/*", str(SOURCE)]  # a source file instead of a class: java compiles it first
    lines = "".join("\t".join(question) + "\n" for question in questions)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    answers = [line.split("\t") for line in done.stdout.splitlines()]
    assert len(answers) == len(questions), done.stderr[-4000:]
    return answers
