"""`coordinatord groups` beside Kafka's own tool, on Kafka: each form of reset-offsets moves a group to the same
offsets, and what the tool refuses is refused.
"""

from __future__ import annotations

import csv
import io
import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from coordinatord.cli import cli
from tests.reference.broker import KafkaBroker
from tests.reference.commands import Tool

pytestmark = pytest.mark.reference

HOUR_MS = 3_600_000
RECORDS = 30
"""Of each partition, an hour apart: what a duration before now selects stays the same for half an hour. The last one is
an hour old.
"""
COMMITTED = {("orders", 0): 5, ("orders", 1): 12, ("payments", 0): 30, ("gone-by", 0): 3}
"""orders-2 and payments-1 are not committed; of gone-by, the first ten records were deleted since."""


@dataclass
class Place:
    """A broker of Kafka's with records, deleted ones too."""

    bootstrap: str
    tool: Tool
    directory: Path
    began_ms: int

    def commit(self, *groups: str) -> None:
        for group in groups:
            consumer = KafkaConsumer(group_id=group, bootstrap_servers=self.bootstrap, enable_auto_commit=False)
            consumer.commit(
                {TopicPartition(*at): OffsetAndMetadata(offset, "mine", 0) for at, offset in COMMITTED.items()}
            )
            consumer.close()

    def committed(self, *groups: str) -> list[dict[tuple[str, int], tuple[int, str]]]:
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        found = admin.list_group_offsets(dict.fromkeys(groups))
        admin.close()
        return [
            {(at.topic, at.partition): (it.offset, it.metadata) for at, it in found[group].items()} for group in groups
        ]

    def ours(self, *arguments: str, status: int = 0) -> str:
        told = CliRunner().invoke(cli, ["groups", *arguments, "--bootstrap", self.bootstrap])
        assert told.exit_code == status, told.output
        return told.stdout if status == 0 else told.output


@pytest.fixture(scope="module")
def place(kafka_broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Place:
    bootstrap = kafka_broker.bootstrap
    began_ms = int(time.time() * 1000) - RECORDS * HOUR_MS
    topics = CliRunner()
    for name, partitions in (("orders", 3), ("payments", 2), ("gone-by", 1), ("empty", 1)):
        made = topics.invoke(cli, ["topics", "create", name, "--partitions", str(partitions), "--bootstrap", bootstrap])
        assert made.exit_code == 0, made.output
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for name, partitions in (("orders", 3), ("payments", 2), ("gone-by", 1)):
        for number in range(RECORDS * partitions):
            at_ms = began_ms + number // partitions * HOUR_MS
            producer.send(name, b"x", partition=number % partitions, timestamp_ms=at_ms)
    producer.close()
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.delete_records({TopicPartition("gone-by", 0): 10})
    admin.close()
    directory = tmp_path_factory.mktemp("files")
    return Place(bootstrap, Tool(kafka_broker.libs, bootstrap), directory, began_ms)


def iso(ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms / 1000)) + f".{ms % 1000:03}"


def forms(place: Place) -> dict[str, tuple[str, ...]]:
    file = place.directory / "plan.csv"
    file.write_text("orders,0,7\norders,2,9999\ngone-by,0,1\npayments,1,0\n")
    whole, some = ("--all-topics",), ("--topic", "orders:0,2", "--topic", "payments")
    middle = place.began_ms + 10 * HOUR_MS + HOUR_MS // 2
    return {
        "earliest": ("--to-earliest", *whole),
        "latest": ("--to-latest", *whole),
        "latest-some": ("--to-latest", *some),
        "current": ("--to-current", *some, "--topic", "gone-by"),
        "offset": ("--to-offset", "11", *some, "--topic", "gone-by"),
        "offset-low": ("--to-offset", "3", *whole),
        "offset-high": ("--to-offset", "4711", *whole, ),
        "forward": ("--shift-by", "9", *whole),
        "back": ("--shift-by", "-9", *whole),
        "duration": ("--by-duration", "PT14H30M", *some),
        "duration-all": ("--by-duration", "P2DT1H", *whole),
        "duration-none": ("--by-duration", "PT1S", *some, "--topic", "empty"),
        "datetime": ("--to-datetime", iso(middle), *some),
        "datetime-zone": ("--to-datetime", iso(middle + 3 * HOUR_MS // 2) + "+01:30", *some, "--topic", "gone-by"),
        "datetime-late": ("--to-datetime", "2199-01-01T00:00:00.000Z", *whole),
        "file": ("--from-file", str(file)),
    }  # fmt: skip


def test_each_form_moves_a_group_as_kafkas_tool_does(place: Place) -> None:
    every = forms(place)
    place.commit(*(f"{whose}-{name}" for name in every for whose in ("theirs", "ours")))
    said = place.tool.ask(
        *(("--reset-offsets", "--group", f"theirs-{name}", *form, mode, "--export") for name, form in every.items()
          for mode in ("--dry-run", "--execute"))
    )  # fmt: skip
    for position, (name, form) in enumerate(every.items()):
        dry, done = (_csv(text) for text in said[2 * position : 2 * position + 2])
        group = f"ours-{name}"
        assert _csv(place.ours("reset-offsets", group, *form, "--export")) == dry, name
        (before,) = place.committed(group)
        assert {at: offset for at, (offset, _) in before.items()} == COMMITTED, f"{name}: a dry run changed something"
        assert _csv(place.ours("reset-offsets", group, *form, "--export", "--execute")) == done == dry, name
        theirs, ours = place.committed(f"theirs-{name}", group)
        assert ours == theirs, name
        assert done, name


def _csv(text: str) -> set[tuple[str, ...]]:
    return {tuple(row) for row in csv.reader(io.StringIO(text)) if len(row) == 3}


def test_what_kafkas_tool_refuses_is_refused(place: Place) -> None:
    negative = place.directory / "negative.csv"
    negative.write_text("orders,0,-5\n")
    refused = {
        "shift-uncommitted": ("--shift-by", "1", "--topic", "orders"),
        "no-partition": ("--to-earliest", "--topic", "orders:7"),
        "no-topic": ("--to-earliest", "--topic", "nowhere"),
        "no-number": ("--to-earliest", "--topic", "orders:x"),
        "no-time": ("--to-datetime", "yesterday", "--topic", "orders"),
        "no-duration": ("--by-duration", "1 hour", "--topic", "orders"),
        "negative": ("--from-file", str(negative)),
        "no-scope": ("--to-earliest",),
        "no-form": ("--topic", "orders"),
        "two-forms": ("--to-earliest", "--to-latest", "--topic", "orders"),
    }
    place.commit(*(f"{whose}-{name}" for name in refused for whose in ("theirs", "ours")))
    place.tool.ask(
        *(("--reset-offsets", "--group", f"theirs-{name}", *form, "--execute") for name, form in refused.items())
    )
    for name, form in refused.items():
        told = CliRunner().invoke(
            cli, ["groups", "reset-offsets", f"ours-{name}", *form, "--execute", "--bootstrap", place.bootstrap]
        )
        assert told.exit_code in (1, 2), name
        assert told.output.startswith("coordinatord: "), told.output
        for group in place.committed(f"theirs-{name}", f"ours-{name}"):
            assert {at: offset for at, (offset, _) in group.items()} == COMMITTED, name


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_active_group(place: Place, protocol: str) -> None:
    """Neither tool touches it; both describe it alike; a member can be evicted, and the others get its partitions."""
    group = f"active-{protocol}"
    place.commit(group)
    members = [_member(place.bootstrap, group, f"{group}-{number}", protocol) for number in range(2)]
    try:
        _until_stable(place, group)
        rows = _described_alike(place, group)
        refused = place.ours("reset-offsets", group, "--all-topics", "--to-earliest", "--execute", status=1)
        assert f"coordinatord: group {group} is Stable and not reset: it has " in refused
        assert f"{group}-0 on 127.0.0.1" in refused
        refused = place.ours("delete", group, "--execute", status=1)
        assert f"group {group} is Stable and not deleted: it has " in refused
        assert {at: offset for at, (offset, _) in place.committed(group)[0].items()} == COMMITTED
        listed = json.loads(place.ours("list", "--json"))
        assert {"group_id": group, "type": protocol, "state": "Stable"} in listed

        # A member that runs would come back at its next heartbeat, by the same id in the consumer protocol.
        members[0].kill()
        victim = next(row["member_id"] for row in rows if row["client_id"] == f"{group}-0")
        assert "Would remove" in place.ours("evict", group, victim)
        assert "Removed" in place.ours("evict", group, victim, "--execute")
        left = _until_stable(place, group, members=1)
        assert victim not in {row["member_id"] for row in left}
    finally:
        for process in members:
            process.kill()
            process.wait()


def _described_alike(place: Place, group: str) -> list[dict[str, Any]]:
    """What `groups describe` says, which is what Kafka's tool says; neither resets the group's offsets. A client that
    a busy machine holds up for long is expelled between the two: then both are asked again.
    """
    names = ("topic", "partition", "committed_offset", "end_offset", "lag", "member_id", "host", "client_id")
    for _ in range(5):
        before = _until_stable(place, group)
        reset, described = place.tool.ask(
            ("--reset-offsets", "--group", group, "--all-topics", "--to-earliest", "--execute"),
            ("--describe", "--group", group),
        )
        rows: list[dict[str, Any]] = json.loads(place.ours("describe", group, "--json"))
        if json.loads(place.ours("members", group, "--json")) == before:
            assert "can only be reset if the group" in reset
            theirs = {tuple(line.split()[1:9]) for line in described.splitlines() if line.startswith(group)}
            assert {tuple("-" if row[name] is None else str(row[name]) for name in names) for row in rows} == theirs
            return rows
    raise AssertionError(f"the members of {group} do not stay the same for as long as two commands take")


MEMBER = """
import sys, time
from confluent_kafka import Consumer
bootstrap, group, client, protocol = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "client.id": client,
                     "group.protocol": protocol, "enable.auto.commit": False})
consumer.subscribe(["orders"])
began = time.monotonic()
while time.monotonic() - began < 600:
    consumer.poll(0.5)
"""


def _member(bootstrap: str, group: str, client: str, protocol: str) -> subprocess.Popen[bytes]:
    import sys

    pytest.importorskip("confluent_kafka")
    return subprocess.Popen([sys.executable, "-c", MEMBER, bootstrap, group, client, protocol])


def _until_stable(place: Place, group: str, members: int = 2) -> list[dict[str, Any]]:
    """Its members, once these are all and have the three partitions."""
    deadline_s = time.monotonic() + 120
    while time.monotonic() < deadline_s:
        rows: list[dict[str, Any]] = json.loads(place.ours("members", group, "--json"))
        partitions = sum(len(some) for row in rows for some in row["assigned"].values())
        if len(rows) == members and partitions == 3 and all(row["state"] == "Stable" for row in rows):
            return rows
        time.sleep(0.3)
    raise AssertionError(f"{group} is not stable: {rows}")


def test_a_moment_of_the_log(place: Place) -> None:
    """The group is back where it was at a time between its commits; of the cluster's log, and of the same directory."""
    place.commit("back")
    time.sleep(1.1)
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
    time.sleep(1.1)
    consumer = KafkaConsumer(group_id="back", bootstrap_servers=place.bootstrap, enable_auto_commit=False)
    consumer.commit({TopicPartition("orders", number): OffsetAndMetadata(25, "", -1) for number in range(3)})
    consumer.close()
    place.ours("reset-offsets", "back", "--to-moment", at, "--execute")
    [found] = place.committed("back")
    expected = {**COMMITTED, ("orders", 2): 25, ("gone-by", 0): 10}
    assert {each: offset for each, (offset, _) in found.items()} == expected, "orders-2 had nothing then: left alone"


def test_an_export_is_imported(place: Place) -> None:
    place.commit("kept-a", "kept-b")
    file = place.directory / "export.csv"
    place.ours("export", "kept-*", "--file", str(file))
    before = place.committed("kept-a", "kept-b")
    place.ours("delete", "kept-a", "kept-b", "--execute")
    assert place.committed("kept-a", "kept-b") == [{}, {}]
    place.ours("import", str(file))
    assert place.committed("kept-a", "kept-b") == [{}, {}], "a dry run"
    place.ours("import", str(file), "--execute")
    after = place.committed("kept-a", "kept-b")
    assert [
        {at: max(offset, 10 if at[0] == "gone-by" else 0) for at, (offset, _) in group.items()} for group in before
    ] == [{at: offset for at, (offset, _) in group.items()} for group in after]
