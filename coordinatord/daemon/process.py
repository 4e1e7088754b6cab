"""The process around a daemon: its event loop and its signals."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from coordinatord.config import Settings
from coordinatord.daemon.daemon import Daemon
from coordinatord.observe.logger import get_logger
from coordinatord.observe.logs import gather

if TYPE_CHECKING:
    from coordinatord.daemon.worker import Part


async def _serve(settings: Settings, on_listening: Callable[[Daemon], None], part: Part | None) -> int:
    loop = asyncio.get_running_loop()
    try:
        code = await _run(settings, loop, on_listening, part)
        get_logger("coordinatord.daemon").info("stopped", exit_code=code)
    finally:
        gather(None)
    return code


async def _run(
    settings: Settings, loop: asyncio.AbstractEventLoop, on_listening: Callable[[Daemon], None], part: Part | None
) -> int:
    daemon = Daemon(settings, loop, part=part)  # may wait for another node's lease, and says so
    gather(loop.call_soon)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, daemon.request_stop, signal.Signals(number).name)
    if part is not None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())  # the supervisor blocked them
    try:
        await daemon.start()
        on_listening(daemon)
        await daemon.wait()
    finally:
        code = await daemon.stop()
        if part is not None:
            # A second signal must not kill it: its supervisor and a signal to the whole process group both stop it.
            signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
    return code


def run(
    settings: Settings, on_listening: Callable[[Daemon], None] = lambda daemon: None, part: Part | None = None
) -> int:
    """Serve until a signal or a failure of the log; returns the exit code. `on_listening` is called when clients can
    connect.
    """
    try:
        import uvloop
    except ImportError:  # no wheel for this platform: asyncio's own loop also serves, more slowly
        new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    else:
        new_loop = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(_serve(settings, on_listening, part))
