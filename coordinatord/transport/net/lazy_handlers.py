"""Handlers of APIs that a start does not need: the first request for one of the APIs imports their module.

A daemon offers some forty APIs; a consuming client uses about ten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from coordinatord.transport.net.request import RequestContext

Handler = Callable[[RequestContext, Any], Any]


class Handlers(Protocol):
    """An object with the handlers of some APIs."""

    def handlers(self) -> Mapping[int, Handler]: ...


def lazy_handlers(api_keys: Iterable[int], make: Callable[[], Handlers]) -> dict[int, Handler]:
    """Return a handler for each of the API keys, which are the keys of `make().handlers()`. The first request calls
    `make`, once.
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
