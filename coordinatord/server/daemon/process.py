"""The process around a daemon: its event loop and its signals."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from coordinatord.base.config import Settings
from coordinatord.base.observe.logger import get_logger
from coordinatord.base.observe.logs import gather
from coordinatord.server.daemon.daemon import Daemon

if TYPE_CHECKING:
    from coordinatord.server.daemon.worker import WorkerConfig

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


async def _serve(settings: Settings, on_listening: Callable[[Daemon], None], part: WorkerConfig | None) -> int:
    loop = asyncio.get_running_loop()
    try:
        code = await _run(settings, loop, on_listening, part)
        get_logger("coordinatord.server.daemon").info("stopped", exit_code=code)
    finally:
        gather(None)
    return code


async def _run(
    settings: Settings,
    loop: asyncio.AbstractEventLoop,
    on_listening: Callable[[Daemon], None],
    part: WorkerConfig | None,
) -> int:
    daemon = Daemon(settings, loop, part=part)  # may wait for another node's lease, and logs that
    gather(loop.call_soon)

    def stop(number: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(daemon.request_stop, signal.Signals(number).name)

    for number in STOP_SIGNALS:
        # Not the loop's own handlers: removing those restores the default action, death, if only for a moment.
        signal.signal(number, stop)
    if part is not None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())  # the supervisor blocked them
    try:
        await daemon.start()
        on_listening(daemon)
        await daemon.wait()
    finally:
        code = await daemon.stop()
        for number in STOP_SIGNALS:
            # A further signal must not kill a process that has stopped in order: a worker's supervisor and a signal to
            # its process group both stop it, and a user may press Ctrl-C again.
            signal.signal(number, signal.SIG_IGN)
    return code


def run(
    settings: Settings, on_listening: Callable[[Daemon], None] = lambda daemon: None, part: WorkerConfig | None = None
) -> int:
    """Serve until a signal or a failure of the log; return the exit code. `on_listening` is called when clients can
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
