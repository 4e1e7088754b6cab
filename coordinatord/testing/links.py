"""How commands get to the control of a server: to another thread, or over HTTP. coordinatord/server/control/commands.py
has the commands.
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
"""Longer than the longest wait of one call (coordinatord.server.control.changes)."""


class Link(Protocol):
    """Calls commands by name. Raises KafkaError with what the control says."""

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Call one, and wait in this thread."""
        ...

    async def call_later(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Call one, and wait in a coroutine."""
        ...


class ThreadLink:
    """To a control whose event loop runs in another thread. `find` returns the present one: a restart makes another."""

    def __init__(self, find: Callable[[], Control]) -> None:
        self._find = find

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """See Link."""
        try:
            found: dict[str, Any] = self._begin(name, arguments).result(CALL_TIMEOUT_S)
        except ControlError as error:
            raise KafkaError(str(error)) from None
        return found

    async def call_later(self, name: str, **arguments: Any) -> dict[str, Any]:
        """See Link."""
        try:
            found: dict[str, Any] = await asyncio.wrap_future(self._begin(name, arguments))
        except ControlError as error:
            raise KafkaError(str(error)) from None
        return found

    def _begin(self, name: str, arguments: dict[str, Any]) -> Any:
        control = self._find()
        return asyncio.run_coroutine_threadsafe(getattr(control, name)(**arguments), control.node.loop)


class HttpLink:
    """To /test/ on an admin port. `find` returns (host, port, token)."""

    def __init__(self, find: Callable[[], tuple[str, int, str]]) -> None:
        self._find = find

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """See Link."""
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
        """See Link."""
        return await asyncio.to_thread(self.call, name, **arguments)
