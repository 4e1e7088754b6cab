"""`coordinatord import`: what is taken, what is refused and in which words; that nothing else is touched."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from coordinatord.base.config import load
from coordinatord.broker.log import DataDirectory, DataDirectoryError, leader_epoch_cache, locks, replay
from coordinatord.broker.log.disk import OsDisk
from coordinatord.broker.log.ownership import Foreign
from coordinatord.broker.topics import catalogue_file
from coordinatord.server.exchange import importing
from kafka_wire.records.cluster_metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tests.server.exchange.world import (
    CLUSTER_ID,
    FIRST_SEGMENT,
    ORDERS,
    batch,
    cluster_records,
    contents,
    kafka,
    metadata_file,
    partition,
    properties,
    run,
)

OLD = b"old".ljust(16, b".")


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    return kafka(tmp_path / "kafka")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "ours"


def topics(target: Path) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads((target / "topics.json").read_text())["topics"]
    return found


def test_topics_records_and_epochs_are_taken(broker: Path, target: Path) -> None:
    leader_epoch_cache.write(OsDisk(), str(broker / "orders-0"), ((2, 0), (3, 3)))
    before = contents(broker)
    code, said, _ = run("import", broker, "--data-dir", target)
    assert code == 0
    assert contents(broker) == before
    rows = [line.split() for line in said.splitlines()]
    assert ["orders", "2", "4", str((broker / "orders-0" / FIRST_SEGMENT).stat().st_size)] in rows
    assert ["__consumer_offsets", "1", "0", "0"] in rows
    assert f"coordinatord serve --data-dir {target}" in said
    assert {name: entry["partitions"] for name, entry in topics(target).items()} == {
        "orders": 2,
        "__consumer_offsets": 1,
    }
    data = DataDirectory.open(str(target))
    assert data.was_clean
    assert data.cluster_id == CLUSTER_ID
    log = data.get("orders", 0)
    assert log is not None
    assert (log.topic_id, log.end_offset) == (ORDERS, 4)
    assert log.leader_epochs == ((2, 0), (3, 3), (5, 4))  # the cluster's metadata says 4: who comes next has 5
    assert [record[3] for each in replay(log) for record in each.records] == [b"a", b"b", b"c", b"d"]
    data.close()


def test_settings_follow_the_topic_and_unknown_ones_are_named(tmp_path: Path, target: Path) -> None:
    configs = {"retention.ms": "5", "max.message.bytes": "77", "follower.fancy": "x", "remote.storage.enable": "true"}
    records = cluster_records(configs=configs)
    records += [(ConfigRecord(2, "orders", "max.message.bytes", None), 0), (ConfigRecord(4, "", "x", "y"), 0)]
    code, said, _ = run("import", kafka(tmp_path / "kafka", records=records), "--data-dir", target)
    assert code == 0
    assert topics(target)["orders"]["configs"] == {"retention.ms": "5"}
    assert "Setting follower.fancy=x of topic orders is left out" in said
    assert "Topic orders has tiered storage: records in the remote tier are not imported." in said


def test_a_metadata_transaction_counts_when_it_has_ended(tmp_path: Path, target: Path) -> None:
    records = [
        (BeginTransactionRecord("bootstrap"), 0),
        *cluster_records(),
        (TopicRecord("removed", OLD), 0),
        (RemoveTopicRecord(OLD), 0),
        (ProducerIdsRecord(3, 1, 5_000), 0),
        (EndTransactionRecord(), 0),
        (BeginTransactionRecord("aborted"), 0),
        (TopicRecord("never", OLD), 0),
        (AbortTransactionRecord("failover"), 0),
        (BeginTransactionRecord("not ended"), 0),
        (TopicRecord("not-yet", OLD), 0),
    ]
    code, _, said = run("import", kafka(tmp_path / "kafka", records=records), "--data-dir", target)
    assert (code, said) == (0, "")
    assert set(topics(target)) == {"orders", "__consumer_offsets"}
    assert json.loads((target / "producer_ids.json").read_text())["next"] == 5_000


def test_the_newest_snapshot_and_what_comes_after_it(broker: Path, target: Path) -> None:
    metadata = broker / "__cluster_metadata-0"
    log = cluster_records()
    metadata_file(metadata / f"{3:020d}-{1:010d}.checkpoint", [(TopicRecord("older", OLD), 0)])
    snapshot = [*log, (ConfigRecord(2, "orders", "retention.ms", "1"), 0)]
    metadata_file(metadata / f"{len(log) + 1:020d}-{1:010d}.checkpoint", snapshot)
    # The log from its beginning; what the snapshot has of it must not be read again.
    metadata_file(metadata / FIRST_SEGMENT, log, [(ConfigRecord(2, "orders", "retention.bytes", "2"), 0)])
    assert run("import", broker, "--data-dir", target)[0] == 0
    assert topics(target)["orders"]["configs"] == {"retention.ms": "1", "retention.bytes": "2"}
    assert set(topics(target)) == {"orders", "__consumer_offsets"}


def test_without_metadata_directories_have_to_do(broker: Path, target: Path) -> None:
    """As of a broker that had ZooKeeper for it."""
    (broker / "meta.properties").write_text(f"version=0\nbroker.id=3\ncluster.id={CLUSTER_ID}\n")
    for file in (broker / "__cluster_metadata-0").iterdir():
        file.unlink()
    (broker / "__cluster_metadata-0").rmdir()
    code, said, _ = run("import", broker, "--data-dir", target)
    assert code == 0
    assert "There is no __cluster_metadata-0 in it" in said
    assert topics(target)["orders"]["partitions"] == 2
    assert topics(target)["__consumer_offsets"]["configs"] != {}


def test_directories_that_kafka_has_set_aside_are_left(broker: Path, target: Path) -> None:
    partition(broker, f"orders-0.{'ab' * 16}-delete", ORDERS)
    partition(broker, "stranger-0", OLD, batch(["x"]))
    code, said, _ = run("import", broker, "--data-dir", target)
    assert code == 0
    assert f"set them aside: orders-0.{'ab' * 16}-delete" in said
    assert "no such topic any more: stranger-0" in said
    assert not list(target.glob("stranger*"))


def test_leader_epochs_count_the_changes_of_leaders(tmp_path: Path, target: Path) -> None:
    changes = [PartitionChangeRecord(1, ORDERS, leader=leader) for leader in (-1, 3, -2)]
    records = [*cluster_records(), *((change, 1) for change in changes)]
    assert run("import", kafka(tmp_path / "kafka", records=records), "--data-dir", target)[0] == 0
    assert leader_epoch_cache.read(OsDisk(), str(target / "orders-1")) == ((4 + 2 + 1, 0),)


def test_several_log_dirs_of_one_broker(broker: Path, tmp_path: Path, target: Path) -> None:
    other = properties(tmp_path / "more")
    (broker / "orders-1").rename(other / "orders-1")
    code, _, said = run("import", broker, "--data-dir", target)
    assert code == 1
    assert "1 partitions of the cluster are not in" in said
    assert "orders-1. Name all of the broker's log.dirs" in said
    assert run("import", broker, other, "--data-dir", target)[0] == 0
    assert (target / "orders-1" / FIRST_SEGMENT).exists()


def test_producer_ids_in_the_log_are_taken(broker: Path, target: Path) -> None:
    from kafka_wire.records.batch import BatchBuilder

    builder = BatchBuilder()
    builder.add(None, b"x", 0)
    made = builder.finish(0, producer_id=41, producer_epoch=0, base_sequence=0)
    (broker / "orders-1" / FIRST_SEGMENT).write_bytes(bytes(made))
    assert run("import", broker, "--data-dir", target)[0] == 0
    assert json.loads((target / "producer_ids.json").read_text())["next"] == 42


def test_the_end_of_a_killed_brokers_log_is_left_to_recovery(tmp_path: Path, target: Path) -> None:
    broker = kafka(tmp_path / "kafka", clean=False)
    segment = broker / "orders-0" / FIRST_SEGMENT
    segment.write_bytes(segment.read_bytes() + b"\0" * 100)
    (broker / "orders-0" / f"{0:020d}.index").write_bytes(bytes(4096))
    code, said, _ = run("import", broker, "--data-dir", target)
    assert code == 0
    assert "100 bytes at the ends of logs" in said
    assert not list(target.glob("*/*.index"))
    data = DataDirectory.open(str(target))
    assert [(each.topic, each.truncated_bytes) for each in data.recovered] == [("orders", 100)]
    log = data.get("orders", 0)
    assert log is not None
    assert log.end_offset == 4
    data.close()


def test_a_trial_writes_nothing(broker: Path, target: Path) -> None:
    code, said, _ = run("import", broker, "--data-dir", target, "--dry-run")
    assert code == 0
    assert said.endswith("Nothing was written.\n")
    assert not target.exists()


def test_what_is_refused(broker: Path, target: Path, tmp_path: Path) -> None:
    def refused(*arguments: object) -> str:
        before = contents(broker)
        code, _, said = run("import", *arguments)
        assert code == 1
        assert contents(broker) == before
        assert len(said.splitlines()) == 1
        return said

    (tmp_path / "file").write_text("")
    assert "file is not a directory" in refused(tmp_path / "file", "--data-dir", target)
    assert "is not a directory" in refused(tmp_path / "nowhere", "--data-dir", target)
    (tmp_path / "empty").mkdir()
    assert "has no meta.properties" in refused(tmp_path / "empty", "--data-dir", target)
    target.mkdir()
    (target / "something").write_text("")
    assert "exists and is not empty" in refused(broker, "--data-dir", target)
    (target / "something").unlink()
    assert "which is only read" in refused(broker, "--data-dir", broker / "within")
    other = properties(tmp_path / "other", node_id=4)
    assert "name the directories of one broker" in refused(broker, other, "--data-dir", target)
    newer = properties(tmp_path / "newer", version="2")
    assert "has version 2: only 0 and 1 can be read" in refused(newer, "--data-dir", target)
    (tmp_path / "ours.importing").mkdir()
    assert "left by an unfinished import" in refused(broker, "--data-dir", target)
    (tmp_path / "ours.importing").rmdir()
    swap = broker / "orders-0" / (FIRST_SEGMENT + ".swap")
    swap.write_bytes(b"")
    assert "a cleaning that did not end" in refused(broker, "--data-dir", target)
    swap.unlink()
    with (broker / ".lock").open("w") as lock:
        locks.hold(lock.fileno())
        assert "is in use: stop the process" in refused(broker, "--data-dir", target)
    assert list(target.iterdir()) == []
    assert run("import", broker, "--data-dir", target)[0] == 0
    assert "is coordinatord's own already" in run("import", target, "--data-dir", tmp_path / "third")[2]


def test_a_target_that_is_a_link_is_filled_where_it_leads(broker: Path, target: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    target.symlink_to("elsewhere")
    assert run("import", broker, "--data-dir", target)[0] == 0
    assert target.is_symlink()
    assert (tmp_path / "elsewhere" / "orders-0" / FIRST_SEGMENT).exists()


@pytest.fixture
def volume(target: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A target that is a mount point, as a container's volume is: nothing can be renamed to it."""
    (target / "lost+found").mkdir(parents=True)
    monkeypatch.setattr(Path, "is_mount", lambda self: self == target)
    return target


def test_a_target_that_is_a_mount_point_is_filled_from_within(broker: Path, volume: Path, tmp_path: Path) -> None:
    before, inode = contents(broker), volume.stat().st_ino
    assert run("import", broker, "--data-dir", tmp_path / "other")[0] == 0
    assert run("import", broker, "--data-dir", volume)[0] == 0
    assert contents(broker) == before
    assert volume.stat().st_ino == inode
    names = {path.name for path in volume.iterdir()}
    assert names == {path.name for path in (tmp_path / "other").iterdir()} | {"lost+found"}
    data = DataDirectory.open(str(volume))
    log = data.get("orders", 0)
    assert log is not None
    assert log.end_offset == 4
    data.close()


def test_an_import_into_a_mount_point_that_did_not_end(
    broker: Path, volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves nothing when it fails; when it was killed, nobody takes what there is for the whole."""
    rename, left = os.rename, [2]

    def fails(source: Path, goal: Path) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(5, "Input/output error", str(goal))
        rename(source, goal)

    monkeypatch.setattr(os, "rename", fails)
    code, _, said = run("import", broker, "--data-dir", volume)
    assert code == 1
    assert "Input/output error. Nothing was left behind." in said
    assert left[0] < 0
    assert [path.name for path in volume.iterdir()] == ["lost+found"]
    (volume / ".importing").mkdir()
    (volume / "orders-0").mkdir()
    assert "has an unfinished import" in run("import", broker, "--data-dir", volume)[2]
    with pytest.raises(DataDirectoryError, match="has an unfinished import"):
        DataDirectory.open(str(volume))


def test_what_has_come_into_a_mount_point_meanwhile_stays(
    broker: Path, volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = importing._write_own_files

    def somebody_writes_too(*arguments: Any) -> None:
        write(*arguments)
        (volume / "orders-1").mkdir()
        (volume / "orders-1" / "mine").write_text("x")
        (volume / "topics.json").write_text("mine")

    monkeypatch.setattr(importing, "_write_own_files", somebody_writes_too)
    code, _, said = run("import", broker, "--data-dir", volume)
    assert (code, "orders-1 is there already" in said) == (1, True)
    assert contents(volume) == {"orders-1/mine": b"x", "topics.json": b"mine"}


def test_partitions_without_ids_are_taken(broker: Path, target: Path) -> None:
    """As Kafka made them before 2.8; the next start must not take them for somebody else's."""
    for file in (*(broker / "__cluster_metadata-0").iterdir(), *broker.glob("*/partition.metadata")):
        file.unlink()
    (broker / "__cluster_metadata-0").rmdir()
    assert run("import", broker, "--data-dir", target)[0] == 0
    for _ in range(2):
        told: list[Foreign] = []
        data = DataDirectory.open(str(target), catalogued=catalogue_file.catalogued, on_foreign=told.append)
        ends = {key: log.end_offset for key, log in data.logs.items()}
        assert ends == {("orders", 0): 4, ("orders", 1): 0, ("__consumer_offsets", 0): 0}
        assert told == []
        data.close()


def test_directories_that_are_no_partitions_are_left(broker: Path, target: Path) -> None:
    """Of a broker without the cluster's metadata, whose topics its directories tell."""
    for file in (broker / "__cluster_metadata-0").iterdir():
        file.unlink()
    (broker / "__cluster_metadata-0").rmdir()
    for name in ("backup-2024", "orders-007"):
        (broker / name).mkdir()
        (broker / name / "app.log").write_text("x")
    (broker / "orders-0" / "notes.log").write_text("x")
    (broker / "orders-0" / "todo.swap").write_text("x")
    assert run("import", broker, "--data-dir", target)[0] == 0
    assert set(topics(target)) == {"orders", "__consumer_offsets"}
    assert not list(target.glob("backup*")) + list(target.glob("*/notes.log")) + list(target.glob("*/todo.swap"))


def test_damage_of_a_cleanly_stopped_broker_is_refused_and_nothing_is_left(broker: Path, target: Path) -> None:
    segment = broker / "orders-0" / FIRST_SEGMENT
    data = bytearray(segment.read_bytes())
    data[70] ^= 1
    segment.write_bytes(bytes(data))
    code, _, said = run("import", broker, "--data-dir", target)
    assert code == 1
    assert f"{segment} is damaged at byte 0" in said
    assert not target.exists()
    assert not target.with_name("ours.importing").exists()


def test_the_daemons_settings_say_whose_it_is(broker: Path, target: Path) -> None:
    assert run("import", broker, "--data-dir", target, "--set", "node.id=9")[0] == 0
    assert "node.id=9" in (target / "meta.properties").read_text()
    assert load().settings.node_id != 9
