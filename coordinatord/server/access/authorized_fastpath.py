"""Shortcuts behind permissions: a client may repeat a request as long as no ACL has changed.

A shortcut learns a request only if its rule has admitted all of it, together with its sender: the object that guard.py
makes for a principal and an address. The same bytes from another sender take the full path. The decision of a rule
depends on nothing else but the ACLs (`Authorizer.changes`); the APIs with shortcuts name their topics, and the shortcut
itself handles the deletion of a topic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from coordinatord.transport.net.connection import Connection
from coordinatord.transport.net.request import RequestContext
from coordinatord.transport.net.routes import Shortcut, ShortcutMaker
from coordinatord.transport.security.authorizer import Authorizer
from kafka_wire.framing import Frames
from kafka_wire.registry import Codec


class Repeating:
    """A shortcut that is made anew when an ACL has changed. `refresh` is that of guard.guarded."""

    def __init__(
        self, make: Callable[[], Shortcut], authorizer: Authorizer, refresh: Callable[[], object] | None
    ) -> None:
        self._make = make
        self._authorizer = authorizer
        self._refresh = refresh
        self._changes = authorizer.changes
        self.inner = make()

    def __len__(self) -> int:
        return len(self.inner)  # type: ignore[arg-type]

    def answer(self, connection: Connection, frames: Frames, first: int, stop: int) -> int:
        """Respond to repeated requests (net.routes.Shortcut), unless an ACL has changed."""
        if self._refresh is not None:
            self._refresh()
        changes = self._authorizer.changes
        if changes != self._changes:
            self._changes = changes
            self.inner = self._make()
            return 0
        return self.inner.answer(connection, frames, first, stop)

    def learn(self, context: RequestContext, request: Any, buf: bytes, start: int, end: int) -> None:
        """Learn a request (net.routes.Shortcut). Requests of other workers pass no rule, and are not learned."""
        if context.admitted is not None and context.admitted.is_whole:
            self.inner.learn(context, request, buf, start, end)


def repeating(
    shortcuts: Mapping[int, ShortcutMaker], authorizer: Authorizer, refresh: Callable[[], object] | None = None
) -> dict[int, ShortcutMaker]:
    """Return the makers of shortcuts, behind permissions."""

    def behind(make: ShortcutMaker) -> ShortcutMaker:
        def made(codec: Codec) -> Shortcut | None:
            first = make(codec)
            if first is None:
                return None

            def anew() -> Shortcut:
                shortcut = make(codec)
                assert shortcut is not None, "this version has one"
                return shortcut

            return Repeating(anew, authorizer, refresh)

        return made

    return {api_key: behind(make) for api_key, make in shortcuts.items()}
