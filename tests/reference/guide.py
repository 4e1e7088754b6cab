"""The commands of deploy/MIGRATION.md, run as they stand there.

They go through bash, with directories of the test's in place of those on the page. `kafka-*.sh` and `coordinatord` are
small scripts on PATH that stand for what an installation has; what starts and stops servers is left to the test.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.daemon import REPOSITORY
from tests.reference.broker import TOOLS

GUIDE = REPOSITORY / "deploy" / "MIGRATION.md"
TIMEOUT_S = 180
CLASSES = {
    "kafka-storage.sh": "kafka.tools.StorageTool",
    "kafka-consumer-groups.sh": TOOLS["ConsumerGroupCommand"],
}
SERVERS = re.compile(r"kafka-server-(start|stop)\.sh\b|coordinatord serve\b")


def commands(heading: str) -> Iterator[str]:
    """The lines of the shell blocks below a heading of the guide, in order."""
    section = re.search(rf"^## {heading}$(.*?)(?=^## |\Z)", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert section is not None, f"the guide has no part that is called {heading!r}"
    for block in re.findall(r"^```sh\n(.*?)^```$", section[1], re.MULTILINE | re.DOTALL):
        yield from block.splitlines()


class Shell:
    """Runs lines of the guide. `places` says what each path and address of the guide is in this test."""

    def __init__(self, libs: Path, directory: Path) -> None:
        self.bin = directory / "bin"
        self.bin.mkdir(parents=True)
        for name, main_class in CLASSES.items():
            self._script(name, ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{libs}/*", main_class])
        self._script("coordinatord", [sys.executable, "-m", "coordinatord"])

    def _script(self, name: str, command: list[str]) -> None:
        path = self.bin / name
        path.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        path.chmod(0o755)

    def run(self, heading: str, places: Mapping[str, str], servers: Mapping[str, Callable[[], object]]) -> list[str]:
        """Run a part of the guide; what each command printed. `servers` has what to do for `start`, `stop`, `serve`."""
        said = []
        for line in commands(heading):
            found = SERVERS.search(line)
            if found:
                servers[found[1] or "serve"]()
                continue
            for place, real in places.items():
                line = line.replace(place, real)
            said.append(self.bash(line))
        return said

    def bash(self, line: str) -> str:
        """What a command prints; it has to succeed."""
        environment = {"PATH": f"{self.bin}:/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": str(REPOSITORY)}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            env=environment,
            cwd=self.bin,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout
