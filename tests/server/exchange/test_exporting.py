"""`coordinatord export`: what a broker finds, what is refused and in which words; that nothing else is touched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coordinatord.broker.log import leader_epoch_cache, locks
from coordinatord.broker.log.checkpoint import LOG_START, uuid_text
from coordinatord.broker.log.disk import Disk, OsDisk
from coordinatord.server.exchange import exporting
from coordinatord.server.exchange.kafka_metadata import BOOTSTRAPS, bootstrap_of, read_bootstrap
from kafka_wire.records.batch import check_crc, iterate_batches, records
from kafka_wire.records.cluster_metadata import PartitionRecord, ProducerIdsRecord, decode_record
from tests.server.exchange.world import (
    DIRECTORY_ID,
    FIRST_SEGMENT,
    ORDERS,
    batch,
    contents,
    formatted,
    kafka,
    partition,
    run,
)


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """A data directory of ours, as a clean stop leaves it: one partition has never been written to."""
    target = tmp_path / "ours"
    assert run("import", kafka(tmp_path / "kafka"), "--data-dir", target)[0] == 0
    leader_epoch_cache.write(OsDisk(), str(target / "orders-0"), ((0, 0), (6, 2)))
    entries = json.loads((target / "topics.json").read_text())
    entries["topics"]["orders"]["configs"] = {"retention.ms": "5"}
    entries["topics"]["orders"]["partitions"] = 3
    (target / "topics.json").write_text(json.dumps(entries))
    (target / "producer_ids.json").write_text('{"version": 1, "next": 2000}')
    (target / LOG_START).write_text("0\n2\norders 0 1\nold 0 9\n")
    return target


@pytest.fixture(params=BOOTSTRAPS)
def broker(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A formatted directory, with its records where Kafka up to 4.3 and since 4.4 puts them."""
    made = formatted(tmp_path / "broker", node_id="7")
    if request.param != BOOTSTRAPS[0]:
        (made / request.param).parent.mkdir()
        (made / BOOTSTRAPS[0]).rename(made / request.param)
    return made


def bootstrap_records(directory: Path) -> list[Any]:
    """Of the file as Kafka reads it: offsets without a gap, sound batches, and a control record at both ends."""
    data = bootstrap_of(directory).read_bytes()
    found, control, next_offset = [], [], 0
    for position, header in iterate_batches(data):
        check_crc(data, position, header)
        assert header.base_offset == next_offset
        next_offset = header.next_offset
        control.append(header.is_control)
        if not header.is_control:
            found += [decode_record(record.value or b"") for record in records(data, position)]
    assert control[0]
    assert control[-1]
    assert not any(control[1:-1])
    return found


def test_a_broker_finds_topics_and_partitions(ours: Path, broker: Path) -> None:
    before = contents(ours)
    code, said, _ = run("export", broker, "--data-dir", ours)
    assert code == 0
    assert contents(ours) == before
    assert f"{broker} is ready: start Kafka on it" in said
    found = read_bootstrap(broker)
    assert {topic.name: topic.partitions for topic in found.topics.values()} == {
        "orders": {0: 6, 1: 5, 2: 0},  # with the last leader epoch of each
        "__consumer_offsets": {0: 5},
    }
    assert found.topics[ORDERS].name == "orders"
    assert found.configs == {"orders": {"retention.ms": "5"}}
    assert found.features == {"metadata.version": 25, "eligible.leader.replicas.version": 1}
    assert found.next_producer_id == 2000
    partitions = [each for each in bootstrap_records(broker) if isinstance(each, PartitionRecord)]
    assert {leadership(each) for each in partitions} == {(-1, "[7]", "[]", "[7]")}
    assert {tuple(each.directories) for each in partitions} == {(DIRECTORY_ID,)}
    assert (broker / "orders-0" / FIRST_SEGMENT).read_bytes() == (ours / "orders-0" / FIRST_SEGMENT).read_bytes()
    assert f"topic_id: {uuid_text(ORDERS)}" in (broker / "orders-0" / "partition.metadata").read_text()
    assert (broker / LOG_START).read_text() == "0\n1\norders 0 1\n"
    # Kafka is to read and check everything, and must not take indexes or producers on trust.
    assert not (broker / ".kafka_cleanshutdown").exists()


def leadership(record: PartitionRecord) -> tuple[object, ...]:
    return record.leader, *map(str, (record.replicas, record.isr, record.last_known_elr))


def test_older_clusters(ours: Path, tmp_path: Path) -> None:
    """Those that keep no eligible leader replicas, and those that know no log directories either."""
    for level, directories in ((17, [DIRECTORY_ID]), (16, [])):
        broker = formatted(tmp_path / f"older-{level}", level=level, elr=0)
        assert run("export", broker, "--data-dir", ours)[0] == 0
        partitions = [each for each in bootstrap_records(broker) if isinstance(each, PartitionRecord)]
        assert {leadership(each) for each in partitions} == {(-1, "[3]", "[3]", "None")}
        assert all(each.directories == directories for each in partitions)


def test_controllers_that_cannot_all_be_written_are_left_as_they_were(
    ours: Path, broker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controllers = [formatted(tmp_path / name, node_id=name[-1]) for name in ("c1", "c2")]
    before = [contents(each) for each in (broker, *controllers)]
    replace = exporting.replace_bytes

    def fails_at_the_second(disk: Disk, path: str, data: bytes) -> None:
        if path.startswith(f"{controllers[1]}/"):
            raise OSError(28, "No space left on device", path)
        replace(disk, path, data)

    monkeypatch.setattr(exporting, "replace_bytes", fails_at_the_second)
    arguments = [argument for each in controllers for argument in ("--controller", each)]
    code, _, said = run("export", broker, "--data-dir", ours, *arguments)
    assert code == 1
    assert "No space left on device. Nothing was left behind." in said
    assert [contents(each) for each in (broker, *controllers)] == before


def test_controllers_of_their_own(ours: Path, broker: Path, tmp_path: Path) -> None:
    controllers = [formatted(tmp_path / name, node_id=name[-1]) for name in ("c1", "c2")]
    untouched = bootstrap_of(broker).read_bytes()
    arguments = [argument for each in controllers for argument in ("--controller", each)]
    assert run("export", broker, "--data-dir", ours, *arguments)[0] == 0
    assert bootstrap_of(broker).read_bytes() == untouched
    for each in controllers:
        assert read_bootstrap(each).topics.keys() >= {ORDERS}
        assert not list(each.glob("orders*"))
    assert (broker / "orders-0").is_dir()


def test_no_producer_id_was_given_out(ours: Path, broker: Path) -> None:
    (ours / "producer_ids.json").unlink()
    assert run("export", broker, "--data-dir", ours)[0] == 0
    assert not [each for each in bootstrap_records(broker) if isinstance(each, ProducerIdsRecord)]


def test_a_topic_that_was_being_deleted_does_not_come_along(ours: Path, broker: Path) -> None:
    partition(ours, "left-0", b"left".ljust(16, b"."), batch(["x"]))
    assert run("export", broker, "--data-dir", ours)[0] == 0
    assert not list(broker.glob("left*"))


def test_a_trial_writes_nothing(ours: Path, broker: Path) -> None:
    before = contents(broker)
    code, said, _ = run("export", broker, "--data-dir", ours, "--dry-run")
    assert code == 0
    assert "orders" in said
    assert said.endswith("Nothing was written.\n")
    assert contents(broker) == before


def test_what_is_refused(ours: Path, broker: Path, tmp_path: Path) -> None:
    def refused(*arguments: object) -> str:
        before = contents(ours), contents(tmp_path / "broker")
        code, _, said = run("export", *arguments)
        assert code == 1
        assert (contents(ours), contents(tmp_path / "broker")) == before
        assert len(said.splitlines()) == 1
        return said

    assert "is not a directory" in refused(tmp_path / "nowhere", "--data-dir", ours)
    nowhere = refused(broker, "--data-dir", tmp_path / "nowhere")
    assert (
        f"{tmp_path / 'nowhere'}, where coordinatord's log would be, is no directory: name it with --data-" in nowhere
    )
    (tmp_path / "empty").mkdir()
    assert "has no topics.json" in refused(broker, "--data-dir", tmp_path / "empty")
    assert "has no topics.json" in refused(broker, "--data-dir", tmp_path / "kafka")
    (ours / ".kafka_cleanshutdown").rename(ours / "aside")
    assert "stop it with SIGTERM once" in refused(broker, "--data-dir", ours)
    (ours / "aside").rename(ours / ".kafka_cleanshutdown")
    other = formatted(tmp_path / "other", cluster_id="another")
    assert "are of different clusters" in refused(broker, "--data-dir", ours, "--controller", other)
    older = formatted(tmp_path / "older", level=20)
    alike = refused(broker, "--data-dir", ours, "--controller", older, "--controller", broker)
    assert "format them alike" in alike
    bootstrap = bootstrap_of(broker)
    bootstrap.rename(broker / "aside")
    assert "format it with Kafka's kafka-storage.sh first" in refused(broker, "--data-dir", ours)
    (broker / "aside").rename(bootstrap)
    for directory in (ours, broker):
        with (directory / ".lock").open("w") as lock:
            locks.hold(lock.fileno())
            assert f"{directory} is in use: stop the process" in refused(broker, "--data-dir", ours)
    log = broker / "__cluster_metadata-0"
    log.mkdir(exist_ok=True)
    (log / FIRST_SEGMENT).write_bytes(batch(["x"]))
    assert "has been started already" in refused(broker, "--data-dir", ours)
    (log / FIRST_SEGMENT).unlink()
    assert run("export", broker, "--data-dir", ours)[0] == 0
    assert "has partitions already" in refused(broker, "--data-dir", ours)
    fresh = formatted(tmp_path / "fresh")
    assert "has topics already" in refused(fresh, "--data-dir", ours, "--controller", broker)


def test_a_failure_removes_nothing_that_was_there(ours: Path, broker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a directory in a partition's place, which is why it fails, nor checkpoints."""
    (broker / "orders-1").mkdir()
    (broker / "orders-1" / "mine").write_text("x")
    (broker / "backup-2024").mkdir()
    (broker / LOG_START).write_text("0\n0\n")
    before = contents(broker)
    code, _, said = run("export", broker, "--data-dir", ours)
    assert (code, "orders-1: File exists" in said) == (1, True)
    assert contents(broker) == before
    assert (broker / "backup-2024").is_dir()
    (broker / "orders-1" / "mine").unlink()
    (broker / "orders-1").rmdir()
    before = contents(broker)
    monkeypatch.setattr(exporting, "extend_bootstrap", full)
    assert run("export", broker, "--data-dir", ours)[0] == 1
    assert contents(broker) == before


def full(*_arguments: object) -> None:
    raise OSError(28, "No space left on device", "somewhere")


def test_a_failure_leaves_the_broker_as_it_was(ours: Path, broker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(broker)

    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device", str(broker))

    monkeypatch.setattr("coordinatord.server.exchange.exporting.replace_bytes", full)
    code, _, said = run("export", broker, "--data-dir", ours)
    assert code == 1
    assert "No space left on device" in said
    assert contents(broker) == before
