"""What a request of real clients costs at the rates that deployments have: 100, 1,000 and 10,000 in a second.

The members of `day`, at such a pace that they send so much; a server of its own for each rate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import uvloop

from tests.bench.day.play import Play, Window
from tests.bench.generator import WrongAnswer
from tests.bench.registry import KAFKA, KFAKE, OURS_NEVER, Arena, Column, Sample, at_most, row
from tests.bench.rows.day import WARM_ELSE, WARM_WINDOWS, sample
from tests.bench.servers import Server

WINDOWS = 8
"""A window is so many times as long as another row's round."""
COMPLETE = 0.9
#: requests in a second: members, pace. A thousand members send 3,800 in a second of theirs,
#: but a fetch without records waits half a second of ours.
RATES = {100: (20, 1.3), 1_000: (260, 1.0), 10_000: (1_000, 3.4)}
COMING_S, COMING_EACH_S = 4.0, 0.015


async def live(server: Server, members: int, pace: float, seconds: float) -> Window:
    """Members come at their own pace, then all send faster."""
    play = Play(server, members, f"rate-{members}")
    try:
        await play.start(over_s=max(COMING_S, COMING_EACH_S * members))
        play.world.pace = pace
        await play.window(seconds * WARM_WINDOWS.get(server.kind, WARM_ELSE))
        return await play.window(seconds)
    finally:
        await play.end()


def at_rate(wanted: int) -> Callable[[Arena, Column, float], Sample]:
    def measure(arena: Arena, column: Column, seconds: float) -> Sample:
        """Server CPU per request; a server or a generator that does not keep pace has no figure."""
        members, pace = RATES[wanted]
        with arena.fresh(column) as server, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            window = runner.run(live(server, members, pace, seconds * WINDOWS))
        if window.requests < COMPLETE * wanted * window.wall_s:
            raise WrongAnswer(f"{window.requests / window.wall_s:.0f} requests a second, not {wanted}")
        return sample(window.cpu_s / window.requests * 1e6, window)

    return measure


for _wanted in RATES:
    row(
        f"rate-{_wanted}",
        f"a request of real clients that send {_wanted:,} a second: CPU",
        "µs",
        columns=[OURS_NEVER, KAFKA, KFAKE],
        targets=[at_most(1, of="kfake"), at_most(1, of="kafka")],
        rounds=2,
        quick=False,
    )(at_rate(_wanted))
