"""A data directory from the database, and the database from a data directory."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest

from coordinatord.broker.log import DataDirectory, leader_epoch_cache
from coordinatord.broker.log.disk import OsDisk
from coordinatord.broker.topics import catalogue_file
from coordinatord.server.postgresql.schema import MIGRATIONS
from coordinatord.transport.cluster.nodes import share_of
from coordinatord.transport.cluster.partitioner import partition_for
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.api.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.broker.log.world import contents
from tests.clients.raw import Line
from tests.daemon import HOST, REPOSITORY, Daemon, running
from tests.server.postgresql.server import Server
from tests.server.postgresql.test_nodes import SETTINGS, commit, committed, connected, settled, with_topic

pytestmark = [pytest.mark.postgresql, pytest.mark.timeout(600)]


def run(*arguments: str | Path, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "coordinatord", *map(str, arguments)],
        capture_output=True, text=True, cwd=REPOSITORY, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def logs_of(path: Path) -> dict[tuple[str, int], object]:
    """What is in the logs, and the leader epochs of the records: each opening may begin another one at the end."""
    data = DataDirectory.open(str(path), catalogued=catalogue_file.catalogued)
    found = {
        key: (contents(log), log.end_offset, leader_epoch_cache.cut_from(log.leader_epochs, log.end_offset))
        for key, log in data.logs.items()
        if log.end_offset
    }
    data.close()
    return found


async def put_offsets(node: Daemon) -> None:
    line = await with_topic(node)
    for number in range(20):
        assert await commit(line, 100 + number, f"group-{number}") == 0


async def offsets(node: Daemon) -> list[object]:
    line = await connected(node)
    return [await settled(lambda group=f"group-{number}": committed(line, group)) for number in range(20)]  # type: ignore[misc]


def test_a_copy_is_a_data_directory(tmp_path: Path, database: str) -> None:
    with running(tmp_path / "node", {**SETTINGS, "storage": database, "storage.lease.ms": "6000"}) as node:
        asyncio.run(put_offsets(node))
        assert "node 0 leads in term 1" in run("cluster", "status", database)
        told = run("store", "copy", database, tmp_path / "copy")
        assert "is not empty" in run("store", "copy", database, tmp_path / "copy", code=1)
        assert "stop all nodes first" in run("store", "load", tmp_path / "copy", database, code=1)
    assert "no node leads" in run("cluster", "status", database)
    assert " 0 partitions" not in told
    assert ", 0 damaged" in run("log", "verify", tmp_path / "copy")
    with running(tmp_path / "other", SETTINGS, ["--data-dir", str(tmp_path / "copy")]) as node:
        assert asyncio.run(offsets(node)) == list(range(100, 120))


def test_a_data_directory_is_loaded_once(tmp_path: Path, server: Server, database: str) -> None:
    with running(tmp_path, SETTINGS) as node:
        asyncio.run(put_offsets(node))
    # As a Kafka broker leaves it that has led the partition before.
    partition = next(path for path in node.data_dir.iterdir() if path.name.startswith("__consumer_offsets-"))
    leader_epoch_cache.write(OsDisk(), str(partition), ((3, 0), (7, 1)))
    before = logs_of(node.data_dir)
    run("store", "load", node.data_dir, database)
    assert "has a log already" in run("store", "load", node.data_dir, database, code=1)
    run("store", "copy", database, tmp_path / "copy")
    assert logs_of(tmp_path / "copy") == before
    with running(tmp_path / "node", {**SETTINGS, "storage": database}) as node:
        assert asyncio.run(offsets(node)) == list(range(100, 120))


async def put_marker(node: Daemon, coordinator_epoch: int) -> None:
    """As another coordinator would have ended a transaction."""
    line = await Line.connect(HOST, node.port, "test")
    marker = WritableTxnMarker(999, 0, False, [WritableTxnMarkerTopic("topic", [0])], coordinator_epoch)
    answer = await line.ask(WriteTxnMarkersRequest([marker]), 1)
    assert answer.markers[0].topics[0].partitions[0].error_code == 0


def test_a_data_directory_is_loaded_for_several_leaders(tmp_path: Path, server: Server, database: str) -> None:
    """Each has its share, with a leader epoch above those that Kafka's brokers had, which all tell. A copy is the whole
    log.
    """
    with running(tmp_path, SETTINGS) as node:
        asyncio.run(put_offsets(node))
        asyncio.run(put_marker(node, 41))
    partitions = [path for path in node.data_dir.iterdir() if path.name.startswith("__consumer_offsets-")]
    for each in partitions:
        leader_epoch_cache.write(OsDisk(), str(each), ((3, 0), (7, 1)))
    before = logs_of(node.data_dir)
    run("store", "load", "--leaders", "2", node.data_dir, database)
    assert "made for 2 leading nodes" in run("store", "load", node.data_dir, database, code=1)
    assert "has a log already" in run("store", "load", "--leaders", "2", node.data_dir, database, code=1)
    run("store", "copy", database, tmp_path / "copy")
    assert logs_of(tmp_path / "copy") == before
    # Partitions refuse the markers of a coordinator whose epoch is below the one that they know.
    [(least,)] = server.ask(database.rsplit("/", 1)[1], "SELECT min(epoch) FROM coordinatord_leader")
    assert int(str(least)) > 41

    async def told(node: Daemon) -> list[int]:
        line = await Line.connect(HOST, node.port, "test")
        answer = await line.ask(MetadataRequest([MetadataRequestTopic(name="__consumer_offsets")]), 12)
        return [each.leader_epoch for each in answer.topics[0].partitions]

    async def found(made: list[Daemon]) -> None:
        for number in range(20):
            group = f"group-{number}"
            seat = share_of("__consumer_offsets", partition_for(group, 4), 2)
            line = await Line.connect(HOST, made[seat].port, "test")
            assert await settled(lambda line=line, group=group: committed(line, group)) == 100 + number  # type: ignore[misc]
        deadline_s = time.monotonic() + 60
        while -1 in (first := await told(made[0])) or -1 in (second := await told(made[1])):
            assert time.monotonic() < deadline_s, "they do not hear of each other"
            await asyncio.sleep(0.05)
        assert first == second
        assert first[0] != first[1], "of two nodes"
        assert min(first) > 7

    several = {**SETTINGS, "storage": database, "storage.leaders": "2"}
    with (
        running(tmp_path / "one", {**several, "node.id": "1"}) as one,
        running(tmp_path / "two", {**several, "node.id": "2"}) as two,
    ):
        made = sorted((one, two), key=lambda node: node.events("this node leads")[0]["seat"])
        asyncio.run(found(made))


def test_the_statements_are_shown(database: str) -> None:
    assert run("store", "ddl").strip() == "\n".join(each.strip() for each in MIGRATIONS)
    assert "has no tables" in run("cluster", "status", database, code=1)
