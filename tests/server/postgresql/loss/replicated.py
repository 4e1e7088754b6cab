"""The same cluster over a primary and a synchronous standby, which is promoted as one of the faults.

The nodes' addresses name both servers, each behind a proxy of its own. The old primary is killed before its standby is
promoted, and comes back as a standby of the new one, from a copy of it: never as a primary.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from tests.server.postgresql.loss.cluster import Cluster
from tests.server.postgresql.loss.proxy import Proxy
from tests.server.postgresql.server import WAIT_S, Server
from tests.support.waiting import wait_until

SERVER_SETTINGS = ("wal_retrieve_retry_interval=100ms",)
"""A standby looks for its primary ten times a second: commits wait until it has found it."""


class Pair:
    """A primary and its standby. One thread at a time changes something."""

    def __init__(self, directory: Path, *, is_synchronous: bool = True) -> None:
        self.is_synchronous = is_synchronous
        self.guard = threading.Lock()
        places = [directory / name for name in ("one", "two")]
        for place in places:
            place.mkdir()
        self.primary = Server(places[0], SERVER_SETTINGS)
        self.primary.start()
        self.primary.make_role()
        self.standby = Server(places[1], SERVER_SETTINGS, self.primary)
        self._join()

    @property
    def servers(self) -> list[Server]:
        return sorted((self.primary, self.standby), key=lambda each: each.directory)

    def kill_primary(self, for_s: float) -> None:
        """SIGKILL; it is started again as what it was."""
        with self.guard:
            self.primary.kill()
            time.sleep(for_s)
            self.primary.start()

    def cut_off(self) -> None:
        """The standby gets nothing any more: commits wait, if it is synchronous."""
        with self.guard:
            self.standby.ask("postgres", "ALTER SYSTEM SET primary_conninfo = ''")
            self.standby.ask("postgres", "SELECT pg_reload_conf()")
            self._wait(self.standby, "SELECT count(*) = 0 FROM pg_stat_wal_receiver", "the standby to be cut off")

    def promote(self) -> None:
        """The primary is killed, and the standby promoted. The other one follows it from then on."""
        with self.guard:
            self.primary.kill()
            self.standby.promote()
            self.primary, self.standby = self.standby, self.primary
            # With the old primary's setting it would wait for a standby that is not there yet.
            self._wait_for_standby(False)
            self.standby.follow(self.primary)
            self._join()

    def stop(self) -> None:
        for each in (self.standby, self.primary):
            each.stop()

    def _join(self) -> None:
        self.standby.start()
        assert self.standby.ask("postgres", "SELECT pg_is_in_recovery()") == [(True,)]
        streams = "SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming'"
        self._wait(self.primary, streams, "the standby to follow")
        if self.is_synchronous:
            self._wait_for_standby(True)
            is_sync = "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
            self._wait(self.primary, is_sync, "the standby to be synchronous")

    def _wait_for_standby(self, waits: bool) -> None:
        self.primary.ask("postgres", f"ALTER SYSTEM SET synchronous_standby_names = '{'*' if waits else ''}'")
        self.primary.ask("postgres", "SELECT pg_reload_conf()")

    def _wait(self, server: Server, question: str, what: str) -> None:
        wait_until(lambda: server.ask("postgres", question) == [(True,)], what, timeout_s=WAIT_S)


@contextlib.contextmanager
def paired(*, is_synchronous: bool = True) -> Iterator[Pair]:
    """Two servers, stopped and removed at the end."""
    directory = Path(tempfile.mkdtemp(prefix="coordinatord-postgresql-"))
    directory.chmod(0o755)  # the servers' user passes through
    pair = None
    try:
        pair = Pair(directory, is_synchronous=is_synchronous)
        yield pair
    finally:
        if pair is not None:
            pair.stop()
        shutil.rmtree(directory, ignore_errors=True)


class Proxies(Proxy):
    """Before one node: a proxy for each server, that do the same."""

    def __init__(self, ports: list[int]) -> None:
        self._proxies = [Proxy(port) for port in ports]

    async def hosts(self) -> str:
        """Listen; as libpq's URI names several hosts."""
        return ",".join([f"127.0.0.1:{await proxy.start()}" for proxy in self._proxies])

    def cut(self) -> int:
        return sum(proxy.cut() for proxy in self._proxies)

    def hold_up(self) -> None:
        for proxy in self._proxies:
            proxy.hold_up()

    def go_on(self) -> None:
        for proxy in self._proxies:
            proxy.go_on()

    async def close(self) -> None:
        for proxy in self._proxies:
            await proxy.close()


class ReplicatedCluster(Cluster):
    """See the module."""

    def __init__(self, directory: Path, pair: Pair, leaders: int = 1) -> None:
        super().__init__(directory, pair.primary, leaders=leaders)
        self.pair = pair
        self.promotions = 0

    async def _make_proxy(self) -> tuple[Proxy, str]:
        proxies = Proxies([server.port for server in self.pair.servers])
        return proxies, await proxies.hosts()

    def kinds(self) -> dict[str, Callable[[int, float], Awaitable[None]]]:
        return {**super().kinds(), "standby promoted": self.promote}

    async def _kill_database(self, target: int, share: float) -> None:
        await asyncio.to_thread(self.pair.kill_primary, share)

    async def promote(self, target: int, share: float) -> None:
        """At once, or when commits have waited for a standby that was cut off."""
        if share > 0.5:
            await asyncio.to_thread(self.pair.cut_off)
            await asyncio.sleep(share)
        await asyncio.to_thread(self.pair.promote)
        self.server = self.pair.primary
        self.promotions += 1
