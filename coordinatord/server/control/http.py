"""The commands as pages of the admin port, below /test/. Called on the threads of that port."""

from __future__ import annotations

import concurrent.futures
import hmac
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from coordinatord.broker.topics.topics import internal_partitions
from coordinatord.server.control.commands import COMMANDS, HERE, ROOT, openapi
from coordinatord.server.control.control import Control, run_from_thread
from coordinatord.server.control.problems import ControlError

if TYPE_CHECKING:
    from coordinatord.server.control.multi_worker_router import Across

TIMEOUT_S = 40.0
"""Longest duration of a request in seconds: longer than the longest wait (changes.MAX_WAIT_S)."""


class Pages:
    """The pages of the control. `answer` is one of the admin port's parts (observe.web). With a `token`, requests need
    it. `host` is the admin port's.
    """

    def __init__(self, control: Control, token: str | None, host: str = "") -> None:
        self._control = control
        self._token = token
        self._across: Across | None = None
        node = control.node
        if node.part is not None and node.part.placed is not None:
            from coordinatord.server.control.multi_worker_router import Across

            self._across = Across(node.nodes, node.part.placed, host, token, self._run_here, self._count)

    def answer(self, method: str, path: str, query: Mapping[str, str], token: str) -> tuple[int, Any]:
        """Return HTTP's status and the response as JSON. `path` begins with /test."""
        if self._token and not hmac.compare_digest(token.encode(), self._token.encode()):
            return 401, {"error": "These pages need the token of test.control.token: Authorization: Bearer TOKEN."}
        below = path.removeprefix(ROOT).rstrip("/")
        if below == "/openapi.json" and method == "GET":
            return 200, openapi("1")
        try:
            here = self._across is None or below.startswith(f"{HERE}/")
            return 200, self._run(method, below.removeprefix(HERE), query, here=here)
        except ControlError as error:
            return error.status, {"error": str(error)}
        except (TimeoutError, concurrent.futures.CancelledError, RuntimeError):
            return 503, {"error": "The event loop does not answer: the daemon is stopping."}

    def _run(self, method: str, below: str, query: Mapping[str, str], *, here: bool) -> Any:
        for command in COMMANDS:
            arguments = command.arguments(below, query) if command.method == method else None
            if arguments is not None:
                run = self._run_here if here or self._across is None else self._across.call
                return run(command.name, arguments)
        raise ControlError(f"There is no {method} {ROOT}{below}; {ROOT}/openapi.json says what there is.", 404)

    def _run_here(self, name: str, arguments: dict[str, Any]) -> Any:
        return run_from_thread(self._control, partial(_call, name=name, arguments=arguments), TIMEOUT_S)

    def _count(self, topic: str) -> int:
        """Return the number of partitions that a coordinators' topic has, or gets."""
        topics = self._control.node.topics
        return topics.internal(topic).count() or internal_partitions(topics.settings)[topic][1]


def _call(control: Control, *, name: str, arguments: dict[str, Any]) -> Any:
    return getattr(control, name)(**arguments)
