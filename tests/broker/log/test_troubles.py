"""Disks that fill up, disks whose flushes fail: the log stops, and a restart on a sound disk finds what it promised.

The histories are those of history.py; what ends a life is the disk instead of a crash.
"""

from __future__ import annotations

import contextlib

import pytest

from coordinatord.broker.log import DataDirectoryError, LogFailed
from coordinatord.broker.log.simulated_disk import CrashKind
from tests.broker.log.history import History, Violated


class Troubled(History):
    """Lives that end when the disk is full, or when a flush fails."""

    def __init__(self, seed: int, trouble: str, kind: CrashKind) -> None:
        super().__init__(seed, "always", kind)
        self.trouble = trouble
        self.stops = 0

    def run(self, lives: int = 4) -> None:
        for _ in range(lives):
            if self.trouble == "full":
                self.disk.capacity = self.disk.used() + int(self.chance.expovariate(1 / 4_000))
            else:
                self.disk.datasyncs_left = int(self.chance.expovariate(1 / 15))
            with contextlib.suppress(LogFailed, DataDirectoryError, OSError):
                self._live()
                self.stops -= 1  # it has been stopped in order
            self.stops += 1
            # The daemon ends, at the worst together with the machine; then there is room, or another disk.
            self.disk.crash(self.kind)
            self.disk.capacity = self.disk.datasyncs_left = None
            self._check()


@pytest.mark.parametrize("kind", ["kill", "power"])
@pytest.mark.parametrize("trouble", ["full", "flushes fail"])
def test_nothing_acknowledged_is_lost(trouble: str, kind: CrashKind) -> None:
    stops = acknowledgements = 0
    for seed in range(40):
        history = Troubled(seed, trouble, kind)
        try:
            history.run()
        except Exception as error:
            raise Violated(f"seed {seed}, {trouble}, {kind}: {error!r}") from error
        stops += history.stops
        acknowledgements += history.acknowledgements
    assert stops > 40
    assert acknowledgements > 150
