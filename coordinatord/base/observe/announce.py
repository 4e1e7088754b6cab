"""The messages printed once the daemon has started: the addresses it listens on, and how to stop it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from coordinatord.base.observe.compiled import is_compiled
from coordinatord.base.observe.logger import get_logger
from coordinatord.base.observe.printable import printable


def listening(bound: Sequence[tuple[str, str]], *, data_dir: Path, admin_url: str | None, people: bool) -> None:
    """Announce that clients can connect. `bound` is (bound address, advertised address) of each listener. With
    `people` (standard error is a terminal, and logging.format is not json) the output is plain sentences, otherwise one
    log line.
    """
    if not people:
        get_logger().info(
            "listening",
            listeners=[address for address, _told in bound],
            advertised=[told for _address, told in bound],
            admin=admin_url,
            data_dir=str(data_dir),
            pid=os.getpid(),
            build="compiled" if is_compiled() else "interpreted",
        )
        return
    where = " and ".join(address if address == told else f"{address} (advertised as {told})" for address, told in bound)
    lines = [f"Ready: Kafka clients connect to {where}.", f"Data is kept in {_shown(data_dir)}."]
    if admin_url is not None:
        lines.append(f"Metrics and health: {admin_url}")
    lines.append("Stop it with Ctrl+C.")
    try:
        print("\n".join(map(printable, lines)), file=sys.stderr, flush=True)  # noqa: T201
    except (OSError, ValueError):
        return


def for_people(logging_format: str) -> bool:
    """Return whether to print plain sentences, given the setting logging.format."""
    return logging_format != "json" and sys.stderr is not None and sys.stderr.isatty()


def _shown(path: Path) -> str:
    return str(path) if path.is_absolute() else f"./{path}"
