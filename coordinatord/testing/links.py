"""Transport of commands to the control of a server: to another thread, or over HTTP.
coordinatord/server/control/commands.py lists the commands.
"""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlencode

from coordinatord.server.control.commands import BY_NAME
from coordinatord.server.control.problems import ControlError
from coordinatord.testing.problems import KafkaError

if TYPE_CHECKING:
    from coordinatord.server.control.control import Control

CALL_TIMEOUT_S = 35.0
"""Timeout in seconds, longer than the longest wait of one call (coordinatord.server.control.change_notifier)."""


class Link(Protocol):
    """Transport that runs commands by name, with keyword arguments, and returns their results. Raises KafkaError with
    the message of the control if a command fails.
    """

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Run one command and block this thread until its result arrives."""
        ...

    async def call_later(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Run one command and await its result."""
        ...


class ThreadLink:
    """Link to a control on the event loop of another thread. `find` returns the present control, which a restart
    replaces.
    """

    def __init__(self, find: Callable[[], Control]) -> None:
        self._find = find

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Run one command on the control's loop, as Link.call."""
        try:
            found: dict[str, Any] = self._begin(name, arguments).result(CALL_TIMEOUT_S)
        except ControlError as error:
            raise KafkaError(str(error)) from None
        return found

    async def call_later(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Run one command on the control's loop, as Link.call_later."""
        try:
            found: dict[str, Any] = await asyncio.wrap_future(self._begin(name, arguments))
        except ControlError as error:
            raise KafkaError(str(error)) from None
        return found

    def _begin(self, name: str, arguments: dict[str, Any]) -> Any:
        control = self._find()
        return asyncio.run_coroutine_threadsafe(getattr(control, name)(**arguments), control.node.loop)


class HttpLink:
    """Link to /test/ on an admin port. `find` returns (host, port, token)."""

    def __init__(self, find: Callable[[], tuple[str, int, str]]) -> None:
        self._find = find

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Send one request, as Link.call. Raises KafkaError also if the server does not respond."""
        command = BY_NAME[name]
        path, query = command.place(arguments)
        host, port, token = self._find()
        asking = http.client.HTTPConnection(host, port, timeout=CALL_TIMEOUT_S)
        try:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            asking.request(command.method, f"{path}?{urlencode(query)}" if query else path, headers=headers)
            answer = asking.getresponse()
            told: dict[str, Any] = json.loads(answer.read())
        except (OSError, http.client.HTTPException) as error:
            raise KafkaError(f"The server at {host}:{port} does not answer: {error}.") from error
        finally:
            asking.close()
        if answer.status != http.client.OK:
            raise KafkaError(str(told.get("error", told)))
        return told

    async def call_later(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Send one request on another thread, as Link.call_later."""
        return await asyncio.to_thread(self.call, name, **arguments)
