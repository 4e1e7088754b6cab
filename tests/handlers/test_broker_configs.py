"""What follows settings of brokers that are changed while a daemon runs, beside the topics that inherit them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from coordinatord.server.daemon.daemon import Daemon
from kafka_wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.reference.in_process import run, running_in_process

BROKER, SET = 4, 0


@asynccontextmanager
async def changed(directory: Path, **settings: str) -> AsyncIterator[Daemon]:
    """A daemon that runs, after a client has set these settings as the cluster's defaults."""
    async with running_in_process(directory, {}) as ours:
        client = await ours.connect("raw")
        configs = [AlterableConfig(name.replace("_", "."), SET, value) for name, value in settings.items()]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(BROKER, "", configs)])
        [result] = (await client.ask(request, 1)).responses
        assert result.error_code == 0, result
        yield ours.daemon


def test_the_limit_of_connections_follows(tmp_path: Path) -> None:
    async def limits() -> tuple[int, bool]:
        async with changed(tmp_path, max_connections="7", max_connections_per_ip="3") as daemon:
            return daemon.connections.max_connections, daemon.connections.addresses is not None

    assert run(limits()) == (7, True)


def test_the_limit_of_connections_is_there_after_a_restart(tmp_path: Path) -> None:
    async def first() -> None:
        async with changed(tmp_path, max_connections="7"):
            pass

    async def again() -> int:
        async with running_in_process(tmp_path, {}) as ours:
            return ours.daemon.connections.max_connections

    run(first())
    assert run(again()) == 7


def test_the_cleaner_follows(tmp_path: Path) -> None:
    async def bytes_per_second() -> tuple[float, float]:
        async with running_in_process(tmp_path, {}) as ours:
            before = ours.daemon.compaction.cleaner.settings.max_bytes_per_second
            client = await ours.connect("raw")
            config = AlterableConfig("log.cleaner.io.max.bytes.per.second", SET, "1000.0")
            request = IncrementalAlterConfigsRequest([AlterConfigsResource(BROKER, "", [config])])
            assert (await client.ask(request, 1)).responses[0].error_code == 0
            return before, ours.daemon.compaction.cleaner.settings.max_bytes_per_second

    before, after = run(bytes_per_second())
    assert before > after == 1000.0


def test_the_interval_between_assignments_follows(tmp_path: Path) -> None:
    async def interval_ms() -> tuple[int, int]:
        async with changed(tmp_path, group_consumer_assignment_interval_ms="1234") as daemon:
            limits = daemon.surroundings.limits
            return limits.assignment_interval_ms("g"), limits.version

    assert run(interval_ms()) == (1234, 1)
