"""Settings: the table against Kafka's own, and the sources from which values come."""

from __future__ import annotations

import dataclasses
import json
import re
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinatord.base.config import TABLE, ConfigError, Entry, Listener, Settings, load
from coordinatord.base.config.ignored_settings import FAMILIES, NAMES, is_foreign
from coordinatord.base.config.load import assignment, from_environment, read_file
from coordinatord.base.config.rules import between_nodes
from coordinatord.base.config.setting_types import Setting, Unacceptable, written
from coordinatord.base.config.table import ALIASES, HEADINGS

GOLDEN = Path(__file__).parent / "golden" / "kafka-settings.tsv"


def kafka_settings() -> dict[str, tuple[str, str, str]]:
    """Name -> (type, default, range) of Kafka's broker."""
    rows = [line.split("\t") for line in GOLDEN.read_text().splitlines() if not line.startswith("#")]
    return {name: (kind, default, bounds) for name, kind, default, bounds in rows}


KAFKA = kafka_settings()
SHARED = sorted(KAFKA.keys() & TABLE.keys())


def flags(*assignments: str) -> list[Entry]:
    return [assignment(text, "--set") for text in assignments]


def settings_of(*assignments: str) -> Settings:
    return load(flags=flags(*assignments)).settings


def problems_of(*assignments: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load(flags=flags(*assignments))
    return caught.value.problems


# ---- the table -------------------------------------------------------------------------------------------------------
def as_kafka_writes(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, float):
        return str(value).replace("e+", "E")
    return written(value)


@pytest.mark.parametrize("name", SHARED)
def test_a_default_is_kafkas_or_says_why_not(name: str) -> None:
    row = TABLE[name]
    _kind, default, _bounds = KAFKA[name]
    # Kafka keeps this list as one text.
    ours = written(row.default) if name == "listener.security.protocol.map" else as_kafka_writes(row.default)
    same = sorted(ours.split(",")) == sorted(default.split(",")) or (ours == "[]" and default in ("null", "<none>"))
    assert same or row.ours, f"{name}: {ours}, Kafka has {default}"


@pytest.mark.parametrize("name", [name for name in SHARED if KAFKA[name][0] in ("INT", "LONG")])
def test_a_range_is_kafkas_or_says_why_not(name: str) -> None:
    row = TABLE[name]
    bounds = re.fullmatch(r"\[(-?\d+),\.\.\.\]", KAFKA[name][2])
    if bounds is None or row.ours:
        return
    lowest = int(bounds[1])
    assert row.parse(str(lowest)) == lowest
    with pytest.raises(Unacceptable):
        row.parse(str(lowest - 1))
    largest = 2**31 - 1 if KAFKA[name][0] == "INT" else 2**63 - 1
    assert row.parse(largest) == largest
    with pytest.raises(Unacceptable):
        row.parse(largest + 1)


def test_every_name_of_kafkas_broker_is_known() -> None:
    assert [name for name in KAFKA if name not in TABLE and name not in ALIASES and not is_foreign(name)] == []


def test_a_name_is_ours_or_foreign_and_not_both() -> None:
    assert NAMES.isdisjoint(TABLE)
    assert NAMES.isdisjoint(ALIASES)
    assert not [name for name in NAMES if name.startswith(FAMILIES)]
    assert not [name for name in TABLE if name.startswith(FAMILIES)]
    assert not set(ALIASES) & set(TABLE)


@pytest.mark.parametrize("row", TABLE.values(), ids=list(TABLE))
def test_a_row_is_complete_and_its_default_reads_back(row: Setting) -> None:
    assert row.doc.endswith(".")
    assert row.kind
    assert row.attribute == row.name.replace(".", "_")
    assert getattr(Settings(), row.attribute) == row.default
    if row.default is not None:
        assert row.parse(written(row.default)) == row.default


def test_names_that_are_ours_alone_say_so() -> None:
    assert not [name for name, row in TABLE.items() if name not in KAFKA and not row.ours]


def test_headings_stand_before_settings_that_exist() -> None:
    assert next(iter(HEADINGS)) == next(iter(TABLE))
    assert HEADINGS.keys() <= TABLE.keys()


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().num_partitions = 2  # type: ignore[misc]


READ_TOGETHER = {
    "advertised_listeners": "endpoints",
    "admin_listeners": "admin",
    "controller_listener_names": "endpoints",
    "inter_broker_listener_name": "storage_leaders",
    "listener_security_protocol_map": "endpoints",
    "log_dirs": "data_dir",
    "log_retention_hours": "retention_ms",
    "log_retention_minutes": "retention_ms",
    "log_retention_ms": "retention_ms",
    "log_roll_hours": "roll_ms",
    "log_roll_ms": "roll_ms",
    "offsets_retention_minutes": "offsets_retention_ms",
    "socket_receive_buffer_bytes": "socket_buffers",
    "socket_send_buffer_bytes": "socket_buffers",
}
"""Settings that are read through a property of `Settings`."""

BOUNDS = re.compile(r"group\.(consumer|share)\.(min|max)\..+")
"""Bounds of the settings of groups, which group_configs.py reads by names that it composes."""

ONE_VALUE = {"group.share.assignors"}
"""A setting that has no other value than its default."""


def test_every_setting_is_read() -> None:
    package = Path(__file__).parents[1] / "coordinatord"
    paths = [path for path in package.rglob("*.py") if path.parent.name != "config" or path.name == "security_rules.py"]
    sources = "\n".join(path.read_text() for path in paths)
    read = set(re.findall(r"(?:settings|own|broker|tokens)\.(\w+)", sources))
    read |= set(re.findall(r'"((?:\w+\.)+\w+)"', sources))
    unread = [
        row.name
        for row in TABLE.values()
        if row.name not in read | ONE_VALUE
        and READ_TOGETHER.get(row.attribute, row.attribute) not in read
        and not BOUNDS.fullmatch(row.name)
    ]
    assert unread == []


# ---- sources ---------------------------------------------------------------------------------------------------------
def test_later_sources_win_and_each_value_knows_its_origin(tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text("[group]\nmax.size = 3\nmin.session.timeout.ms = 10\n[num]\npartitions = 7\n")
    loaded = load(
        file=file,
        environment={"COORDINATORD_GROUP_MAX_SIZE": "4", "COORDINATORD_NUM_PARTITIONS": "8", "HOME": "/root"},
        flags=flags("group.max.size=5"),
    )
    assert loaded.settings.group_max_size == 5
    assert loaded.settings.num_partitions == 8
    assert loaded.settings.group_min_session_timeout_ms == 10
    assert loaded.origins == {
        "group.max.size": "--set",
        "num.partitions": "environment variable COORDINATORD_NUM_PARTITIONS",
        "group.min.session.timeout.ms": str(file),
    }
    assert loaded.warnings == ()


@pytest.mark.parametrize(
    "text",
    [
        '"group.max.size" = 9\n"auto.create.topics.enable" = false\n"log.cleanup.policy" = ["compact", "delete"]\n',
        "group.max.size = 9\nauto.create.topics.enable = false\nlog.cleanup.policy = 'compact,delete'\n",
        "auto.create.topics.enable = false\n[group.max]\nsize = '9'\n[log]\ncleanup.policy = ['compact', 'delete']\n",
    ],
    ids=["quoted", "dotted", "tables"],
)
def test_toml_names_may_be_dotted_or_tables(tmp_path: Path, text: str) -> None:
    file = tmp_path / "server.toml"
    file.write_text(text)
    settings = load(file=file).settings
    assert settings.group_max_size == 9
    assert settings.auto_create_topics_enable is False
    assert settings.log_cleanup_policy == ("compact", "delete")


def test_a_properties_file_is_latin_1_with_escapes(tmp_path: Path) -> None:
    """What Kafka 4.3 (Utils.loadProps) makes of these bytes: UTF-8 is read byte by byte."""
    file = tmp_path / "server.properties"
    file.write_bytes(
        b"broker.rack=r\xc3\xbcck\\tx\nlog.dirs=/\xfc\\u00fc\\ud83d\\ude00\n! \xff\n"
        b"num.partitions : 1\\\r\n  2\rnode.id\\=\\\n=3"
    )
    read = {each.name: each.value for each in read_file(file)}
    assert read == {
        "broker.rack": "r\xc3\xbcck\tx",
        "log.dirs": "/\xfc\xfc\U0001f600",
        "num.partitions": "12",
        "node.id=": "3",
    }


def test_a_brokers_own_file_can_be_used(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "# Licensed to somebody\n"
        "process.roles=broker,controller\n"
        "node.id=1\n"
        "controller.quorum.bootstrap.servers=localhost:9093\n"
        "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\n"
        "inter.broker.listener.name=PLAINTEXT\n"
        "advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL\n"
        "num.network.threads=3\n"
        "log.dirs=/tmp/kraft-combined-logs\n"
        "num.partitions = 4\n"
        "offsets.topic.replication.factor=1\n"
        "log.retention.hours=24\\\n"
        "0\n"
    )
    loaded = load(file=file)
    settings = loaded.settings
    assert (settings.node_id, settings.num_partitions, settings.retention_ms) == (1, 4, 240 * 3_600_000)
    assert settings.log_dirs == "/tmp/kraft-combined-logs"
    [endpoint] = settings.endpoints
    assert (endpoint.host, endpoint.port, endpoint.advertised_host, endpoint.advertised_port) == (
        "",
        9092,
        "localhost",
        9092,
    )
    assert loaded.warnings == (
        "controller.quorum.bootstrap.servers, num.network.threads, offsets.topic.replication.factor, process.roles "
        "have no effect here.",
    )


@pytest.mark.parametrize(
    ("flag", "attribute", "value"),
    [
        ("super.users=User:a;User:CN=b,O=c; ", "super_users", ("User:a", "User:CN=b,O=c")),
        ("super.users=User:a\u00a0; User:b\t", "super_users", ("User:a\u00a0", "User:b")),
        ("test.users= a:x\u00a0, b\u2003:y\t,", "test_users", (("a", "x\u00a0"), ("b\u2003", "y"))),
        ("allow.everyone.if.no.acl.found=TRUE", "allow_everyone_if_no_acl_found", True),
        ("max.connections.per.ip.overrides=127.0.0.1:5,[::1]:7", "max_connections_per_ip_overrides",
         (("127.0.0.1", 5), ("::1", 7))),
    ],
)  # fmt: skip
def test_settings_of_admission(flag: str, attribute: str, value: object) -> None:
    assert getattr(load(flags=flags(flag)).settings, attribute) == value


@pytest.mark.parametrize(
    "flag", ["authorizer.class.name=org.example.Mine", "super.users=alice", "max.connections.per.ip.overrides=5"]
)
def test_refused_settings_of_admission(flag: str) -> None:
    with pytest.raises(ConfigError, match=flag.partition("=")[0]):
        load(flags=flags(flag))


@pytest.mark.parametrize("setting", ["workers=2", "log.flush=never"])
def test_a_database_goes_with_one_process_that_waits_for_commits(setting: str) -> None:
    with pytest.raises(ConfigError, match=setting.partition("=")[0]):
        load(flags=flags("storage=postgresql://host/database", setting))
    with pytest.raises(ConfigError, match="postgresql://"):
        load(flags=flags("storage=mysql://host/database"))


def test_several_nodes_that_lead_ask_each_other_with_plaintext() -> None:
    several = ("storage=postgresql://host/database", "storage.leaders=2")
    assert load(flags=flags(*several)).settings.storage_leaders == 2
    sasl = ("sasl.enabled.mechanisms=PLAIN", "listeners=SASL_PLAINTEXT://127.0.0.1:1,PLAINTEXT://127.0.0.1:2")
    named = load(flags=flags(*several, *sasl, "inter.broker.listener.name=plaintext")).settings
    assert between_nodes(named) == "PLAINTEXT"
    with pytest.raises(ConfigError, match=r"storage\.leaders above 1 needs a listener with PLAINTEXT"):
        load(flags=flags(*several, *sasl))
    with pytest.raises(ConfigError, match="SECRET, which is not in listeners"):
        load(flags=flags(*several, "inter.broker.listener.name=SECRET"))
    with pytest.raises(ConfigError, match=r"storage\.leaders above 1 works without test\.control\.enable"):
        load(flags=flags(*several, "test.control.enable=true"))
    with pytest.raises(ConfigError, match=r"storage\.leaders is for storage=postgresql://"):
        load(flags=flags("storage.leaders=2"))


def test_the_environment_knows_the_short_names_and_leaves_other_programs_alone() -> None:
    entries = from_environment(
        {
            "COORDINATORD_LISTENERS": "b:2",
            "COORDINATORD_LISTEN": "a:1",
            "COORDINATORD_LOG_LEVEL": "debug",
            "COORDINATORD_DATA_DIR": "d",
            "COORDINATORD_CONFIG": "file.toml",
            # what Kubernetes says of a service called coordinatord
            "COORDINATORD_SERVICE_HOST": "10.0.0.1",
            "COORDINATORD_SERVICE_PORT_KAFKA": "9092",
            "COORDINATORD_PORT": "tcp://10.0.0.1:9092",
            "COORDINATORD_PORT_9092_TCP_ADDR": "10.0.0.1",
            # what deploy/compose.yaml interpolates
            "COORDINATORD_IMAGE": "coordinatord:dev",
            "KAFKA_NUM_PARTITIONS": "3",
        }
    )
    assert {(entry.name, entry.value) for entry in entries} == {
        ("listeners", "a:1"),
        ("listeners", "b:2"),
        ("log.dirs", "d"),
        ("logging.level", "debug"),
    }
    assert [entry.value for entry in entries if entry.name == "listeners"][-1] == "b:2"


def test_the_other_name_of_a_setting_counts_less_than_its_own_within_a_source(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("node.id=1\nbroker.id=2\n")
    assert load(file=file).settings.node_id == 1
    assert load(file=file, flags=flags("broker.id=3")).settings.node_id == 3


# ---- what is refused -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("num.partitions=0", "num.partitions must be at least 1, not 0 (--set)."),
        ("num.partitions=2147483648", "num.partitions must be at most 2147483647, not 2147483648 (--set)."),
        ("num.partitions=1_0", "num.partitions must be a whole number, not '1_0' (--set)."),
        ("num.partitions=", "num.partitions must be a whole number, not '' (--set)."),
        ("num.partitions=" + "9" * 5000, f"num.partitions must be a whole number, not '{'9' * 56}… (--set)."),
        ("log.cleaner.min.cleanable.ratio=nan", "log.cleaner.min.cleanable.ratio must be a number from 0 to 1, "),
        ("auto.create.topics.enable=yes", "auto.create.topics.enable must be true or false, not 'yes' (--set)."),
        ("log.flush=sometimes", "log.flush must be always, interval or never, not 'sometimes' (--set)."),
        ("log.cleanup.policy=compact,keep", "log.cleanup.policy may hold delete or compact, not 'keep' (--set)."),
        ("log.dirs=a,b", "log.dirs must name exactly one directory; several are not supported (--set)."),
        ("listeners=nowhere", "listeners must be HOST:PORT or NAME://HOST:PORT, not 'nowhere' (--set)."),
        ("listeners=::1:9092", "listeners must have an IPv6 address in brackets, as in [::1]:9092, not"),
        ("listeners=h:65536", "listeners must have a port from 0 to 65535, not 65536 (--set)."),
        ("listeners=a:1,b:2", "listeners must give each listener a name of its own"),
        ("listeners=", "listeners leaves nothing to listen on"),
        ("listeners=SSL://:9092", "The listener SSL has no certificate: give ssl.keystore.location, a PEM file"),
        ("listeners=SASL_PLAINTEXT://:9092", "The listener SASL_PLAINTEXT has no way to log in: give sasl.enabled"),
        ("listener.security.protocol.map=PLAINTEXT:TLS", "The listener PLAINTEXT asks for TLS: listener.security"),
        ("sasl.enabled.mechanisms=GSSAPI", "sasl.enabled.mechanisms may hold PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or "),
        ("ssl.enabled.protocols=TLSv1.1", "ssl.enabled.protocols may hold TLSv1.2 or TLSv1.3, not 'TLSv1.1' (--set)."),
        ("test.users=alice", "test.users must be a list of NAME:PASSWORD (--set)."),
        ("listener.name.a.ssl.client.auth=no", "listener.name.a.ssl.client.auth must be required, requested or none"),
        ("listeners=INSIDE://:9092", "The listener INSIDE has no security protocol: add INSIDE:PLAINTEXT"),
        ("advertised.listeners=OTHER://h:1", "advertised.listeners names OTHER, which is not in listeners"),
        ("advertised.listeners=0.0.0.0:9092", "advertised.listeners must give a host that clients can reach"),
        ("admin.listeners=a:1,b:2", "admin.listeners takes one address only (--set)."),
        ("admin.listeners=https://a:1", "admin.listeners must be HOST:PORT or http://HOST:PORT, not 'https://a:1'"),
        ("log.retention.ms=0", "log.retention.ms must be -1 (for ever) or at least 1, not 0."),
        (
            "group.min.session.timeout.ms=1800001",
            "group.min.session.timeout.ms (1800001) must be at most group.max.session.timeout.ms (1800000)",
        ),
        (
            "group.consumer.session.timeout.ms=44000",
            "group.consumer.min.session.timeout.ms (45000) must be at most group.consumer.session.timeout.ms (44000)",
        ),
        ("group.max.sise=3", "There is no setting 'group.max.sise' (--set). Did you mean group.max.size?"),
        ("group_max_size=3", "There is no setting 'group_max_size' (--set). Did you mean group.max.size?"),
        ("data-dir=x", "There is no setting 'data-dir' (--set). Did you mean log.dirs?"),
        ("zoekeeper=x", "There is no setting 'zoekeeper' (--set). `coordinatord settings` lists all of them."),
    ],
)
def test_a_bad_value_gets_one_sentence(given: str, told: str) -> None:
    [problem] = problems_of(given)
    assert problem.startswith(told)
    assert problem.endswith((".", "?"))
    assert "\n" not in problem


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text("num.partitions = 1.5\n")
    with pytest.raises(ConfigError) as caught:
        load(file=file, environment={"COORDINATORD_NODE_ID": "-1"}, flags=flags("no.such=1"))
    assert caught.value.problems == (
        f"num.partitions must be a whole number, not 1.5 ({file}).",
        "node.id must be at least 0, not -1 (environment variable COORDINATORD_NODE_ID).",
        "There is no setting 'no.such' (--set). `coordinatord settings` lists all of them.",
    )


@pytest.mark.parametrize("text", ["group.max.size", "=3", " =3"])
def test_an_assignment_needs_a_name_and_a_sign(text: str) -> None:
    with pytest.raises(ConfigError, match="--set takes name=value"):
        assignment(text, "--set")


def test_an_assignments_value_may_hold_the_sign() -> None:
    assert assignment("log.dirs=/a=b", "--set").value == "/a=b"


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.toml", b"x = = 1", "is not valid TOML"),
        ("a.toml", b"log.flush = 'never'\nlog.flush.interval.ms = 3", 'Put dotted names in quotes, as in "log.flush".'),
        ("a.toml", b"\xff\xfe", "is not UTF-8 text"),
        ("a.properties", b"node.id=\\u00g1", "is not a valid properties file"),
        ("a.yaml", b"node.id: 1", "must end in .toml (TOML) or .properties"),
        ("absent.toml", None, "cannot be read: No such file or directory"),
    ],
)
def test_a_bad_file_gets_one_sentence(tmp_path: Path, name: str, content: bytes | None, told: str) -> None:
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(file=file)
    [problem] = caught.value.problems
    assert str(file) in problem
    assert told in problem
    assert "\n" not in problem


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Is a directory"):
        read_file(tmp_path)


# ---- what several settings say together ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("given", "milliseconds"),
    [
        ((), 168 * 3_600_000),
        (("log.retention.hours=-1",), -1),
        (("log.retention.hours=1", "log.retention.minutes=2"), 120_000),
        (("log.retention.minutes=-1",), -1),
        (("log.retention.minutes=2", "log.retention.ms=5"), 5),
        (("log.retention.minutes=2", "log.retention.ms=-1"), -1),
    ],
)
def test_the_finest_retention_wins(given: tuple[str, ...], milliseconds: int) -> None:
    assert settings_of(*given).retention_ms == milliseconds


def test_the_finest_roll_wins() -> None:
    assert settings_of("log.roll.hours=2").roll_ms == 7_200_000
    assert settings_of("log.roll.hours=2", "log.roll.ms=7").roll_ms == 7


def test_clients_are_told_what_was_asked_for_or_something_they_can_reach() -> None:
    def advertised(*given: str) -> list[tuple[str, str, int]]:
        return [(each.name, each.advertised_host, each.advertised_port) for each in settings_of(*given).endpoints]

    assert advertised("listeners=localhost:0") == [("PLAINTEXT", "localhost", 0)]
    assert advertised("listeners=:9092") == [("PLAINTEXT", socket.gethostname(), 9092)]
    assert advertised("listeners=[::]:9092") == [("PLAINTEXT", socket.gethostname(), 9092)]
    assert advertised("listeners=0.0.0.0:9092", "advertised.listeners=kafka:19092") == [("PLAINTEXT", "kafka", 19092)]
    assert advertised(
        "listeners=IN://:1,OUT://:2",
        "advertised.listeners=out://example.org:2",
        "listener.security.protocol.map=IN:PLAINTEXT,OUT:PLAINTEXT",
    ) == [("IN", socket.gethostname(), 1), ("OUT", "example.org", 2)]


def test_the_admin_address_is_one_or_none() -> None:
    assert Settings().admin is None
    assert settings_of("admin.listeners=http://[::1]:0").admin == Listener("HTTP", "::1", 0)
    assert str(settings_of("admin.listeners=:80").admin) == "HTTP://:80"


# ---- anything at all -------------------------------------------------------------------------------------------------
toml_values = st.one_of(
    st.text(), st.integers(), st.floats(), st.booleans(), st.none(), st.lists(st.one_of(st.text(), st.integers()))
)


def taken(row: Setting, value: object) -> tuple[object] | str:
    """What a parser makes of a value, or its objection."""
    try:
        return (row.parse(value),)
    except Unacceptable as wrong:
        return str(wrong)


@given(value=toml_values)
def test_a_parser_takes_a_value_or_says_why_not(value: object) -> None:
    for row in TABLE.values():
        outcome = taken(row, value)
        if isinstance(outcome, str):
            assert 0 < len(outcome) < 300
        elif outcome != (None,):
            assert taken(row, written(outcome[0])) == outcome


@given(names=st.dictionaries(st.sampled_from([*TABLE, *ALIASES]), st.text(max_size=20), max_size=5))
def test_any_text_gives_settings_or_sentences(names: dict[str, str]) -> None:
    told: tuple[str, ...] = ()
    try:
        load(flags=[Entry(name, value, "--set") for name, value in names.items()])
    except ConfigError as error:
        told = error.problems
    assert all(problem.strip() for problem in told)


def test_a_value_that_json_cannot_hold_is_not_among_the_defaults() -> None:
    for row in TABLE.values():
        json.dumps(written(row.default))
