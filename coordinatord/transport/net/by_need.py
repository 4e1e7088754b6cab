"""Handlers of APIs that a start does not need: their modules are imported by the first request for one of them.

A daemon offers some forty APIs, of which a client that consumes uses about ten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from coordinatord.transport.net.request import RequestContext

Handler = Callable[[RequestContext, Any], Any]


class Handlers(Protocol):
    """An object with the handlers of some APIs."""

    def handlers(self) -> Mapping[int, Handler]: ...


def by_need(api_keys: Iterable[int], make: Callable[[], Handlers]) -> dict[int, Handler]:
    """A handler for each of the API keys, which are those of `make().handlers()`; `make` is called once, by the first
    request.
    """
    made: dict[int, Handler] = {}
    wanted = frozenset(api_keys)

    def handler_of(api_key: int) -> Handler:
        def handle(context: RequestContext, request: Any) -> Any:
            if not made:
                found = make().handlers()
                assert found.keys() == wanted, f"{sorted(found)} are served, {sorted(wanted)} were announced"
                made.update(found)
            return made[api_key](context, request)

        return handle

    return {api_key: handler_of(api_key) for api_key in wanted}
