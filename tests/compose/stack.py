"""`deploy/compose.yaml`, running: what its containers say and do, and how to be rough with them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.compose.engine import CommandFailed, Engine
from tests.compose.images import BUILD_TIMEOUT_S

PROJECT_NAME = "coordinatord-tests"
IMAGE = "coordinatord-tests"
CONSUMERS = ("consumer-1", "consumer-2", "consumer-3")
ON_HOST = "consumer-on-host"
HOST_PROFILE = ("--profile", "host")
PARTITIONS = frozenset(range(6))  # num.partitions in the compose file

UP_TIMEOUT_S = 120
DOWN_TIMEOUT_S = 300
POLL_INTERVAL_S = 0.3
LOG_LINES_SHOWN = 15

Event = dict[str, object]

# Run by the clients' image, in the network of the stack: what the coordinator says is committed.
ASK_COMMITTED = """
import json, os
from kafka import KafkaAdminClient
admin = KafkaAdminClient(bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"])
offsets = admin.list_group_offsets([os.environ["GROUP_ID"]])[os.environ["GROUP_ID"]]
print(json.dumps({str(each.partition): value.offset for each, value in offsets.items()}))
"""


@dataclass(frozen=True, slots=True)
class Stack:
    engine: Engine
    context: Path  # a copy of the project with a filled wheelhouse
    env: dict[str, str]  # of compose: the file's variables

    def compose(self, *arguments: str, timeout_s: float) -> str:
        named = ("--project-name", PROJECT_NAME, "--file", "deploy/compose.yaml")
        return self.engine.compose(*named, *arguments, timeout_s=timeout_s, cwd=self.context, env=self.env)

    def build(self) -> None:
        self.compose(*HOST_PROFILE, "build", timeout_s=BUILD_TIMEOUT_S)

    def up(self, *services: str) -> None:
        """Start what is not running; compose waits until the coordinator is healthy before it starts clients."""
        self.compose("up", "--detach", "--no-build", *services, timeout_s=UP_TIMEOUT_S)

    def up_on_host(self) -> None:
        """Start the consumer that is outside of the containers' network."""
        self.compose(*HOST_PROFILE, "up", "--detach", "--no-build", ON_HOST, timeout_s=UP_TIMEOUT_S)

    def remove(self, service: str) -> None:
        self.engine.docker("rm", "--force", self.container(service))

    def down(self) -> None:
        self.compose(
            *HOST_PROFILE,
            "down",
            "--volumes",
            "--remove-orphans",
            "--rmi",
            "all",
            "--timeout",
            "5",
            timeout_s=DOWN_TIMEOUT_S,
        )

    def container(self, service: str) -> str:
        labels = {"project": PROJECT_NAME, "service": service}
        filters = [f"--filter=label=com.docker.compose.{name}={value}" for name, value in labels.items()]
        found = self.engine.docker("ps", "--all", "--quiet", *filters).split()
        assert len(found) == 1, f"{service}: containers {found}"
        return found[0]

    def inspect(self, service: str, what: str) -> str:
        """A field of `docker inspect`, as in ".State.Health.Status"."""
        return self.engine.docker("inspect", "--format", "{{" + what + "}}", self.container(service)).strip()

    def kill(self, service: str) -> None:
        self.engine.docker("kill", "--signal", "KILL", self.container(service))

    def start(self, service: str) -> None:
        self.engine.docker("start", self.container(service))

    def stop(self, service: str, *, within_s: int) -> int:
        """SIGTERM, and SIGKILL after `within_s`; returns the exit code, which is 137 when it came to that."""
        self.engine.docker("stop", "--time", str(within_s), self.container(service))
        return int(self.inspect(service, ".State.ExitCode"))

    def execute(self, service: str, *command: str) -> str:
        return self.engine.docker("exec", self.container(service), *command)

    def events(self, service: str) -> list[Event]:
        """What a client printed since it was created, one object a line."""
        lines = self.engine.docker("logs", self.container(service)).splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def committed(self, through: str) -> dict[int, int]:
        """Partition -> offset, as the coordinator tells a client in the container of the service `through`."""
        said = json.loads(self.execute(through, "/opt/clients/bin/python3", "-c", ASK_COMMITTED))
        return {int(partition): offset for partition, offset in said.items()}

    def assignment(self) -> dict[str, list[int]]:
        """Consumer -> the partitions that it has by its own account; none while it rebalances."""
        held: dict[str, list[int]] = {}
        for service in CONSUMERS:
            held[service] = []
            if self.inspect(service, ".State.Running") == "true":
                for event in self.events(service):
                    if event["event"] in ("started", "revoked"):
                        held[service] = []
                    elif event["event"] == "assigned":
                        held[service] = _numbers(event["partitions"])
        return held

    def await_assignment(self, *members: str, timeout_s: float) -> dict[str, list[int]]:
        """Wait until these consumers share all partitions evenly and nobody else has any."""

        def shared() -> bool:
            held = self.assignment()
            each = len(PARTITIONS) // len(members)
            taken = [partition for service in members for partition in held[service]]
            return sorted(taken) == sorted(PARTITIONS) and all(len(held[service]) == each for service in members)

        self.await_that(f"{', '.join(members)} share the partitions", shared, timeout_s)
        return self.assignment()

    def await_healthy(self, *, timeout_s: float) -> None:
        self.await_that(
            "the coordinator is healthy",
            lambda: self.inspect("coordinator", ".State.Health.Status") == "healthy",
            timeout_s,
        )

    def await_that(self, what: str, condition: Callable[[], bool], timeout_s: float) -> None:
        begun = time.monotonic()
        while not condition():
            if time.monotonic() - begun > timeout_s:
                raise AssertionError(f"not within {timeout_s} s: {what}\n{self.last_words()}")
            time.sleep(POLL_INTERVAL_S)
        print(f"{what}: after {time.monotonic() - begun:.1f} s")

    def last_words(self) -> str:
        """The end of every container's log, for a failure's message."""
        told = []
        for service in ("coordinator", "producer", *CONSUMERS):
            try:
                words = self.engine.docker("logs", "--tail", str(LOG_LINES_SHOWN), self.container(service), stderr=True)
            except (AssertionError, CommandFailed) as missing:
                words = str(missing)
            told.append(f"---- {service}\n{words}")
        return "\n".join(told)


def _numbers(value: object) -> list[int]:
    assert isinstance(value, list)
    return [int(each) for each in value]


def values_seen(events: list[Event]) -> set[int]:
    return {value for event in events if event["event"] == "processed" for value in _numbers(event["values"])}


def highest_committed(events: list[Event]) -> dict[int, int]:
    """Partition -> the highest offset whose commit was acknowledged to this consumer."""
    highest: dict[int, int] = {}
    for event in events:
        if event["event"] == "committed":
            offsets = event["offsets"]
            assert isinstance(offsets, dict)
            for partition, offset in offsets.items():
                highest[int(partition)] = max(offset, highest.get(int(partition), 0))
    return highest
