"""`coordinatord groups` and `topics` as a user types them, on our daemon; tests/reference has them on Kafka."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from coordinatord.cli import cli, group_commands
from coordinatord.cli.tables import assigned, ranges
from coordinatord.cli.topics import _records
from coordinatord.cli.wire import Wire
from coordinatord.monitoring.admin.groups import Group, Listed, Member
from coordinatord.monitoring.admin.topics import Partition, Topic
from kafka_wire.api.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from tests.daemon import Daemon, free_port, running
from tests.support.waiting import wait_until

COMMITTED = {("orders", 0): 3, ("orders", 1): 6}
RECORDS = 10


class Here:
    """A daemon, and the commands against it."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.bootstrap = daemon.bootstrap

    def __call__(self, *arguments: str, status: int = 0) -> str:
        """What a command prints, errors included."""
        told = CliRunner().invoke(cli, [*arguments, "--bootstrap", self.bootstrap])
        assert told.exit_code == status, told.output
        return told.output

    def rows(self, *arguments: str) -> list[dict[str, object]]:
        told = CliRunner().invoke(cli, [*arguments, "--json", "--bootstrap", self.bootstrap])
        assert told.exit_code == 0, told.output
        found: list[dict[str, object]] = json.loads(told.stdout)
        return found

    def committed(self, group: str) -> dict[tuple[object, object], object]:
        rows = self.rows("groups", "describe", group)
        return {(row["topic"], row["partition"]): row["committed_offset"] for row in rows}

    def commit(self, group: str) -> None:
        consumer = KafkaConsumer(group_id=group, bootstrap_servers=self.bootstrap, enable_auto_commit=False)
        consumer.commit({TopicPartition(*at): OffsetAndMetadata(offset, "", -1) for at, offset in COMMITTED.items()})
        consumer.close()


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    with running(tmp_path_factory.mktemp("daemon"), {"group.initial.rebalance.delay.ms": "0"}) as daemon:
        found = Here(daemon)
        found("topics", "create", "orders", "--partitions", "2", "--config", "retention.ms=-1")
        producer = KafkaProducer(bootstrap_servers=daemon.bootstrap)
        for number in range(2 * RECORDS):
            producer.send("orders", b"x", partition=number % 2)
        producer.close()
        yield found


def test_topics(here: Here) -> None:
    assert here("topics", "create", "orders", status=1) == "coordinatord: topic orders: the topic exists already.\n"
    assert "is there already" in here("topics", "create", "orders", "--if-not-exists")
    here("topics", "create", "brief", "--dry-run")
    assert [row["topic"] for row in here.rows("topics", "list")] == ["orders"], "a dry run created nothing"
    here("topics", "create", "brief")
    [orders] = here.rows("topics", "describe", "ord*")
    assert orders["configs"] == {"retention.ms": "-1"}
    partitions = orders["partitions"]
    assert isinstance(partitions, list)
    assert [each["end_offset"] for each in partitions] == [RECORDS, RECORDS]
    told = here("topics", "describe", "orders")
    assert told.splitlines()[2].split() == ["PARTITION", "LEADER", "REPLICAS", "IN", "SYNC", "START", "END", "RECORDS"]
    assert "would be deleted" in here("topics", "delete", "brief")
    assert len(here.rows("topics", "list")) == 2
    assert here("topics", "delete", "brief", "--execute").split()[-1] == "deleted"
    assert [row["topic"] for row in here.rows("topics", "list")] == ["orders"]
    assert here("topics", "describe", "brief", status=1) == "coordinatord: there is no topic brief.\n"
    here("groups", "describe", "nobody", status=1)  # looks for its coordinator
    assert "is the cluster's own" in here("topics", "delete", "__consumer_offsets", status=1)


def test_records_of_a_topic_are_counted_from_its_start_offsets() -> None:
    partitions = [Partition(number, 0, [0], [0], start, 10) for number, start in enumerate((0, 4))]
    assert _records(Topic("orders", None, False, partitions)) == 16
    assert _records(Topic("orders", None, False, [*partitions, Partition(2, -1, [0], [])])) is None


@pytest.mark.parametrize(
    ("arguments", "after"),
    [
        (("--all-topics", "--to-earliest"), (0, 0)),
        (("--all-topics", "--to-latest"), (10, 10)),
        (("--all-topics", "--to-current"), (3, 6)),
        (("--topic", "orders:1", "--to-offset", "99"), (3, 10)),
        (("--topic", "orders", "--shift-by", "-4"), (0, 2)),
        (("--all-topics", "--by-duration", "PT1H"), (0, 0)),
        (("--all-topics", "--to-datetime", "2199-01-01T00:00:00.000"), (10, 10)),
    ],
    ids=lambda value: value[-1] if isinstance(value[-1], str) else "",
)
def test_reset_offsets(here: Here, arguments: tuple[str, ...], after: tuple[int, int]) -> None:
    group = f"reset{arguments[1]}{arguments[-1]}"
    here.commit(group)
    told = here("groups", "reset-offsets", group, *arguments)
    assert "Nothing was changed: this is what --execute does." in told
    assert here.committed(group) == COMMITTED
    rows = here.rows("groups", "reset-offsets", group, *arguments, "--execute")
    assert all(row["executed"] for row in rows)
    assert tuple(here.committed(group).values()) == after


def test_a_moment_and_a_file(here: Here, tmp_path: Path) -> None:
    here.commit("then")
    time.sleep(0.01)
    at = str(int(time.time() * 1000))
    time.sleep(0.01)
    here("groups", "reset-offsets", "then", "--all-topics", "--to-latest", "--execute")
    source = str(here.daemon.data_dir)
    for more in ((), ("--source", source)):
        [zero, one] = here.rows("groups", "reset-offsets", "then", "--to-moment", at, *more)
        assert (zero["before"], zero["after"], one["after"]) == (10, 3, 6)
    assert "has no commit of group then until then" in here(
        "groups", "reset-offsets", "then", "--to-moment", "1000000000000", status=1
    )
    file = tmp_path / "kept.csv"
    here("groups", "export", "then", "--file", str(file))
    assert file.read_text() == "then,orders,0,10\nthen,orders,1,10\n"
    assert "deleted" in here("groups", "delete", "then", "--execute")
    assert here("groups", "describe", "then", status=1) == "coordinatord: there is no group then.\n"
    here("groups", "import", str(file), "--execute")
    assert set(here.committed("then").values()) == {10}


def test_brackets_in_a_pattern_are_part_of_a_name(here: Here) -> None:
    for group in ("b[1]x", "b1x"):
        here.commit(group)
    assert {row["group_id"] for row in here.rows("groups", "describe", "b[1]*")} == {"b[1]x"}
    here("groups", "delete", "b[1]x", "b1x", "--execute")


def test_a_state_that_there_is_not(here: Here) -> None:
    told = here("groups", "list", "--state", "Foo", status=2)
    assert "'Foo' is not one of" in told
    assert "is not one of" in here("groups", "list", "--type", "bar", status=2)
    here.commit("empty")
    assert "empty" in [row["group_id"] for row in here.rows("groups", "list", "--state", "empty", "--type", "CLASSIC")]
    here("groups", "delete", "empty", "--execute")


def test_offsets_of_topics_are_deleted(here: Here) -> None:
    """A group that nobody is in: what is not named stays."""
    here.commit("parted")
    delete = ("groups", "delete-offsets", "parted")
    told = here(*delete, "--topic", "orders:1")
    assert "would be deleted" in told
    assert here.committed("parted") == COMMITTED, "a dry run"
    assert "deleted" in here(*delete, "--topic", "orders:1", "--execute")
    assert here.committed("parted") == {("orders", 0): 3}
    nothing = here(*delete, "--topic", "orders:1", "--topic", "payments", "--execute", status=1)
    assert nothing.splitlines() == [
        "coordinatord: group parted has committed nothing for orders-1.",
        "coordinatord: group parted has committed nothing for payments.",
    ]
    here(*delete, "--topic", "orders", "--execute")
    assert here.committed("parted") == {}
    assert here("groups", "delete-offsets", "nobody", "--topic", "t", status=1) == (
        "coordinatord: there is no group nobody.\n"
    )


def test_a_group_that_is_listed_but_not_described_is_named(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a streams group of a cluster that does not describe such groups: no such group is there, only the list is
    another one.
    """
    listed = [Listed("streamers", "streams", "Stable", "streams")]
    monkeypatch.setattr("coordinatord.monitoring.admin.groups.list_groups", lambda *_: listed)
    sentence = f"group streamers is a streams group, which {here.bootstrap} does not describe."
    for command in (
        ["describe", "streamers"],
        ["members", "streamers"],
        ["delete", "streamers"],
        ["delete-offsets", "streamers", "--topic", "t"],
        ["reset-offsets", "streamers", "--all-topics", "--to-latest"],
    ):
        assert here("groups", *command, status=1) == f"coordinatord: {sentence}\n"
    assert sentence in here("groups", "describe"), "not left out in silence where all are asked for"
    monkeypatch.setattr(group_commands, "time", Once())
    told = here("groups", "watch", "streamers", "nobody")
    assert sentence in told
    assert "there is no group nobody." in told


def test_why_of_a_group_of_another_type(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = Wire.ask

    def answer(wire: Wire, request: object, newest: int = 32_767) -> object:
        if isinstance(request, ListGroupsRequest):
            return ListGroupsResponse(groups=[ListedGroup("streamers", "streams", "Stable", "streams")])
        return ask(wire, request, newest)

    monkeypatch.setattr(Wire, "ask", answer)
    assert here("groups", "why", "streamers", status=1) == (
        "coordinatord: group streamers is a streams group: nothing records why it rebalances. `coordinatord groups "
        "watch streamers` prints each change of it.\n"
    )
    assert "coordinatord: Group nobody does not exist now.\n" in here("groups", "why", "nobody", status=1)
    assert "Group nobody does not exist now." in here("groups", "why", "nobody", "--json", status=1)


class Once:
    """The module time for a command that looks again and again: Ctrl-C comes after the first look."""

    def sleep(self, _seconds: float) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "arguments",
    [
        ("groups", "describe", "-dash"),
        ("groups", "members", "-dash"),
        ("groups", "watch", "-dash"),
        ("groups", "why", "-dash"),
        ("groups", "evict", "g", "-dash"),
        ("groups", "delete", "-dash"),
        ("groups", "delete-offsets", "-dash", "--topic", "t"),
        ("groups", "reset-offsets", "-dash", "--all-topics", "--to-latest"),
        ("groups", "export", "-dash"),
        ("topics", "describe", "-dash"),
        ("topics", "create", "-dash"),
        ("topics", "delete", "-dash"),
        ("lag", "-dash"),
        ("settings", "-dash"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_a_name_that_begins_with_a_dash_comes_after_two(arguments: tuple[str, ...]) -> None:
    told = CliRunner().invoke(cli, arguments)
    assert told.exit_code == 2
    assert "No such option" in told.output
    assert "A name that begins with a dash comes after --, and options before it" in " ".join(told.output.split())


def test_a_group_whose_name_begins_with_a_dash(here: Here) -> None:
    here.commit("-dash")
    told = CliRunner().invoke(cli, ["groups", "describe", "--bootstrap", here.bootstrap, "--", "-dash"])
    assert "Group -dash is Empty" in told.output
    told = CliRunner().invoke(cli, ["groups", "delete", "--execute", "--bootstrap", here.bootstrap, "--", "-dash"])
    assert told.exit_code == 0


def test_a_plan_names_its_moment(here: Here) -> None:
    """Also of a form that leaves the day open: in UTC, as everything that is printed."""
    here.commit("timed")
    reset = ("groups", "reset-offsets", "timed", "--topic", "orders")
    assert "The moment is 2026-11-23 01:30:00Z." in here(*reset, "--to-datetime", "2026-11-23T03:00:00.000+01:30")
    before_s = time.time()
    told = here(*reset, "--by-duration", "P1D")
    days = {time.strftime("%Y-%m-%d %H:", time.gmtime(at - 86_400)) for at in (before_s, time.time())}
    assert any(f"The moment is {day}" in told for day in days)
    assert "The moment" not in here(*reset, "--to-earliest")


def test_moments_are_in_utc_whatever_the_zone_here(monkeypatch: pytest.MonkeyPatch) -> None:
    from coordinatord.cli.times import utc

    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        assert utc(1_795_000_000_500) == "2026-11-18 11:06:40Z"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_group_with_members_is_left_alone(here: Here) -> None:
    here.commit("busy")
    stop = threading.Event()

    def consume() -> None:
        consumer = KafkaConsumer(
            "orders", group_id="busy", client_id="till", bootstrap_servers=here.bootstrap, enable_auto_commit=False
        )
        while not stop.is_set():
            consumer.poll(2_000)
        consumer.close()

    thread = threading.Thread(target=consume)
    thread.start()
    try:
        wait_until(lambda: any(row["assigned"] for row in here.rows("groups", "members", "busy")), timeout_s=60)
        why = "coordinatord: group busy is Stable and not reset: it has till on 127.0.0.1. Stop them first.\n"
        assert here("groups", "reset-offsets", "busy", "--all-topics", "--to-latest", "--execute", status=1) == why
        assert "not deleted: it has till on 127.0.0.1" in here("groups", "delete", "busy", "--execute", status=1)
        assert here.committed("busy") == COMMITTED
        for more in ([], ["--execute"]):
            told = here("groups", "delete-offsets", "busy", "--topic", "orders", *more, status=1)
            assert told.count("not deleted: ") == 2
        assert here.committed("busy") == COMMITTED
        assert here("groups", "members", "busy").splitlines()[-1].split()[:2] == ["till", "127.0.0.1"]
        told = here("groups", "describe", "busy")
        assert told.startswith("Group busy is Stable: 1 member, assigned by range (classic protocol, node ")
        assert told.count(" till ") == 2
        [member] = here.rows("groups", "members", "busy")
        assert member["assigned"] == {"orders": [0, 1]}
        assert "has no member nobody; it has:" in here("groups", "evict", "busy", "nobody", status=1)
        assert here("groups", "evict", "busy", "till").startswith("Would remove till on 127.0.0.1")
        assert here("groups", "evict", "busy", "till", "--execute").startswith("Removed till on 127.0.0.1")
        now = here.rows("groups", "members", "busy")
        assert member["member_id"] not in {row["member_id"] for row in now}
    finally:
        stop.set()
        thread.join(60)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("g",), "say where to, with one of --to-earliest, --to-latest"),
        (("g", "--to-earliest", "--to-latest", "--all-topics"), "say where to, with one of"),
        (("g", "--to-earliest"), "say which partitions: --topic, or --all-topics."),
        (("g", "--to-earliest", "--topic", "t", "--all-topics"), "give --topic or --all-topics, not both."),
        (("--to-earliest", "--all-topics"), "name groups, or give --all-groups."),
        (("g", "--to-earliest", "--all-topics", "--dry-run", "--execute"), "--dry-run and --execute contradict each"),
        (("g", "--to-earliest", "--all-topics", "--source", "/x"), "--source is for --to-moment."),
        (("g", "--to-datetime", "noon", "--topic", "orders"), "noon is no time: YYYY-MM-DDThh:mm:ss.sss is wanted"),
        (("g", "--by-duration", "noon", "--topic", "orders"), "noon is no duration: PnDTnHnMnS is wanted"),
        (("g", "--to-moment", "noon"), "noon is no time: 03:12, 2026-11-21T03:12 (UTC) or"),
    ],
)
def test_contradictions(here: Here, arguments: tuple[str, ...], says: str) -> None:
    told = here("groups", "reset-offsets", *arguments, status=2)
    assert told.startswith(f"coordinatord: {says}")


def test_what_is_not_there(here: Here) -> None:
    reset = ("groups", "reset-offsets", "nobody", "--to-latest")
    assert here(*reset, "--all-topics", status=1) == "coordinatord: there is no group nobody.\n"
    assert here(*reset, "--topic", "nowhere", status=1) == "coordinatord: there is no topic nowhere.\n"
    assert here(*reset, "--topic", "orders:9", status=1) == "coordinatord: there is no orders-9.\n"
    assert here("groups", "members", "no*", status=1) == "coordinatord: there is no group like no*.\n"


@pytest.mark.parametrize("kind", ["nobody", "no host", "no address", "TLS", "not TLS"])
def test_who_does_not_answer(here: Here, kind: str, tmp_path: Path) -> None:
    """The exit status is that of `lag` and `pipeline run`."""
    port, more = free_port(), []
    bootstrap = f"127.0.0.1:{port}"
    says = f"no broker answers at {bootstrap}: connection refused."
    if kind == "no host":
        bootstrap = "nowhere.invalid:9092"
        says = f"no broker answers at {bootstrap}: there is no host of that name."
    elif kind == "no address":
        bootstrap, says = "here", "--bootstrap here: HOST:PORT is wanted."
    elif kind == "TLS":
        threading.Thread(target=_tls_server, args=(port, tmp_path), daemon=True).start()
        says = f"{bootstrap} closes the connection: a port that wants TLS does so (security.protocol=SASL_SSL)."
        _until_listening(port)
    elif kind == "not TLS":
        (tmp_path / "client.properties").write_text("security.protocol=SSL\n")
        bootstrap, more = here.bootstrap, ["--command-config", str(tmp_path / "client.properties")]
        says = f"{bootstrap} does not answer in TLS, as security.protocol=SSL wants it: is that the right port?"
    told = CliRunner().invoke(cli, ["groups", "list", "--bootstrap", bootstrap, *more])
    assert (told.exit_code, told.output) == (2, f"coordinatord: {says}\n")


def _tls_server(port: int, directory: Path) -> None:
    """Closes connections that do not begin with TLS."""
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    files = ["-keyout", str(directory / "key.pem"), "-out", str(directory / "cert.pem"), "-subj", "/CN=x"]
    subprocess.run([*make, *files], check=True, capture_output=True, timeout=60)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "cert.pem", directory / "key.pem")
    with socket.create_server(("127.0.0.1", port)) as server:
        while True:
            connection, _ = server.accept()
            try:
                context.wrap_socket(connection, server_side=True).close()
            except OSError:
                connection.close()


def _until_listening(port: int) -> None:
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.05)
        else:
            return


def test_watch_tells_changes() -> None:
    one = Member("m-1", None, "till", "/10.0.0.1", {"orders": [0, 1, 2]}, ["orders"])
    moved = Member("m-1", None, "till", "/10.0.0.1", {"orders": [0]}, ["orders"])
    two = Member("m-2", "bill-1", "bill", "/10.0.0.2", {"orders": [1, 2]}, ["orders"])

    def group(state: str, *members: Member) -> Group:
        return Group("shop", "classic", state, "range", 0, members=list(members))

    def told(before: Group | None, now: Group | None) -> list[str]:
        return list(group_commands.changes("shop", before, now))

    assert told(group("Stable", one), group("Stable", one)) == []
    assert told(group("Stable", one), group("Stable", moved, two)) == [
        "shop: till on 10.0.0.1: orders:0-2 → orders:0",
        "shop: bill-1 on 10.0.0.2 has come, with orders:1-2",
    ]
    assert told(group("Stable", one, two), group("Empty")) == [
        "shop: Stable → Empty, 0 members",
        "shop: till on 10.0.0.1 has gone",
        "shop: bill-1 on 10.0.0.2 has gone",
    ]
    assert told(group("Empty"), None) == ["shop: the group is gone"]
    assert list(group_commands.changes("shop", None, None, "there is no group shop.")) == ["there is no group shop."]


def test_ranges() -> None:
    assert ranges([5, 0, 1, 2, 7]) == "0-2,5,7"
    assert assigned({"b": [1], "a": [0, 1], "c": []}) == "a:0-1 b:1"
    assert assigned({}) == "-"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(here: Here, shell: str) -> None:
    here.commit("complete-me")
    assert "_COORDINATORD_COMPLETE" in CliRunner().invoke(cli, ["completion", shell]).output
    words = f"coordinatord groups describe --bootstrap {here.bootstrap} comp"
    environment = {
        "_COORDINATORD_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": "comp" if shell == "fish" else "5",
    }
    told = CliRunner().invoke(cli, [], env=environment, prog_name="coordinatord")
    assert "complete-me" in told.output
