"""How many of real clients' requests each shortcut answers: the recorded clients' stand-ins, counted by family.

SHARES is the table of tests/golden/traffic/README.md. A family that a shortcut no longer answers shows here; so does
a shortcut that serves nobody.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from bench.day.play import MEMBERS_OF_A_GROUP, Play
from bench.generator import Line
from bench.servers import Server
from coordinatord.server.fastpath.commits import Commits
from coordinatord.server.fastpath.heartbeats import Heartbeats
from coordinatord.transport.net.connection import Connection
from kafka_wire.framing import Frames
from tests.clients import recorded
from tests.support.served import Served

pytestmark = [pytest.mark.slow, pytest.mark.interpreted]

FAMILIES = recorded.families()
PACE = 4.0
WARM_UP_S, WINDOW_S = 12.0, 20.0
"""Of ours, four of the clients' each: enough for 26 heartbeats and 16 commits of each member."""

SHARES = {
    "heartbeats": {"franz-go": 1.0, "java": 1.0, "kafka-python": 1.0, "librdkafka": 1.0},
    "commits": {"franz-go": 1.0, "java": 1.0, "kafka-python": 1.0, "librdkafka": 1.0},
}
"""Of the requests of a steady group, those that the shortcut answers."""
TOLERANCE = 0.1
LEAST = {"heartbeats": 60, "commits": 40}
"""Requests of a family. Fewer than half of what is due means that the members did not live."""

Seen = Counter[tuple[str, str, bool]]
"""By shortcut, family, and whether the shortcut answered."""


def count(monkeypatch: pytest.MonkeyPatch, name: str, shortcut: type, seen: Seen) -> None:
    answer: Callable[..., int] = shortcut.answer  # type: ignore[attr-defined]

    def counted(self: Any, connection: Connection, frames: Frames, first: int, stop: int) -> int:
        answered = answer(self, connection, frames, first, stop)
        family = (connection.client_id or "").rpartition("-")[0]
        seen[name, family, answered > 0] += max(1, answered)
        return answered

    monkeypatch.setattr(shortcut, "answer", counted)


class InProcess(Served):
    """What Play needs of a server."""

    def line(self) -> Line:
        return Line(self.port)

    @staticmethod
    def cpu_s() -> float:
        """Not measured here."""
        return 0.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[InProcess]:
    made = InProcess(tmp_path, group_initial_rebalance_delay_ms=0)
    yield made
    made.stop()


async def live(server: InProcess, seen: Seen) -> None:
    play = Play(cast(Server, server), MEMBERS_OF_A_GROUP * len(FAMILIES))
    play.world.pace = PACE
    try:
        await play.start(over_s=1.0)
        await play.window(WARM_UP_S)
        seen.clear()
        await play.window(WINDOW_S)
        counted = Counter(seen)
    finally:
        await play.end()
    seen.clear()
    seen.update(counted)


def test_each_family_is_answered_by_the_shortcuts(server: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Seen = Counter()
    count(monkeypatch, "heartbeats", Heartbeats, seen)
    count(monkeypatch, "commits", Commits, seen)
    asyncio.run(asyncio.wait_for(live(server, seen), 120))
    found: dict[str, dict[str, float]] = {}
    for name, shares in SHARES.items():
        for family in shares:
            total = seen[name, family, True] + seen[name, family, False]
            assert total >= LEAST[name], f"{family}: {total} {name}"
            found.setdefault(name, {})[family] = round(seen[name, family, True] / total, 2)
    for name, shares in SHARES.items():
        assert found[name] == pytest.approx(shares, abs=TOLERANCE)
