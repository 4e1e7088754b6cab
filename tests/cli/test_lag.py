"""`coordinatord lag` as a user starts it: who is behind, in text, JSON and CSV, from a directory and from a broker."""

from __future__ import annotations

import base64
import csv
import gc
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from coordinatord.cli import cli
from coordinatord.monitoring.analysis.current_lag import Now
from coordinatord.monitoring.analysis.severity import ORDER, URGENT
from coordinatord.monitoring.offsets_log.lag import connect_retry, lag_scan
from coordinatord.transport.cluster.partitioner import partition_for
from kafka_wire.records.batch import TRANSACTIONAL, BatchBuilder, build_batch, build_control_batch
from kafka_wire.records.cluster_metadata import ConfigRecord, encode_record
from kafka_wire.records.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    TopicPartitions,
)
from kafka_wire.records.control import ControlType
from kafka_wire.records.offsets import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from kafka_wire.records.share_group import (
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
)
from kafka_wire.records.share_state import ShareSnapshotValue, ShareStateKey, StateBatch, encode_key, encode_value
from kafka_wire.records.streams_group import StreamsGroupMetadataKey, StreamsGroupMetadataValue
from tests.daemon import REPOSITORY, free_port, running
from tests.monitoring.pipeline.directories import write_segment
from tests.monitoring.pipeline.logs import encoded
from tests.monitoring.pipeline.truth.model import Model
from tests.monitoring.pipeline.truth.world import World

ROOT = Path(__file__).parents[2]


def lag(*arguments: str, status: int = 0) -> str:
    """What the command prints, errors included."""
    told = CliRunner().invoke(cli, ["lag", *arguments])
    assert told.exit_code == status, told.output
    return told.output


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, str]:
    """A history, and the directory of its log."""
    found = World(1)
    directory = tmp_path_factory.mktemp("log")
    found.write(directory)
    return found, str(directory)


def test_json_has_the_names_of_the_tables(world: tuple[World, str]) -> None:
    """The time is another one than the history's end: what does not depend on it is the model's."""
    code = "import sys; sys.modules['pyspark'] = None; from coordinatord.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "lag", "--source", world[1], "--json"], cwd=ROOT, capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "protocol")}, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    expected = Model(world[0]).standing()
    assert {(row["group_id"], row["topic"], row["partition"]) for row in rows} == expected.keys()
    for row in rows:
        assert list(row) == list(Now._fields)
        right = expected[row["group_id"], row["topic"], row["partition"]]
        for name in ("committed_offset", "committed_ms", "end_offset", "log_start_offset", "lag", "lost_records"):
            assert row[name] == right[name], (row, name)


def test_csv_has_the_same_rows(world: tuple[World, str]) -> None:
    rows = list(csv.DictReader(io.StringIO(lag("--source", world[1], "--csv", "group-?"))))
    assert {row["group_id"] for row in rows} == {group.name for group, _ in Model(world[0]).places()} - {
        "looping",
        "deployed",
    }
    assert {row["lag"] for row in rows} >= {"0"}


def test_groups_by_urgency(world: tuple[World, str]) -> None:
    lines = lag("--source", world[1]).splitlines()
    assert lines[2].split()[:2] == ["GROUP", "STATUS"]
    at = lines[2].index("STATUS")
    statuses = [next(word for word in ORDER if line[at:].startswith(f"{word} ")) for line in lines[3:]]
    assert statuses == sorted(statuses, key=ORDER.index)
    urgent = sum(word in URGENT for word in statuses)
    assert lines[0].endswith(f"{len(statuses)} groups, {urgent} of them need attention")
    one = lag("--source", world[1], "looping")
    assert one.count("looping") == 4, "a line for the group, and one for each of its partitions"


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        ([], 2, "say where the log is: either --source DIR|postgresql://… or --bootstrap HOST:PORT."),
        (["--source", "/none"], 2, "/none does not exist."),
        (["--bootstrap", "broker"], 2, "--bootstrap broker: HOST:PORT is wanted."),
        (["nobody", "--source", "LOG"], 1, "the log has no group nobody."),
    ],
)
def test_mistakes(world: tuple[World, str], arguments: list[str], status: int, sentence: str) -> None:
    told = lag(*(world[1] if each == "LOG" else each for each in arguments), status=status)
    assert told == f"coordinatord: {sentence}\n"


@pytest.mark.parametrize("option", ["--broker-config", "--command-config"])
def test_a_directory_is_no_file_of_properties(option: str) -> None:
    told = lag("--bootstrap", "127.0.0.1:1", option, "/", status=2)
    assert told.endswith(f"Error: Invalid value for '{option}': File '/' is a directory.\n")


def test_what_it_needs_is_told(world: tuple[World, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "coordinatord.monitoring.offsets_log.lag.lag_scan", None)  # as without pyarrow
    assert "This needs numpy and pyarrow, and kafka-python for a broker: " in lag("--source", world[1], status=1)


def test_transactions_count_if_they_are_committed(tmp_path: Path) -> None:
    """The last line: something was committed after the transaction's commit, and before its marker."""
    batches: list[bytes] = []

    def commit(group: str, offset: int, producer_id: int | None = None) -> None:
        builder = BatchBuilder()
        builder.extend([encoded(1, 3, OffsetCommitKey(group, "t", 0), OffsetCommitValue(offset, 0, "", 5))], 5)
        fields = {} if producer_id is None else {"attributes": TRANSACTIONAL, "producer_id": producer_id}
        batches.append(bytes(builder.finish(len(batches), producer_epoch=0, **fields)))

    def end(producer_id: int, kind: ControlType) -> None:
        batches.append(bytes(build_control_batch(kind, producer_id, 0, 0, 9, base_offset=len(batches))))

    for group, kind in (("done", ControlType.COMMIT), ("undone", ControlType.ABORT)):
        commit(group, 10)
        commit(group, 20, 7)
        end(7, kind)
    commit("open", 10)
    commit("open", 20, 7)
    commit("late", 20, 8)
    commit("late", 30)
    end(8, ControlType.COMMIT)
    write_segment(tmp_path / "__consumer_offsets-0", 0, batches)
    found = {
        row["group_id"]: (row["committed_offset"], row["committed_ms"])
        for row in json.loads(lag("--source", str(tmp_path), "--json"))
    }
    assert found == {"done": (20, 9), "undone": (10, 5), "open": (10, 5), "late": (30, 5)}


def test_watch(world: tuple[World, str], monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("coordinatord.cli.lag.time.sleep", wait)
    told = lag("--source", world[1], "--watch", "--interval", "7", "looping")
    assert waited == [7, 7, 7]
    assert told.count("1 group, it needs attention") == 3
    assert told.endswith("stopped\n")
    assert "no group nobody" in lag("--source", world[1], "--watch", "nobody", status=1)


def test_names_that_a_terminal_would_obey(tmp_path: Path) -> None:
    directory = tmp_path / "__consumer_offsets-0"
    key, value = OffsetCommitKey("bad\x1b[2J", "t\n", 0), OffsetCommitValue(1, 0, "", 5)
    write_segment(directory, 0, [build_batch([encoded(1, 3, key, value)], 5)])
    told = lag("--source", str(tmp_path), "bad*")
    assert "bad\\x1b[2J" in told
    assert "t\\n" in told
    assert "\x1b" not in told
    table = lag("--source", str(tmp_path), "--csv")
    assert "\x1b" not in table
    assert table.count("\n") == 2
    [row] = csv.DictReader(io.StringIO(table))
    assert (row["group_id"], row["topic"]) == ("bad\\x1b[2J", "t\\n")
    [row] = json.loads(lag("--source", str(tmp_path), "--json"))
    assert (row["group_id"], row["topic"]) == ("bad\x1b[2J", "t\n"), "the names as they are"


def test_a_name_that_a_spreadsheet_takes_for_a_formula_stays_as_it_is(tmp_path: Path) -> None:
    """Who looks for the group finds it: the documents say how to import the file."""
    key, value = OffsetCommitKey("=cmd|calc", "t", 0), OffsetCommitValue(1, 0, "", 5)
    write_segment(tmp_path / "__consumer_offsets-0", 0, [build_batch([encoded(1, 3, key, value)], 5)])
    [row] = csv.DictReader(io.StringIO(lag("--source", str(tmp_path), "--csv")))
    assert row["group_id"] == "=cmd|calc"


@pytest.mark.parametrize("damaged", [1, 2])
def test_damage_is_told(damaged: int, tmp_path: Path) -> None:
    """One flipped bit in the only commit of a group: the group is not there, and nothing else would tell."""
    batches = []
    for number, group in enumerate(["kept", "gone", "gone-too", "also-kept"]):
        commit = encoded(1, 3, OffsetCommitKey(group, "t", 0), OffsetCommitValue(1, 0, "", 5))
        batches.append(build_batch([commit], 5, number))
    for number in range(1, 1 + damaged):
        batches[number][-1] ^= 1
    write_segment(tmp_path / "__consumer_offsets-0", 0, batches)
    told = CliRunner().invoke(cli, ["lag", "--source", str(tmp_path), "--csv"])
    pieces = "1 piece" if damaged == 1 else "2 pieces"
    assert told.stderr == f"{pieces} of the log could not be decoded: what groups wrote there is missing here\n"
    assert (told.exit_code, told.stdout.count("kept"), "gone," in told.stdout) == (0, 2, False)
    assert lag("gone", "--source", str(tmp_path), status=1).startswith(pieces)


def test_from_a_broker(tmp_path: Path) -> None:
    """A first look asks where partitions ended earlier, and says for how long records have been unread at most."""
    with running(tmp_path) as daemon:
        producer = KafkaProducer(bootstrap_servers=daemon.bootstrap)
        for _ in range(10):
            producer.send("orders", b"hello").get(timeout=30)
        producer.close()
        consumer = KafkaConsumer(group_id="billing", bootstrap_servers=daemon.bootstrap, enable_auto_commit=False)
        consumer.assign([TopicPartition("orders", 0)])
        consumer.commit({TopicPartition("orders", 0): OffsetAndMetadata(4, "", -1)})
        consumer.close()
        [row] = json.loads(lag("--bootstrap", daemon.bootstrap, "--json"))
        assert (row["group_id"], row["committed_offset"], row["end_offset"], row["lag"]) == ("billing", 4, 10, 6)
        assert (row["time_lag_method"], row["status"]) == ("at most", "behind")
        assert 0 < row["time_lag_ms"] <= 30_000  # since the ends of 30 s before they were requested


def test_a_deleted_group_is_not_there(tmp_path: Path) -> None:
    """Neither one of the classic protocol nor one of the consumer protocol."""
    classic, consumer = GroupMetadataKey("classic"), ConsumerGroupMetadataKey("consumer")
    value = GroupMetadataValue("consumer", 1, None, None, 5, [])
    kept = ConsumerGroupMetadataKey("kept")
    records = [
        encoded(2, 3, classic, value), encoded(2, 3, classic, None),
        encoded(3, 0, consumer, ConsumerGroupMetadataValue(1)), encoded(3, 0, consumer, None),
        encoded(2, 3, GroupMetadataKey("empty"), value), encoded(3, 0, kept, ConsumerGroupMetadataValue(1)),
    ]  # fmt: skip
    write_segment(tmp_path / "__consumer_offsets-0", 0, [build_batch(records, 5)])
    for group in ("classic", "consumer"):
        assert lag(group, "--source", str(tmp_path), status=1) == f"coordinatord: the log has no group {group}.\n"
    for group in ("empty", "kept"):
        assert "has committed an offset" in lag(group, "--source", str(tmp_path)), "it has no offsets, and exists"


def test_groups_of_other_types_without_offsets_are_named(tmp_path: Path) -> None:
    parallel_fold, streams = ShareGroupMetadataKey("sharers"), StreamsGroupMetadataKey("streamers")
    records = [
        encoded(11, 0, parallel_fold, ShareGroupMetadataValue(1, 0)),
        encoded(17, 0, streams, StreamsGroupMetadataValue(1, 0)),
        encoded(11, 0, ShareGroupMetadataKey("gone"), ShareGroupMetadataValue(1, 0)),
        encoded(11, 0, ShareGroupMetadataKey("gone"), None),
    ]
    write_segment(tmp_path / "__consumer_offsets-0", 0, [build_batch(records, 5)])
    assert lag("sharers", "streamers", "gone", "--source", str(tmp_path), status=1).splitlines() == [
        "coordinatord: group sharers is a share group, which commits no offsets: `coordinatord groups describe "
        "sharers` shows its lag.",
        "coordinatord: group streamers is a streams group that has committed no offset.",
        "coordinatord: the log has no group gone.",
    ]


def test_a_share_group_has_a_table_of_its_partitions(tmp_path: Path) -> None:
    """Behind its rows, which other forms have, too; a group without stored state has a sentence. The limit is in the
    metadata's log, the oldest record of one partition in its own.
    """
    day_ms = 24 * 3_600_000
    now_ms = int(time.time() * 1000)
    records = [
        encoded(11, 0, ShareGroupMetadataKey(name), ShareGroupMetadataValue(1, 0)) for name in ("sharers", "new")
    ]
    member = ShareGroupMemberMetadataKey("sharers", "m"), ShareGroupMemberMetadataValue(None, "c", "/h", ["orders"])
    records.append(encoded(10, 0, *member))
    write_segment(tmp_path / "__consumer_offsets-0", 0, [build_batch(records, 5)])
    states = [
        (
            b"o" * 16, 0, 1_007,
            [StateBatch(1_007, 1_007, 0, 4), StateBatch(1_008, 1_019, 2, 1), StateBatch(1_020, 1_020, 4, 1)],
        ),
        (b"o" * 16, 1, -1, []),
        (b"?" * 16, 0, 3, [StateBatch(3, 4, 4, 5)]),
    ]  # fmt: skip
    write_segment(
        tmp_path / "__share_group_state-1",
        0,
        [
            build_batch(
                [
                    (
                        encode_key(ShareStateKey(0, "sharers", topic_id, partition)),
                        encode_value(ShareSnapshotValue(0, 1, 1, start, -1, 5, 5, batches)),
                    )
                    for topic_id, partition, start, batches in states
                ],
                now_ms - 3 * day_ms,
            )
        ],
    )
    orders = [build_batch([(None, b"order")], now_ms - day * day_ms, at) for day, at in ((4, 1_007), (1, 1_029))]
    write_segment(tmp_path / "orders-0", 0, orders)
    limit = ConfigRecord(32, "sharers", "share.delivery.count.limit", "6")
    write_segment(tmp_path / "__cluster_metadata-0", 0, [build_batch([(None, encode_record(limit, 0))], 5)])
    topic_id = base64.urlsafe_b64encode(b"o" * 16).decode().rstrip("=")
    (tmp_path / "orders-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    unknown = base64.urlsafe_b64encode(b"?" * 16).decode().rstrip("=")
    table = [
        "GROUP TOPIC PARTITION START DONE AFTER IT ARCHIVED MOST DELIVERIES OLDEST RECORD LAST CHANGE WHY",
        f"sharers {unknown} 0 3 2 2 5 at 3 - 3 d ago offsets 3-4 archived at delivery count 5",
        "sharers orders 0 1,007 13 1 4 at 1,007 4 d 3 d ago delivery count 4 of limit 6 at offset 1007: a suspected "
        "poison record",
        "sharers orders 1 - 0 0 - - 3 d ago",
    ]
    for named in ("sharers", "s*"):
        told = [" ".join(line.split()) for line in lag(named, "--source", str(tmp_path)).splitlines()]
        assert told[-4:] == table
        why = "10 unread: delivery count 4 of limit 6 at offset 1007: a suspected poison record"
        assert told[3] == f"sharers poison record 10 4 d 1 - {why}"
        assert told[6:9] == [
            f"sharers {unknown} 0 3 - - - unknown the end of the partition is not known",
            f"sharers orders 0 1,007 1,030 10 4 d poison record {why}",
            "sharers orders 1 - - - - unknown the group has no start offset yet: no member has acknowledged a record",
        ]
    rows = json.loads(lag("sharers", "--json", "--source", str(tmp_path)))
    assert [tuple(row[name] for name in ("topic", "committed_offset", "lag", "status")) for row in rows] == [
        (unknown, 3, None, "unknown"), ("orders", 1_007, 10, "poison record"), ("orders", None, None, "unknown"),
    ]  # fmt: skip
    without_state = (
        "coordinatord: group {0} is a share group, which commits no offsets: `coordinatord groups describe {0}`"
    )
    assert lag("new", "sharers", "--source", str(tmp_path), status=1).startswith(without_state.format("new"))


def test_damaged_states_of_share_groups_leave_the_other_groups(tmp_path: Path) -> None:
    records = [
        encoded(11, 0, ShareGroupMetadataKey("sharers"), ShareGroupMetadataValue(1, 0)),
        encoded(1, 4, OffsetCommitKey("readers", "orders", 0), OffsetCommitValue(7, 0, "", 5)),
    ]
    write_segment(tmp_path / "__consumer_offsets-0", 0, [build_batch(records, 5)])
    key = encode_key(ShareStateKey(0, "sharers", b"o" * 16, 0))
    write_segment(tmp_path / "__share_group_state-0", 0, [build_batch([(key, b"\0")], 5)])
    told = CliRunner().invoke(cli, ["lag", "--source", str(tmp_path)])
    assert told.exit_code == 0, told.output
    assert told.stderr.startswith(
        "deliveries of share groups are missing here: offset 0 of __share_group_state-0 cannot be decoded: "
    )
    assert "readers" in told.stdout


def test_what_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    directory = tmp_path / "__consumer_offsets-0"
    (directory / f"{0:020d}.log").mkdir(parents=True)
    told = lag("--source", str(tmp_path), status=2)
    assert told == f"coordinatord: {directory}/{0:020d}.log cannot be read: Is a directory.\n"


def test_one_named_group_has_one_partition_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a broker's log no other one is read; and one connection is opened for all of a command, which never waits for
    metadata.
    """
    from coordinatord.monitoring.offsets_log.source import broker, connecting
    from coordinatord.monitoring.offsets_log.source.broker import BrokerTail

    planned: list[set[str]] = []
    opened: list[str] = []
    ends, connect = BrokerTail.ends, connecting.connect

    def opening(bootstrap: str, *arguments: Any) -> Any:
        opened.append(bootstrap)
        return connect(bootstrap, *arguments)

    def waiting(*_: object) -> None:
        pytest.fail("it waits for metadata")

    def watched(tail: BrokerTail) -> dict[str, int]:
        found = ends(tail)
        planned.append(set(found))
        return found

    monkeypatch.setattr(BrokerTail, "ends", watched)
    monkeypatch.setattr(connecting, "connect", opening)
    monkeypatch.setattr(broker, "_look_again", waiting)
    with running(tmp_path) as daemon:
        producer = KafkaProducer(bootstrap_servers=daemon.bootstrap)
        producer.send("orders", b"hello").get(timeout=30)
        producer.close()
        for group in ("billing", "shipping"):
            consumer = KafkaConsumer(group_id=group, bootstrap_servers=daemon.bootstrap, enable_auto_commit=False)
            consumer.commit({TopicPartition("orders", 0): OffsetAndMetadata(0, "", -1)})
            consumer.close()
        assert [row["group_id"] for row in json.loads(lag("billing", "--bootstrap", daemon.bootstrap, "--json"))] == [
            "billing"
        ]
        assert opened == [daemon.bootstrap]
        lag("bill*", "--bootstrap", daemon.bootstrap)
        assert opened == 2 * [daemon.bootstrap]
    assert planned[0] == {f"__consumer_offsets-{partition_for('billing', 50)}"}
    assert len(planned[1]) == 50


def test_a_headline_counts_urgent_groups(world: tuple[World, str]) -> None:
    from coordinatord.cli.lag import headline
    from coordinatord.monitoring.analysis.groups import GroupNow

    def group(status: str) -> GroupNow:
        return GroupNow("g", status, "", 0, 1, 0, 0, 0, "exact", 1, None)

    assert headline(0, [group("ok")]) == "1970-01-01 00:00:00Z  1 group; none needs attention"
    assert headline(0, [group("stuck")]).endswith("1 group, it needs attention")
    assert headline(0, [group("ok"), group("stuck")]).endswith("2 groups, 1 of them needs attention")
    assert headline(0, [group("stuck"), group("stuck")]).endswith("2 groups, 2 of them need attention")


@pytest.mark.parametrize("last", [False, True])
def test_several_processes_find_the_same(last: bool, world: tuple[World, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where they judge what they have read, and send no fold."""
    from coordinatord.monitoring.offsets_log.lag import parallel_fold
    from coordinatord.monitoring.offsets_log.lag.fold import KINDS
    from coordinatord.monitoring.offsets_log.source.options import read_options

    options = read_options({"paths": json.dumps([world[1]]), "kinds": ",".join(sorted(KINDS))})
    one = lag_scan.Looks(options, world[1], {}).look(world[0].now_ms)
    monkeypatch.setattr(parallel_fold, "WORTH_BYTES", 0)
    shared = lag_scan.Looks(options, world[1], {}, workers=2)
    two = shared.look(world[0].now_ms, last=last)
    assert (two.rows, two.groups, two.members, two.records) == (one.rows, one.groups, one.members, one.records)
    assert len(one.rows) > 10
    assert bool(shared._folds) is not last


SHARED = """
import os, signal, sys
from coordinatord.cli import main
from coordinatord.monitoring.offsets_log.lag import parallel_fold

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
parallel_fold.WORTH_BYTES = 0
os.sched_getaffinity = lambda _pid: {0, 1}
sys.argv = ["coordinatord", "lag", "--source", sys.argv[1]]
main()
"""


LOOKS = 10
"""On a busy machine a look may be over before the test sees that it has begun. Not each time."""


def begun(log: str) -> subprocess.Popen[str] | None:
    """A look whose processes have begun; None if it is over."""
    lag = subprocess.Popen(
        [sys.executable, "-c", SHARED, log],
        cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, process_group=0,
        env=os.environ | {"PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'protocol'}"},
    )  # fmt: skip
    children = Path(f"/proc/{lag.pid}/task/{lag.pid}/children")
    ends = time.monotonic() + 120
    while len(children.read_text().split()) < 3:  # two that read, and one that counts semaphores
        if lag.poll() is not None:
            told, _ = lag.communicate()
            assert lag.returncode == 0, told
            return None
        assert time.monotonic() < ends, "they do not begin"
        time.sleep(0.002)
    return lag


@pytest.mark.timeout(600)
def test_ctrl_c_ends_all_of_several_processes_without_a_traceback(world: tuple[World, str]) -> None:
    """A terminal sends SIGINT to each."""
    for _ in range(LOOKS):
        lag = begun(world[1])
        if lag is None:
            continue
        os.killpg(lag.pid, signal.SIGINT)
        told, _ = lag.communicate(timeout=120)
        if lag.returncode != 0:
            assert (lag.returncode, told.strip()) == (1, "Aborted!")
            return
    raise AssertionError("each look was over before the signal came")


def test_a_topic_that_another_log_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member's partitions have ids. The log of its group does not name them; that of a group that commits does."""
    from coordinatord.monitoring.offsets_log.lag import parallel_fold
    from coordinatord.monitoring.offsets_log.lag.fold import KINDS
    from coordinatord.monitoring.offsets_log.source.options import read_options

    topic_id, member = bytes(range(16)), ("a group", "a member")
    member_value = ConsumerGroupMemberMetadataValue(None, None, "c", "h", ["t"], None, 5, None, None)
    owned = [TopicPartitions(topic_id, [3], None)]
    records = [
        encoded(5, 0, ConsumerGroupMemberMetadataKey(*member), member_value),
        encoded(
            8, 0, ConsumerGroupCurrentMemberAssignmentKey(*member),
            ConsumerGroupCurrentMemberAssignmentValue(1, 0, 0, owned, []),
        ),
    ]  # fmt: skip
    write_segment(tmp_path / "__consumer_offsets-0", 0, [build_batch(records, 5)])
    value = OffsetCommitValue(7, 0, "", 5, topic_id=topic_id)
    commit = encoded(1, 4, OffsetCommitKey("another", "t", 0), value)
    write_segment(tmp_path / "__consumer_offsets-1", 0, [build_batch([commit], 5)])
    options = read_options({"paths": json.dumps([str(tmp_path)]), "kinds": ",".join(sorted(KINDS))})
    monkeypatch.setattr(parallel_fold, "WORTH_BYTES", 0)
    for workers in (1, 2):
        found = lag_scan.Looks(options, None, {}, workers=workers).look(10_000, last=True)
        assert [row[:4] for row in found.rows] == [("a group", "t", 3, None), ("another", "t", 0, 7)]
        assert found.members == {"a group": 1}


def test_no_search_for_cycles_while_a_log_is_read(world: tuple[World, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It would visit each tuple again and again: half of the time of a large log. Afterwards all is as it was."""
    from coordinatord.monitoring.offsets_log.lag.fold import KINDS, Fold
    from coordinatord.monitoring.offsets_log.source.options import read_options

    seen = []
    take = Fold.take

    def watched(self: Fold, chunk: Any) -> None:
        seen.append(gc.isenabled())
        take(self, chunk)

    monkeypatch.setattr(Fold, "take", watched)
    options = read_options({"paths": json.dumps([world[1]]), "kinds": ",".join(sorted(KINDS))})
    assert gc.isenabled()
    lag_scan.Looks(options, world[1], {}).look(world[0].now_ms)
    assert gc.isenabled()
    assert seen
    assert not any(seen)


@pytest.mark.parametrize("source", ["broker", "directory"])
def test_nobody_waits_for_a_port_that_refuses(
    source: str, world: tuple[World, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second attempt, of a minute, is for a broker that is slow to answer."""
    monkeypatch.setattr(connect_retry, "PATIENCE_S", 10_000)
    where = f"127.0.0.1:{free_port()}"
    arguments = ["--bootstrap", where] if source == "broker" else ["--source", world[1], "--end-offsets", where]
    assert lag(*arguments, status=2) == f"coordinatord: no broker answers at {where}: connection refused.\n"


@pytest.mark.parametrize("source", ["broker", "directory"])
def test_one_who_waits_for_a_broker_is_told(
    source: str, world: tuple[World, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect_retry, "QUICKLY_S", 1)
    monkeypatch.setattr(connect_retry, "PATIENCE_S", 1)
    listener = socket.create_server(("127.0.0.1", 0))  # takes connections, and never answers
    where = f"127.0.0.1:{listener.getsockname()[1]}"
    arguments = ["--bootstrap", where] if source == "broker" else ["--source", world[1], "--end-offsets", where]
    waiting, wrong = lag(*arguments, status=2).splitlines()
    listener.close()
    assert re.fullmatch(rf"coordinatord: .*{re.escape(where)}.*; asking again for 1 s", waiting)
    assert re.fullmatch(rf"coordinatord: .*{re.escape(where)}.*\.", wrong)
