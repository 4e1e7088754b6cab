"""The daemon in this process, with a thread and an event loop of its own: tests can count and replace its methods."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from pathlib import Path
from typing import Any

from coordinatord.base.config import Settings
from coordinatord.base.config.address import parse_listeners
from coordinatord.base.observe.health import HealthState
from coordinatord.server.daemon.daemon import Daemon
from tests.support.waiting import PATIENCE_S


class Served:
    """A daemon that is ready when it has been made. `settings` are attributes of Settings."""

    def __init__(self, data_dir: Path, **settings: Any) -> None:
        self._settings = dataclasses.replace(
            Settings(), log_dirs=str(data_dir), listeners=parse_listeners("127.0.0.1:0"), log_flush="never", **settings
        )
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._is_up.wait(PATIENCE_S)

    async def _serve(self) -> None:
        daemon = Daemon(self._settings, asyncio.get_running_loop())
        await daemon.start()
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        self.port = daemon.bound[0][2]
        while daemon.health.state is not HealthState.READY:  # noqa: ASYNC110  # nobody tells of it
            await asyncio.sleep(0.01)
        self._is_up.set()
        await self._ended.wait()
        await daemon.stop()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def stop(self) -> None:
        """Stop it in order, and wait for its thread."""
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(PATIENCE_S)
