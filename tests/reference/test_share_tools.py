"""Tools for share groups after one story on Kafka 4.4 and on ours: Kafka's kafka-share-groups prints the same of both,
with every option, and `coordinatord groups`, `lag` and the exporter say what it says, each row of each column.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from coordinatord.cli import cli
from tests.daemon import running
from tests.monitoring.exporter.scraped import PREFIX, get, of, samples
from tests.monitoring.exporter.test_exporter import exporting, looked
from tests.reference import broker, share_story
from tests.reference.commands import Tool
from tests.reference.share_story import ARCHIVED, AVAILABLE, HOUR_MS, LETTERS, RECORDS
from tests.reference.test_dead_letters import letters

pytestmark = [pytest.mark.reference, pytest.mark.timeout(600)]

NONE = "-"


@dataclass(frozen=True)
class Place:
    """A broker on which the story was told."""

    tool: Tool
    bootstrap: str
    began_ms: int
    directory: Path

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])

    def ask(self, *commands: str) -> list[str]:
        """What Kafka's tool prints, a command each; without the broker's address, lines of stack traces, and the number
        of the partition that a member has alone: it depends on the topic's random id.
        """
        found = []
        for text in self.tool.ask(*(self.filled(command).split() for command in commands)):
            lines = text.replace(self.bootstrap, "BROKER").splitlines()
            shown = "\n".join(line for line in lines if not line.startswith("\tat ")).strip()
            found.append(re.sub(r"orders:\d$", "orders:N", shown, flags=re.MULTILINE))
        return found

    def filled(self, command: str) -> str:
        """The command with the place's values for its words in capitals."""
        middle = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(self.began_ms // 1000 + 4 * 3_600 + 1_800))
        values = {"MIDDLE": f"{middle}.000", "PLAN": str(self.directory / "plan.csv")}
        values["CONFIG"] = str(self.directory / "client.properties")
        return re.sub(r"[A-Z]{4,}", lambda word: values[word.group()], command)

    def ours(self, *arguments: str) -> str:
        """What our command prints."""
        told = CliRunner().invoke(cli, [*arguments, "--bootstrap", self.bootstrap])
        assert told.exit_code == 0, told.output
        return told.stdout

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.ours(*arguments, "--json"))
        return found


@pytest.fixture(scope="module")
def began_ms() -> int:
    return int(time.time() * 1000) - max(RECORDS.values()) * HOUR_MS


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the files that options name."""
    directory = tmp_path_factory.mktemp("files")
    (directory / "plan.csv").write_text("orders,0,7\norders,1,9999\n")
    (directory / "client.properties").write_text("client.id=inspector\n")
    return directory


@pytest.fixture(scope="module")
def on_kafka(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory, began_ms: int, files: Path) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("kafka")
    with (
        broker.running_broker(kafka_libs, directory, share_story.SETTINGS) as kafka,
        share_story.told(kafka.port, began_ms),
    ):
        yield Place(Tool(kafka_libs, kafka.bootstrap, "ShareGroupCommand"), kafka.bootstrap, began_ms, files)


@pytest.fixture(scope="module")
def on_ours(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory, began_ms: int, files: Path) -> Iterator[Place]:
    settings = {**share_story.SETTINGS, "group.coordinator.rebalance.protocols": "classic,consumer,share"}
    with (
        running(tmp_path_factory.mktemp("ours"), settings) as daemon,
        share_story.told(daemon.port, began_ms),
    ):
        yield Place(Tool(kafka_libs, daemon.bootstrap, "ShareGroupCommand"), daemon.bootstrap, began_ms, files)


@pytest.fixture(params=["on_kafka", "on_ours"])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(request.param)
    return found


def tables(text: str) -> list[dict[str, str]]:
    """The rows of the tool's tables, by the words of their heads."""
    found: list[dict[str, str]] = []
    head: list[str] = []
    for line in text.splitlines():
        cells = re.sub(r" +\((\w+)\)", r"\1", line.replace("COORDINATOR (ID)", "COORDINATOR")).split()
        if cells[:1] == ["GROUP"]:
            head = cells
        elif cells and len(cells) == len(head) and cells[0] != "Share":  # "Share group 'x' has no active members."
            found.append(dict(zip(head, cells, strict=True)))
    return found


READING = (
    "--list",
    "--list --state",
    "--list --state Stable",
    "--list --state empty,stable",
    "--list --state Dead",
    "--describe --all-groups",
    "--describe --all-groups --verbose",
    "--describe --all-groups --offsets",
    "--describe --all-groups --members",
    "--describe --all-groups --members --verbose",
    "--describe --all-groups --state",
    "--describe --all-groups --state --verbose",
    "--describe --group billing",
    "--describe --group billing --group gone --offsets --verbose",
    "--describe --group poison --group gone --members --verbose",
    "--describe --group expired --state",
    "--describe --group nobody",
    "--describe --group nobody --members",
    "--describe --group nobody --state --verbose",
    "--list --command-config CONFIG",
)
"""Options that Kafka's tool rejects itself are left out."""


def same(on_kafka: Place, on_ours: Place, commands: Sequence[str]) -> dict[str, str]:
    """Give both brokers the commands, and compare each output; return Kafka's by command."""
    theirs, ours = on_kafka.ask(*commands), on_ours.ask(*commands)
    for command, mine, right in zip(commands, ours, theirs, strict=True):
        assert mine == right, command
    return dict(zip(commands, theirs, strict=True))


def test_kafkas_tool_reads_the_same(on_kafka: Place, on_ours: Place) -> None:
    said = same(on_kafka, on_ours, READING)
    assert len(tables(said["--describe --all-groups --verbose"])) == 2 * len(share_story.GROUPS)
    assert "does not exist" in said["--describe --group nobody"] or "not found" in said["--describe --group nobody"]


def test_describe_shows_each_share_partition(place: Place) -> None:
    [text] = place.ask("--describe --all-groups --offsets")
    right = {(row["GROUP"], row["TOPIC"], row["PARTITION"], row["START-OFFSET"], row["LAG"]) for row in tables(text)}
    shown = {
        tuple(NONE if row[name] is None else str(row[name]) for name in NAMES)
        for row in place.rows("groups", "describe")
        if row["topic"] != "doomed"  # of a member that has not noticed
    }
    assert shown == right
    ends = {(row["topic"], row["partition"]): row["end_offset"] for row in place.rows("groups", "describe")}
    assert ends == {each: count for each, count in RECORDS.items() if each[0] == "orders"}


NAMES = ("group_id", "topic", "partition", "start_offset", "lag")


def test_members_and_states(place: Place) -> None:
    members, states, listed = place.tool.ask(
        ["--describe", "--all-groups", "--members", "--verbose"],
        ["--describe", "--all-groups", "--state", "--verbose"],
        ["--list", "--state"],
    )

    def assignment(assigned: dict[str, list[int]]) -> str:
        return ";".join(f"{topic}:{','.join(map(str, sorted(parts)))}" for topic, parts in sorted(assigned.items()))

    shown = {
        (
            row["group_id"], row["member_id"], row["host"], row["client_id"],
            str(sum(map(len, row["assigned"].values()))), str(row["epoch"]), assignment(row["assigned"]),
        )
        for row in place.rows("groups", "members")
    }  # fmt: skip
    assert shown == {tuple(row.values()) for row in tables(members)}
    right = {(row["GROUP"], row["STATE"]) for row in tables(listed)}
    assert {(row["group_id"], row["state"]) for row in place.rows("groups", "list", "--type", "share")} == right
    assert {(row["GROUP"], row["STATE"]) for row in tables(states)} == right
    heads = [line for line in place.ours("groups", "describe").splitlines() if line.startswith("Group ")]
    expected = []
    for row in tables(states):
        count, node = int(row["#MEMBERS"]), row["COORDINATOR"].removeprefix(place.bootstrap)
        size = f"{count} member{'' if count == 1 else 's'} in epoch {row['GROUP-EPOCH']}"
        expected.append(
            f"Group {row['GROUP']} is {row['STATE']}: {size}, assigned by simple (share protocol, node {node})."
        )
    assert sorted(heads) == expected


def test_the_share_partitions_of_lag_and_of_the_exporter(place: Place) -> None:
    """Beside the lag of DescribeShareGroupOffsets v1, and the batches that the share coordinator has stored."""
    [text] = place.ask("--describe --all-groups --offsets")
    right: dict[tuple[str, str, str], tuple[int, int, int, int, int]] = {}
    for row in tables(text):
        if row["START-OFFSET"] == NONE:
            continue
        group, topic, number = row["GROUP"], row["TOPIC"], row["PARTITION"]
        start = int(row["START-OFFSET"])
        batches = share_story.stored(place.port, group, topic, int(number))
        most = max(batches, key=lambda each: (each[3], -each[0]), default=(0, 0, 0, 0))
        near = share_story.SUSPECTED_FROM[group]
        right[group, number, topic] = (
            RECORDS[topic, int(number)] - start - int(row["LAG"]),
            sum(last - first + 1 for first, last, state, _ in batches if state == ARCHIVED),
            most[3],
            most[0],
            sum(last - first + 1 for first, last, state, count in batches if state == AVAILABLE and count >= near),
        )
    assert {group: each for (group, number, _), each in right.items() if each[1] or each[4]} == {
        "billing": (3, 1, 1, 5, 0), "letters": (5, 2, 2, 2, 0), "poison": (2, 1, 2, 1, 1),
    }  # fmt: skip
    shown = {}
    for line in place.ours("lag", *share_story.GROUPS).splitlines():
        cells = line.split()
        if cells[7:8] == ["at"]:
            group, topic, number, _start, done, archived, most_deliveries, _at, at_offset = cells[:9]
            shown[group, number, topic] = (int(done), int(archived), int(most_deliveries), int(at_offset))
    assert shown == {each: found[:4] for each, found in right.items() if found[2]}
    with exporting(place.bootstrap) as (url, watcher):
        looked(watcher)
        series = samples(get(f"{url}/metrics")[2])
    for name, at in (("done_records", 0), ("most_deliveries", 2), ("suspected_records", 4)):
        found = of(series, f"coordinatord_share_group_{name}")
        assert {each: found[each] for each in right} == {each: values[at] for each, values in right.items()}, name
        assert not any(value for each, value in found.items() if each not in right), name
    [status] = [key for key in of(series, "coordinatord_group_status") if key[0] == "poison"]
    assert status == ("poison", "poison record")
    assert "delivery count 2 of limit 3 at offset 1: a suspected poison record" in place.ours("lag")


def test_lag_and_the_exporter(place: Place) -> None:
    offsets, states = place.tool.ask(
        ["--describe", "--all-groups", "--offsets"], ["--describe", "--all-groups", "--state"]
    )
    right = {
        (row["GROUP"], row["TOPIC"], row["PARTITION"]): (int(row["START-OFFSET"]), int(row["LAG"]))
        for row in tables(offsets)
        if row["START-OFFSET"] != NONE
    }
    groups = {group for group, *_ in right}
    found = place.rows("lag")
    assert {
        (row["group_id"], row["topic"], str(row["partition"])): (row["committed_offset"], row["lag"]) for row in found
    } == right
    assert all(row["end_offset"] == RECORDS[row["topic"], row["partition"]] for row in found)
    sums = {group: sum(lag for each, (_, lag) in right.items() if each[0] == group) for group in groups}
    with exporting(place.bootstrap) as (url, watcher):
        looked(watcher)
        series = samples(get(f"{url}/metrics")[2])
    places = {(group, number, topic): value for (group, topic, number), value in right.items()}
    assert of(series, f"{PREFIX}offset") == {each: offset for each, (offset, _) in places.items()}
    assert of(series, f"{PREFIX}lag") == {each: lag for each, (_, lag) in places.items()}
    assert of(series, f"{PREFIX}sum_lag") == {(group,): lag for group, lag in sums.items()}
    most = {group: max(lag for each, (_, lag) in right.items() if each[0] == group) for group in groups}
    assert of(series, f"{PREFIX}max_lag") == {(group,): lag for group, lag in most.items()}
    assert of(series, f"{PREFIX}topic_sum_lag") == {(group, "orders"): lag for group, lag in sums.items()}
    members = {(row["GROUP"],): float(row["#MEMBERS"]) for row in tables(states)}
    assert of(series, "kminion_kafka_consumer_group_members") == members
    assert set(of(series, "coordinatord_group_info")) == {(group, "share") for (group,) in members}


def test_the_dead_letters(on_kafka: Place, on_ours: Place) -> None:
    """Two of the story, which are not available any more, and are no lag."""
    theirs, ours = (letters(place.bootstrap, LETTERS, 2) for place in (on_kafka, on_ours))
    assert ours == theirs
    assert sorted(dict(headers)["__dlq.errors.offset"] for *_, headers in ours) == [b"1", b"2"]
    assert {dict(headers)["__dlq.errors.group"] for *_, headers in ours} == {b"letters"}


FORMS = (
    "--all-topics --to-earliest",
    "--all-topics --to-latest",
    "--topic orders --to-current",
    "--topic orders:1 --to-latest",
    "--topic orders --to-datetime MIDDLE",
    "--topic orders --to-datetime 2199-01-01T00:00:00.000",
    "--topic orders:0 --to-offset 4",
    "--topic orders --to-offset 15",
    "--from-file PLAN",
)


@pytest.mark.parametrize("group", ["gone", "new"])
def test_our_plans_are_those_of_kafkas_tool(place: Place, group: str) -> None:
    """Of a group that has read nothing of its topics, and of one that does not exist."""
    left_out = "--to-current" if group == "gone" else "--all-topics"  # the tool fails without a start offset
    forms = [each for each in FORMS if left_out not in each]
    theirs = place.ask(*(f"--reset-offsets --group {group} {form} --dry-run --export" for form in forms))
    for form, right in zip(forms, theirs, strict=True):
        ours = place.ours("groups", "reset-offsets", group, *place.filled(form).split(), "--export")
        assert csv_lines(ours) == csv_lines(right), form
        assert csv_lines(ours), form


def csv_lines(text: str) -> set[str]:
    return {line for line in text.splitlines() if re.fullmatch(r"orders,\d,\d+", line)}


WRITING = (
    # Groups that have members, or that do not exist.
    "--reset-offsets --group billing --topic orders --to-earliest --execute",
    "--reset-offsets --group billing --all-topics --to-latest --dry-run",
    "--delete --group billing",
    "--delete --group nobody",
    "--delete-offsets --group billing --topic orders",
    "--delete-offsets --group nobody --topic orders",
    # A group that has lost its members.
    "--reset-offsets --group gone --all-topics --to-earliest --dry-run",
    "--reset-offsets --group gone --all-topics --to-earliest --execute",
    "--describe --group gone --verbose",
    "--reset-offsets --group gone --topic orders:1 --to-latest --execute",
    "--describe --group gone",
    "--reset-offsets --group gone --topic orders --to-datetime MIDDLE --dry-run",
    "--reset-offsets --group gone --topic orders --to-datetime MIDDLE --execute",
    "--describe --group gone",
    "--reset-offsets --group gone --topic orders --to-datetime 2199-01-01T00:00:00.000 --execute",
    "--describe --group gone",
    "--reset-offsets --group gone --topic orders:0 --topic orders:1 --to-earliest --execute",
    "--describe --group gone --state --verbose",
    # A group that comes into being.
    "--reset-offsets --group made --topic orders:0 --to-latest --dry-run",
    "--reset-offsets --group made --topic orders:0 --to-latest --execute",
    "--describe --group made --verbose",
    "--describe --group made --members",
    "--describe --group made --state --verbose",
    "--list --state Empty",
    "--reset-offsets --group made --from-file PLAN --dry-run",
    "--reset-offsets --group made --from-file PLAN --execute --export",
    "--describe --group made",
    "--reset-offsets --group made --all-topics --to-current --execute",
    "--reset-offsets --group made --topic orders:1 --to-offset 4711 --execute",
    "--reset-offsets --group made --topic orders:1 --to-offset 3 --execute",
    "--describe --group made",
    # What is no topic, no partition, no time.
    "--reset-offsets --group made --topic orders:7 --to-latest --execute",
    "--reset-offsets --group made --topic doomed --to-latest --execute",
    "--reset-offsets --group made --topic orders --to-datetime yesterday --execute",
    # Deletion.
    "--delete-offsets --group made --topic orders",
    "--describe --group made",
    "--delete-offsets --group made --topic orders --topic nowhere",
    "--delete --group made",
    "--describe --group made",
    "--delete-offsets --group gone --topic orders --topic doomed",
    "--describe --group gone",
    "--delete --group gone --group billing --group nobody",
    "--list",
    "--delete --all-groups",
    "--list --state",
    "--describe --all-groups",
)


def test_kafkas_tool_writes_the_same(on_kafka: Place, on_ours: Place) -> None:
    """The last test: it changes the groups without members."""
    same(on_kafka, on_ours, WRITING)
