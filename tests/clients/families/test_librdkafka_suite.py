"""librdkafka's own tests, which come with its sources in an npm package, against the daemon.

Each is a process of its own; `-n 8` runs several at a time, for most of them wait. `--broker kafka` runs them against
Apache Kafka: is it the daemon, or the test?
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.clients.brokers import running_choice
from tests.clients.families import toolchains
from tests.clients.families.toolchains import ToolMissing

pytestmark = [pytest.mark.clients, pytest.mark.timeout(3600)]

VERSION = "1.10.1"  # of @confluentinc/kafka-javascript: librdkafka 2.15.1
TEST_TIMEOUT_S = 180
SETTINGS = {
    "num.partitions": "4",
    "group.coordinator.rebalance.protocols": "classic,consumer,share",
    # A member of a share group is assigned partitions by its second heartbeat, and each test begins with new groups.
    "group.share.heartbeat.interval.ms": "300",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.assignment.interval.ms": "0",
    "group.share.min.record.lock.duration.ms": "1000",
}
KAFKA_VERSION = "4.3.0"

SHARE: Mapping[str, str] = {
    "0184_share_consumer_topic_recreate": "",
    "0185_share_consumer_max_poll_interval": "",
    "0174_share_consumer_concurrency": "1p 4p 2p_6c 2p_2c slow volume varied chaos staggered 8p_2c 2p_8c max_",
    "0172_share_consumer_acknowledge": "ack_ delivery scale",
    "0170_share_consumer_subscription": "scenario subscri offset_reset topic_del two_groups delete_records overlap",
    "0171_share_consumer_consume": "consumer volume many headers_preserved produce sparse poll_callback concurrent "
    "max_bytes increase zero_byte",
    "0173_share_consumer_commit_async": "second_consumer multi produce no_pending per_record lock callback partial "
    "reentrancy",
    "0177_share_consumer_transactions": "",
    "0179_share_consumer_destroy": "",
    "0176_share_consumer_commit_sync": "",
    "0175_share_consumer_groups": "",
    "0178_share_consumer_close": "",
    "0180_share_consumer_config": "",
    "0181_share_consumer_topic_delete": "",
}
"""The tests about share groups, which are in one part or in several."""

RUN: Mapping[str, str] = {
    "groups and their subscriptions": "0045_resubscribe_with_regex 0033_regex_subscribe 0102_static_group_rebalance "
    "0122_buffer_cleaning_after_rebalance 0018_cgrp_term 0050_subscribe_adds 0069_consumer_add_parts "
    "0113_cooperative_rebalance/n_wildcard 0113_cooperative_rebalance/b_subscribe_with_cb "
    "0113_cooperative_rebalance/k_add_partition 0113_cooperative_rebalance/l_unsubscribe "
    "0113_cooperative_rebalance/h_delete_topic 0132_strategy_ordering 0020_destroy_hang 0051_assign_adds "
    "0056_balanced_group_mt 0040_io_event 0112_assign_unknown_part",
    "offsets": "0026_consume_pause 0030_offset_commit 0061_consumer_lag 0118_commit_rebalance 0015_offsets_seek "
    "0029_assign_offset 0014_reconsume_191 0031_get_offsets 0034_offset_reset 0054_offset_time 0059_bsearch "
    "0099_commit_metadata 0130_store_offsets 0140_commit_metadata",
    "administration": "0081_admin/DeleteGroups 0081_admin/ListConsumerGroupOffsets 0081_admin/do_test_CreateTopics "
    "0081_admin/DeleteConsumerGroupOffsets 0081_admin/AlterConsumerGroupOffsets 0081_admin/do_test_DescribeTopics "
    "0081_admin/DeleteRecords 0081_admin/ListOffsets 0081_admin/do_test_DeleteTopics 0081_admin/CreatePartitions "
    "0081_admin/do_test_AlterConfigs 0081_admin/IncrementalAlterConfigs 0081_admin/do_test_DescribeConfigs "
    "0081_admin/DescribeCluster 0081_admin/with_authorized_ops 0019_list_groups",
    "producing and fetching": "0129_fetch_aborted_msgs 0038_performance 0017_compression 0086_purge_remote "
    "0011_produce_batch 0127_fetch_queue_backoff 0060_op_prio 0067_empty_topic 0082_fetch_max_bytes 0042_many_topics "
    "0041_fetch_max_bytes 0090_idempotence 0085_headers 0001_multiobj 0002_unkpart 0003_msgmaxsize 0005_order "
    "0007_autotopic 0008_reqacks 0012_produce_consume 0013_null_msgs 0016_client_swname 0021_rkt_destroy "
    "0022_consume_batch 0035_api_version 0036_partial_fetch 0039_event_dr 0044_partition_cnt 0048_partitioner "
    "0057_invalid_topic 0063_clusterid 0065_yield 0068_produce_timeout 0070_null_empty 0073_headers",
    "share groups": " ".join(
        " ".join([f"{name}/{part}" for part in parts.split()] or [name]) for name, parts in SHARE.items()
    ),
}
"""Those that take long come first of their kind; the two about expressions more than a minute each. Of some tests the
parts that can be run alone.
"""

LEFT_OUT: Mapping[str, str] = {
    "they take long, and are about the client more than about a broker": "0049 0055 0075 0076 0083 0084 0088 0089 0091 "
    "0093 0094 0114 0123 0125 0137 0139 0150",
    "they run scripts of a Kafka installation": "0052 0077 0109 0115 0119",
    "they need RapidJSON": "0053 0098 0101 0110",
    "it sets a property that is there with TLS only, which is not compiled in": "0064",
    "they want three replicas": "0103",
    "they need TLS or SASL, which is not compiled in": "0097 0126 0135 0142",
    "they are about what Kafka 4 has no more": "0092",
    "they fail with librdkafka, whatever the broker": "0028 0047",
    "they want topics not to be created by asking for them": "0107 0111",
}

LEFT_OUT_PARTS: Mapping[str, str] = {
    "do_test_all_compression_codecs": "it needs zstd, which is not compiled in",
}
"""Of the tests about share groups. 0182, 0183 and 0186 run on librdkafka's mock alone."""


def run_one(tests: Path, conf: Path, test: str) -> tuple[bool, str]:
    """Run one of the tests in `RUN`; return whether it passed, and its output."""
    name, _, part = test.partition("/")
    environment = {
        **os.environ,
        "TESTS": name[:4],
        "RDKAFKA_TEST_CONF": str(conf),
        "LD_LIBRARY_PATH": "../src:../src-cpp",
        "TEST_KAFKA_VERSION": KAFKA_VERSION,
        **({"SUBTESTS": part} if part else {}),
    }
    command = ["./test-runner", "-p1", "-L"]  # one at a time, and none that needs no broker
    try:
        done = subprocess.run(
            command,
            cwd=tests,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TEST_TIMEOUT_S,
            check=False,
        )
        said, code = done.stdout, done.returncode
    except subprocess.TimeoutExpired as late:
        said, code = late.stdout or b"", -1
    text = re.sub(r"\x1b\[[0-9;]*m", "", said.decode(errors="replace"))
    return code == 0 and f"Test {name} PASSED" in text, text


def names_in(listed: Mapping[str, str]) -> list[str]:
    return " ".join(listed.values()).split()


@pytest.fixture(scope="module")
def tests() -> Path:
    try:
        return toolchains.librdkafka_tests(VERSION)
    except ToolMissing as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"skipped: {missing}")


@pytest.fixture(scope="module")
def conf(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The configuration of librdkafka's tests, which names a running broker."""
    directory = tmp_path_factory.mktemp("librdkafka")
    with running_choice(request.config, directory, SETTINGS) as broker:
        path = directory / "test.conf"
        path.write_text(f"metadata.broker.list={broker.bootstrap}\nbroker.address.family=v4\ntest.topic.random=true\n")
        yield path


@pytest.mark.parametrize("name", names_in(RUN))
def test_librdkafka(name: str, tests: Path, conf: Path) -> None:
    """Many of librdkafka's tests have deadlines of a second: beside others they can be late."""
    has_passed, said = run_one(tests, conf, name)
    assert has_passed, said[-3_000:]


def test_all_are_run_or_left_out(tests: Path) -> None:
    """Those that need a broker; a reason that outlives its test says nothing."""
    declared = re.findall(r"_TEST\((\d{4})_\w+,\s*([^,)]+)", (tests / "test.c").read_text())
    needing = {number for number, flags in declared if not re.search("TEST_F_LOCAL|TEST_F_MANUAL", flags)}
    run, left_out = {name[:4] for name in names_in(RUN)}, set(names_in(LEFT_OUT))
    assert run | left_out == needing
    assert run & left_out == set()


def test_all_parts_about_share_groups_are_run_or_left_out(tests: Path) -> None:
    missing = set()
    for name, parts in ((name, parts.split()) for name, parts in SHARE.items() if parts):
        source = (tests / f"{name.replace('_', '-', 1)}.c").read_text()
        functions = re.findall(r"^(?:static )?\w+ (\w+)\([^;{]*\) \{(.*?)^\}", source, re.DOTALL | re.MULTILINE)
        played = [function for function, body in functions if "SUB_TEST(" in body]
        assert played, name
        missing |= {each for each in played if not any(part in each for part in parts)}
    assert missing == LEFT_OUT_PARTS.keys()
