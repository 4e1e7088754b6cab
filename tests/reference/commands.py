"""Kafka's command-line tools for groups, many commands in one process."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parent / "java" / "GroupCommands.java"
SEPARATOR = "\x1e"


@dataclass
class Tool:
    """A tool of package org.apache.kafka.tools.consumer.group, run on a broker."""

    libs: Path
    bootstrap: str
    name: str = "ConsumerGroupCommand"

    def ask(self, *commands: Sequence[str]) -> list[str]:
        """What each command prints."""
        command = [
            "java",
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            f"{self.libs}/*",
            str(SOURCE),
            self.name,
        ]
        lines = ["\t".join(("--bootstrap-server", self.bootstrap, "--timeout", "120000", *each)) for each in commands]
        done = subprocess.run(
            command, input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=300, check=False
        )
        found = done.stdout.split(f"\n{SEPARATOR}\n")[:-1]
        assert len(found) == len(commands), (done.stdout + done.stderr)[-4000:]
        return found
