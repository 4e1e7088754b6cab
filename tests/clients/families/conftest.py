"""Fixtures of the tests with foreign clients: their tools, installed; their programs, ended with the test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from tests.clients.families.clients import CLIENTS, CONSUMER, CONSUMER_CLIENTS, Client
from tests.clients.families.consumer_groups import set_session_timeout
from tests.clients.families.program import Command, Program
from tests.clients.families.toolchains import ToolMissing
from tests.clients.families.tools import GroupCommand

SESSION_TIMEOUT_MS = 10_000  # nobody is expelled because other programs start
HEARTBEAT_INTERVAL_MS = 300


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with `@pytest.mark.scenario(name)` runs with each client that can play it, by each protocol."""
    marker = metafunc.definition.get_closest_marker("scenario")
    if marker is None:
        return
    playing = [client for client in [*CLIENTS, *CONSUMER_CLIENTS] if client.plays(marker.args[0])]
    metafunc.parametrize("client", playing, ids=lambda client: client.slug)


@pytest.fixture(scope="session")
def commands() -> Callable[[Client], Command]:
    """What runs a client; without its tools the test is skipped, in CI it fails."""
    found: dict[str, Command | ToolMissing] = {}

    def command(client: Client) -> Command:
        if client.name not in found:
            try:
                found[client.name] = client.command()
            except ToolMissing as missing:
                found[client.name] = missing
        answer = found[client.name]
        if isinstance(answer, ToolMissing):
            if os.environ.get("CI") == "true" and not client.optional:
                pytest.fail(f"{client.name}: {answer}")
            pytest.skip(f"skipped: {client.name} {answer}")
        return answer

    return command


@pytest.fixture
def start(client: Client, commands: Callable[[Client], Command]) -> Iterator[Callable[..., Program]]:
    """`start(mode="consume", group=..., ...)` runs the client; killed when the test ends."""
    started: list[Program] = []
    command = commands(client)

    def run(**arguments: object) -> Program | GroupCommand:
        if client.protocol == CONSUMER:
            arguments["protocol"] = CONSUMER
        program = client.start(command, **arguments)
        if isinstance(program, Program):
            started.append(program)
        return program

    yield run
    for program in started:
        if program.process.poll() is None:
            program.kill()


@pytest.fixture
def join(client: Client, start: Callable[..., Program]) -> Callable[..., Program]:
    """`join(bootstrap, group, topic)` starts one member, with the first of the client's assignors.

    By the consumer protocol the session is a setting of the group, which the first member's makes.
    """
    sessions: dict[str, object] = {}

    def run(bootstrap: str, group: str, topic: str, **arguments: object) -> Program:
        arguments = {
            "mode": "consume",
            "assignor": client.assignors[0],
            "session_timeout_ms": SESSION_TIMEOUT_MS,
            "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
            **arguments,
        }
        session_timeout_ms = arguments["session_timeout_ms"]
        if client.protocol == CONSUMER and sessions.setdefault(group, None) != session_timeout_ms:
            set_session_timeout(bootstrap, group, int(str(session_timeout_ms)))
            sessions[group] = session_timeout_ms
        return start(bootstrap=bootstrap, group=group, topic=topic, **arguments)

    return run
