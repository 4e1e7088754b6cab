"""`coordinatord export` for brokers of other kinds than the one of test_exchange.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kafka import KafkaProducer

from tests.daemon import free_port, running
from tests.reference.broker import prepare_broker
from tests.reference.described import describe_once
from tests.reference.guide import Shell
from tests.reference.test_exchange import KAFKA, OURS, commit
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.reference

OFFSETS = {("group", "orders", 0): (1, "0", 1)}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory of ours with one record and one offset."""
    with running(tmp_path_factory.mktemp("ours"), OURS) as daemon:
        KafkaProducer(bootstrap_servers=daemon.bootstrap).send("orders", b"value", partition=0).get(PATIENCE_S)
        commit(daemon.bootstrap, "group", 1)
    return daemon.data_dir


@pytest.mark.parametrize("release", ["3.9-IV0", "4.0-IV3"])
def test_to_a_cluster_of_an_older_metadata_version(release: str, small: Path, kafka_libs: Path, tmp_path: Path) -> None:
    """Without eligible leader replicas the first election is another one."""
    prepared = prepare_broker(kafka_libs, tmp_path / "kafka", KAFKA)
    prepared.format("--release-version", release)
    Shell(kafka_libs, tmp_path).bash(f"coordinatord export {prepared.data_dir} --data-dir {small}")
    broker = prepared.start()
    try:
        assert describe_once(broker.tool, lambda found: bool(found.offsets)).offsets == OFFSETS
    finally:
        broker.stop()


def test_to_a_broker_that_is_no_controller(small: Path, kafka_libs: Path, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    voters = {"controller.quorum.voters": f"100@{address}"}
    roles = {"process.roles": "controller", "node.id": "100", "listeners": f"CONTROLLER://{address}"}
    controller = prepare_broker(kafka_libs, tmp_path / "controller", {**KAFKA, **voters, **roles})
    lines = controller.properties_file.read_text().splitlines()
    lines = [line for line in lines if not line.startswith(("advertised.listeners", "inter.broker.listener.name"))]
    controller.properties_file.write_text("\n".join(lines) + "\n")
    broker = prepare_broker(kafka_libs, tmp_path / "broker", {**KAFKA, **voters, "process.roles": "broker"})
    text = broker.properties_file.read_text()
    broker.properties_file.write_text(re.sub(r"(?m)^(listeners=PLAINTEXT://[^,\n]*),.*$", r"\1", text))
    for each in (controller, broker):
        each.format()
    directories = f"{broker.data_dir} --controller {controller.data_dir}"
    Shell(kafka_libs, tmp_path).bash(f"coordinatord export {directories} --data-dir {small}")
    started = [controller.launch()]
    try:
        started.append(broker.start())
        assert describe_once(started[1].tool, lambda found: bool(found.offsets)).offsets == OFFSETS
    finally:
        for each_started in reversed(started):
            each_started.stop()
