"""Our daemon in the test's process, with an authorizer, and connections whose principal the test sets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from coordinatord.server.daemon.daemon import Daemon
from coordinatord.testing.conform.raw_client import RawClient
from coordinatord.transport.security.principal import Principal
from tests.reference.in_process import MemoryLink, running_in_process
from tests.server.access.cases import SUPER

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{SUPER}",
}


@asynccontextmanager
async def authorized(
    directory: Path, settings: Mapping[str, str] = AUTHORIZER
) -> AsyncIterator[tuple[Daemon, Callable[[str], Awaitable[RawClient]]]]:
    """A daemon, and what connects to it as a user."""
    async with running_in_process(directory, settings) as process:

        async def connect(user: str) -> RawClient:
            link = MemoryLink(process.daemon)
            link.connection.principal = Principal("User", user)
            return RawClient(link, user)

        yield process.daemon, connect
