"""What was acknowledged survives SIGKILL of the node, of PostgreSQL, and the loss of the node's directory, under load.

The clients and the ledgers are those of tests/crash: raw clients of the classic protocol, producers, compacted tables,
and kafka-python's group.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import time
from pathlib import Path

import pytest

from tests.crash.test_sigkill import SETTINGS, Crashes, outlived
from tests.daemon import POLL_INTERVAL_S, Daemon, answers_api_versions, still_loads
from tests.server.postgresql.server import Server
from tests.support.waiting import PATIENCE_S

KILLS = 6

pytestmark = [pytest.mark.full, pytest.mark.postgresql, pytest.mark.timeout(600)]


class Leader(Daemon):
    """A start is over when it leads: while it waits for the lease of the one that was killed it answers, too."""

    def _start(self, loaded: bool) -> float:
        began_s = time.monotonic()
        led = self._led()
        super()._start(loaded=False)
        while self._led() == led or not answers_api_versions(self.port) or (loaded and still_loads(self.port)):
            assert time.monotonic() - began_s < PATIENCE_S, self.log_tail()
            time.sleep(POLL_INTERVAL_S)
        return time.monotonic() - began_s

    def _led(self) -> int:
        return len(self.events("working copy made")) if self.log_file.exists() else 0


class StoreCrashes(Crashes):
    """Every second crash kills PostgreSQL, too, before or after the node; the node's directory is lost with it."""

    server: Server

    async def crash(self) -> None:
        kills_server = self.chance.random() < 0.5
        if kills_server and self.chance.random() < 0.5:
            self.server.kill()
            await asyncio.sleep(self.chance.uniform(0, 0.3))
            await asyncio.to_thread(self.server.start)
            kills_server = False
        self.gate.close()
        self.daemon.kill()
        if kills_server:
            self.server.kill()
            await asyncio.to_thread(self.server.start)
        shutil.rmtree(self.daemon.data_dir)
        await self.until(lambda: self.gate.waiting == len(self.clients), lambda: "the clients to notice the crash")
        real = self.real_acknowledged()
        self.start_seconds.append(await asyncio.to_thread(self.daemon.start))
        await self.verify(real)


def test_what_was_acknowledged_survives_kills_of_node_and_database(tmp_path: Path, victim: Server) -> None:
    seed = int(os.environ.get("COORDINATORD_CRASH_SEED") or secrets.randbelow(1 << 32))
    print(f"\nCOORDINATORD_CRASH_SEED={seed}")
    url = victim.make_database("crashes")
    daemon = Leader(tmp_path, {**SETTINGS, "storage": url, "storage.lease.ms": "6000"})

    async def survive() -> str:
        crashes = StoreCrashes(daemon, seed, real=True)
        crashes.server = victim
        await crashes.create_topics()
        try:
            crashes.begin()
            for _ in range(KILLS):
                await crashes.work_until_all_go_on()
                await asyncio.sleep(crashes.chance.uniform(0, 0.5))
                await crashes.crash()
            await crashes.work_until_all_go_on()
            await crashes.end()
        finally:
            for task in crashes.tasks:
                task.cancel()
            for consumer in crashes.consumers:
                consumer.kill()
        return crashes.summary(KILLS)

    summary = outlived(daemon, survive())
    assert daemon.events("log cleaned"), "the cleaner was never done with anything"
    print(summary)
