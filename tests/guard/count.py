"""What a script costs, in numbers that are the same on every machine: nothing here is a time.

- `calls`: Python functions of ours that are called for one request, generated ones and constructors included. Not
  comprehensions, which are functions up to Python 3.11 only, and not what others' functions call.
- `held`: blocks of memory that are allocated for it before the loop has turned: what a request costs while it waits.
- `cyclic`: objects that only the garbage collector would find afterwards. The daemon lets it look rarely
  (loading.GC_THRESHOLDS) since there are none.
- `kept`: blocks that are still there when it is answered. 0 is no leak; what makes a group keeps what a group takes.

Each is the smallest of several rounds: the loop's own timers may go off within one.
"""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from coordinatord.base.config import Settings
from coordinatord.base.config.address import parse_listeners
from coordinatord.base.observe.health import HealthState
from coordinatord.base.observe.logger import silent
from coordinatord.server.daemon.daemon import Daemon
from tests.guard.script import WARM_UP, Entry, Stage

ROOT = str(Path(__file__).parents[2])
OURS = tuple(f"{ROOT}/{package}/" for package in ("coordinatord", "protocol"))
COMPREHENSIONS = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})
ROUNDS = 5
BLOCK_ROUNDS = 20
"""The interpreter's own free lists make some blocks of difference from round to round."""

Figures = dict[str, float]


def is_ours(frame: FrameType) -> bool:
    """Whether a call counts. "<string>" is where the methods of dataclasses come from."""
    code = frame.f_code
    name = code.co_filename
    return name.startswith((*OURS, "<string>")) and code.co_name not in COMPREHENSIONS


class Calls:
    """Counts calls of ours between `begin` and `end`, in this thread. `seen`: by name, for people."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def begin(self) -> None:
        self.seen = {}
        sys.setprofile(self._profile)

    def end(self) -> int:
        sys.setprofile(None)
        return sum(self.seen.values())

    def _profile(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and is_ours(frame):
            code = frame.f_code
            name = f"{code.co_filename.removeprefix(ROOT + '/')}:{getattr(code, 'co_qualname', code.co_name)}"
            self.seen[name] = self.seen.get(name, 0) + 1


@asynccontextmanager
async def staged(data_dir: str, **changed: Any) -> AsyncIterator[Stage]:
    """A whole daemon whose time stands still, with settings `changed`; its clients are gone at the end."""
    settings = dataclasses.replace(
        Settings(),
        log_dirs=data_dir,
        listeners=parse_listeners("127.0.0.1:0"),
        log_flush="never",
        offsets_topic_num_partitions=8,
        group_initial_rebalance_delay_ms=0,
        max_connections=1_000_000,
        **changed,
    )
    daemon = Daemon(settings, asyncio.get_running_loop(), now_ms=lambda: 1_800_000_000_000)
    await daemon.start()
    while daemon.health.state is not HealthState.READY:  # noqa: ASYNC110  # nobody tells of it
        await asyncio.sleep(0.001)
    stage = Stage(daemon)
    try:
        yield stage
    finally:
        gc.enable()
        stage.leave()
        daemon.request_stop("counted")
        await daemon.stop()


async def _count(entry: Entry, data_dir: str, calls: Calls) -> Figures:
    counted: list[int] = []
    blocks: list[tuple[int, int, int]] = []
    async with staged(data_dir) as stage:
        # The first rebalance would, a quarter of a second later: within some round.
        stage.daemon.topics.create_ledger_topic()
        async with aclosing(entry.script(stage)) as rounds:
            for _ in range(WARM_UP):
                await anext(rounds)
            gc.collect()
            gc.disable()
            for _ in range(ROUNDS):
                stage.before, stage.after = calls.begin, lambda: counted.append(calls.end())
                await anext(rounds)
            marks: list[int] = [0, 0, 0]
            stage.before = lambda: marks.__setitem__(0, sys.getallocatedblocks())
            stage.unanswered = lambda: marks.__setitem__(1, sys.getallocatedblocks())
            stage.after = lambda: marks.__setitem__(2, sys.getallocatedblocks())
            for _ in range(BLOCK_ROUNDS):
                await anext(rounds)
                blocks.append((marks[0], marks[1], marks[2]))
            cyclic = gc.collect()
    per_round = entry.per_round
    return {
        "calls": round(min(counted) / per_round, 2),
        "held": round(min(held - before for before, held, _ in blocks) / per_round, 2),
        "cyclic": round(cyclic / (ROUNDS + BLOCK_ROUNDS) / per_round, 2),
        "kept": round(min(kept - before for before, _, kept in blocks) / per_round, 2),
    }


def count(entry: Entry) -> tuple[Figures, dict[str, int]]:
    """A script's figures, and which functions were called how often in one of its rounds."""
    calls = Calls()
    with tempfile.TemporaryDirectory() as directory, silent():
        figures = asyncio.run(_count(entry, f"{directory}/data", calls))
    return figures, calls.seen
