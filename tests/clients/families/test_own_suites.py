"""Clients' own integration tests, as their source distributions on PyPI carry them, against the daemon.

A file can fail at random: kafka-python 3.0.12 loses a subscription that is made while it asks for metadata (its
set_topics mentions that), in one of 250 new consumers here, and learns of the topic five minutes later.

They are downloaded into the tests' cache and run there by a pytest of their own, with a plugin of ours in the place of
what starts a broker for them. What is left out is named here with its reason. aiokafka's source distributions (0.10 to
0.14) carry no tests.
"""

from __future__ import annotations

import os
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.clients.families import toolchains
from tests.clients.families.toolchains import ToolMissing
from tests.daemon import Daemon, running

pytestmark = [pytest.mark.clients, pytest.mark.timeout(3000)]

VERSION = "3.0.12"
STAND_INS = Path(__file__).parent / "stand_ins"
SUITE_TIMEOUT_S = 1000
TEST_TIMEOUT_S = 60

FILES = {"test_admin_integration.py": 1, "test_consumer_integration.py": 1, "test_producer_integration.py": 1}
"""The least number of tests that pass, by file."""
LEFT_OUT_FILES = {
    "test_sasl_integration.py": "it starts brokers of its own for each mechanism",
    "test_ssl_integration.py": "it starts brokers of its own for each kind of store",
}
LEFT_OUT: Mapping[str, str] = {
    "test_create_describe_delete_acls": "there is no authorisation",
    "test_elect_leaders": "one node: nothing to elect",
    "test_describe_log_dirs": "DescribeLogDirs is not served",
    "test_alter_replica_log_dirs": "AlterReplicaLogDirs is not served",
    "test_describe_metadata_quorum": "there is no KRaft quorum",
    "test_alter_partition_reassignments": "one node: nothing to reassign",
    "test_list_partition_reassignments": "one node: nothing to reassign",
    "test_list_config_resources": "ListConfigResources is not served",
}
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "num.partitions": "4",  # what their fixtures create brokers with
}


def run_suite(daemon: Daemon, report: Path, file: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of a file that are not left out."""
    python = toolchains.python(f"kafka-python[crc32c,lz4,snappy,zstd,testing]=={VERSION}")
    source = toolchains.source("kafka-python", VERSION)
    environment = {
        **os.environ,
        "PYTHONPATH": str(STAND_INS),
        "KAFKA_VERSION": "4.3",  # what kafka-python infers from the APIs that we offer
        "KAFKA_URI": f"kafka://{daemon.bootstrap}",
        "KAFKA_ROOT": str(source),  # has to exist
    }
    command = [
        python,
        "-m",
        "pytest",
        "-q",
        "-p",
        "kafka_python_stand_in",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:logging",
    ]
    command += ["--timeout", str(TEST_TIMEOUT_S), f"--junitxml={report}"]
    command += [f"test/integration/{file}"]
    command += [word for name in LEFT_OUT for word in ("--deselect", f"test/integration/{file}::{name}")]
    return subprocess.run(
        command, cwd=source, env=environment, capture_output=True, text=True, timeout=SUITE_TIMEOUT_S, check=False
    )


def cases(report: Path) -> list[ET.Element]:
    """What a report tells of."""
    return list(ET.parse(report).getroot().iter("testcase")) if report.exists() else []


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("daemon"), SETTINGS) as started:
        started.stop()
        started.settings = {**SETTINGS, "advertised.listeners": f"PLAINTEXT://{started.bootstrap}"}
        started.start()
        yield started


@pytest.mark.parametrize("file", FILES)
def test_kafka_python(file: str, daemon: Daemon, tmp_path: Path) -> None:
    try:
        done = run_suite(daemon, tmp_path / "report.xml", file)
    except ToolMissing as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"skipped: {missing}")
    said = done.stdout[-8_000:] + done.stderr[-2_000:]
    assert done.returncode == 0, said
    outcomes = {case.attrib["name"]: case.find("skipped") is None for case in cases(tmp_path / "report.xml")}
    passed = sum(outcomes.values())
    print(f"\nkafka-python {VERSION}, {file}: {passed} tests passed")
    assert passed >= FILES[file], said
    for name, ran in outcomes.items():
        if not ran:
            print(f"skipped by kafka-python itself: {name}")


def test_what_is_left_out_exists() -> None:
    """A reason that outlives its test says nothing."""
    try:
        integration = toolchains.source("kafka-python", VERSION) / "test" / "integration"
    except ToolMissing as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"skipped: {missing}")
    assert {path.name for path in integration.glob("test_*.py")} == {*FILES, *LEFT_OUT_FILES}
    text = "".join((integration / name).read_text() for name in FILES)
    assert [name for name in LEFT_OUT if f"def {name}(" not in text] == []
