"""The headline: a thousand members that send what recorded clients sent, in their own time. See day/ and README.md."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import uvloop

from bench.day import templates
from bench.day.play import MEMBERS_OF_A_GROUP, PARTITIONS, Play, Window
from bench.generator import WrongAnswer
from bench.registry import KAFKA, KFAKE, OURS_FLUSHED, OURS_NEVER, Arena, Column, Sample, at_most, row
from bench.servers import Server
from tests.clients import recorded

MEMBERS = 1_000
HEARTBEAT_S, COMMIT_S = 3.0, 5.0
COMPLETE = 0.9
"""Of what members have to say and to read in a window: with less of it the figure would be of another day."""
DEPLOYMENTS_A_DAY = 1
WINDOWS = 10
"""A window is so many times as long as another row's round."""
WARM_PACE = 2.0
WARM_WINDOWS, WARM_ELSE = {"kafka": 3.0}, 1 / 3
"""A JVM compiles what is run often: after half a minute of this it needs half of what it needed at first."""
HOUR_S = 3_600


@dataclass(frozen=True, slots=True)
class Lived:
    """What a server did for all members, and while all of them were replaced."""

    members: int
    steady: Window
    deployment: Window

    @property
    def restart_s(self) -> float:
        """CPU for a member that is replaced: what its group does then is more than what it does anyway."""
        more_s = self.deployment.cpu_s - self.steady.cpu_s / self.steady.wall_s * self.deployment.wall_s
        return more_s / self.members


def per_hour_s(window: Window, members: int) -> float:
    """CPU seconds per member and hour."""
    return window.cpu_s / window.clients_s / members * HOUR_S


def require_complete(window: Window, members: int) -> None:
    """The day has to go on as recorded: a server, or a generator, that does not keep pace has no figure."""
    expected_s = window.clients_s
    readers = len(recorded.families())
    for what, found, expected in (
        ("heartbeats", window.asked[templates.HEARTBEAT], members * expected_s / HEARTBEAT_S),
        ("commits", window.asked[templates.COMMIT], members * expected_s / COMMIT_S),
        ("records produced", window.produced, members / readers * PARTITIONS / MEMBERS_OF_A_GROUP * expected_s),
        ("records read", window.records, window.produced * readers),
    ):
        if found < COMPLETE * expected:
            raise WrongAnswer(f"{found} {what} in {window.wall_s:.1f} s, {expected:.0f} would have been on time")


async def live(server: Server, members: int, seconds: float, pace: float = 1.0, name: str = "day") -> Lived:
    """All of it: members come, live at their pace, are replaced one by one in each group, and go."""
    play = Play(server, members, name)
    play.world.pace = pace
    try:
        await play.start(over_s=seconds * pace)
        play.world.pace = pace * WARM_PACE
        await play.window(seconds * WARM_WINDOWS.get(server.kind, WARM_ELSE))
        play.world.pace = pace
        await play.window(seconds / 3)
        steady = await play.window(seconds)
        deployment = await play.during(play.deploy(over_s=seconds * pace))
        await play.shrink(0)
    finally:
        await play.end()
    return Lived(members, steady, deployment)


def sample(value: float, window: Window, **also: float) -> Sample:
    """Latencies are those of heartbeats."""
    return Sample(
        value,
        [(each, 1) for each in window.latencies_s],
        window.requests / window.wall_s,
        window.cpu_s / window.wall_s,
        window.own_cpu_s / window.wall_s,
        {name.replace("_", " "): figure for name, figure in also.items()},
    )


def lived(arena: Arena, column: Column, seconds: float) -> Sample:
    """A round on a server of its own: what other rows leave on one is no part of it, nor the other way round."""
    with arena.fresh(column) as server, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(live(server, MEMBERS, seconds * WINDOWS))
    require_complete(found.steady, found.members)
    steady_s = per_hour_s(found.steady, found.members)
    return sample(
        steady_s + DEPLOYMENTS_A_DAY / 24 * found.restart_s,
        found.steady,
        s_but_for_the_deployment=steady_s,
        ms_for_each_member_replaced=found.restart_s * 1e3,
        s_for_all=found.deployment.wall_s,
    )


@row(
    "day",
    "a day of 1,000 real clients, one deployment: CPU per member and hour",
    "s",
    columns=[OURS_NEVER, OURS_FLUSHED, KAFKA, KFAKE],
    targets=[at_most(1, of="kafka")],
    rounds=2,
    quick=False,
)
def day(arena: Arena, column: Column, seconds: float) -> Sample:
    return lived(arena, column, seconds)
