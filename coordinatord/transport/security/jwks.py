"""The public keys of tokens' signatures, from a file or a URL (RFC 7517), refreshed periodically off the event loop.

A token may name a key that was created since the last read: then the keys are read again soon, and the client's next
attempt succeeds, as with Kafka's RefreshingHttpsJwks.
"""

from __future__ import annotations

import asyncio
import json
import urllib.request
from typing import Final

import jwt

from coordinatord.base.observe.logger import get_logger

TIMEOUT_S: Final = 10.0
MAX_BYTES: Final = 1024 * 1024
LEAST_INTERVAL_S: Final = 5.0
"""Minimum time between two reads caused by unknown keys."""

SCHEMES: Final = ("https://", "http://", "file://")

log = get_logger("coordinatord.transport.security")


class Jwks:
    """Keys by their ids. The constructor reads them once, and blocks: no client is connected yet."""

    def __init__(self, url: str, refresh_ms: int, loop: asyncio.AbstractEventLoop) -> None:
        self._url = url
        self._refresh_s = refresh_ms / 1000
        self._loop = loop
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._read_s = loop.time()
        self._reading: asyncio.Task[None] | None = None
        try:
            self._keys = self._read()
        except Exception as error:
            self._not_read(error)

    def find(self, key_id: str | None) -> jwt.PyJWK | None:
        """Return the key with this id, or None. A token without an id refers to the only key."""
        keys = self._keys
        found = keys.get(key_id)
        if found is None and key_id is None and len(keys) == 1:
            found = next(iter(keys.values()))
        since_s = self._loop.time() - self._read_s
        if since_s >= self._refresh_s or (found is None and since_s >= LEAST_INTERVAL_S):
            self._read_soon()
        return found

    def _read_soon(self) -> None:
        if self._reading is None or self._reading.done():
            self._read_s = self._loop.time()
            self._reading = self._loop.create_task(self._read_again())

    async def _read_again(self) -> None:
        try:
            self._keys = await self._loop.run_in_executor(None, self._read)
        except Exception as error:
            self._not_read(error)

    def _not_read(self, error: Exception) -> None:
        log.warning("the keys of tokens cannot be read", url=self._url, reason=f"{type(error).__name__}: {error}")

    def _read(self) -> dict[str | None, jwt.PyJWK]:
        if not self._url.startswith(SCHEMES):
            raise ValueError(f"the URL must begin with {', '.join(SCHEMES)}")
        with urllib.request.urlopen(self._url, timeout=TIMEOUT_S) as response:
            content = response.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ValueError(f"more than {MAX_BYTES} bytes")
        keys = jwt.PyJWKSet.from_dict(json.loads(content)).keys
        return {key.key_id: key for key in keys}
