"""Ask Kafka's own SharePartition: the Java program java/SharePartitionCheck.java, run once for many programs.

`python -m tests.reference.share_partition` records its answers to the programs of the quick tests anew.
"""

from __future__ import annotations

import json
import lzma
import subprocess
from pathlib import Path
from typing import Any

from tests.coordination.share.kafka_programs import RECORDED, recorded_programs

SOURCE = Path(__file__).parent / "java" / "SharePartitionCheck.java"
TIMEOUT_S = 600


def ask(libs: Path, programs: list[dict[str, Any]]) -> list[list[Any]]:
    """Answers in order of the programs; see the Java program's head for their form."""
    command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{libs}/*", str(SOURCE)]
    lines = "".join(json.dumps(each) + "\n" for each in programs)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[[")]
    assert len(answers) == len(programs), done.stderr[-4000:]
    return answers


def record(libs: Path) -> None:
    """Write the file that the quick tests compare with: programs, each with its answers."""
    programs = recorded_programs()
    content = [list(each) for each in zip(programs, ask(libs, programs), strict=True)]
    RECORDED.write_bytes(lzma.compress(json.dumps(content, separators=(",", ":")).encode(), preset=9))


if __name__ == "__main__":
    from tests.reference import broker

    record(broker.kafka_libs(broker.KAFKA_VERSION))
