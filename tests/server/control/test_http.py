"""The control over HTTP: a process of its own, the same commands, and who may call them."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinatord.base.config.load import ConfigError, Entry, load
from coordinatord.server.control.commands import COMMANDS, openapi
from coordinatord.server.control.control import Control
from coordinatord.testing import Kafka, KafkaError
from kafka_wire.errors import ErrorCode
from tests.daemon import running
from tests.server.control.world import GROUP, TOPIC, Client


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with Kafka("process", topics={TOPIC: 1}, settings={"test.control.token": "secret"}) as started:
        yield started


def ask(address: tuple[str, int], method: str, path: str, token: str = "") -> tuple[int, Any]:
    """(status, JSON)"""
    connection = http.client.HTTPConnection(*address, timeout=10)
    connection.request(method, path, headers={"Authorization": f"Bearer {token}"} if token else {})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    told = json.loads(body) if answer.getheader("Content-Type") == "application/json" else body.decode()
    return answer.status, told


def test_a_process_does_all_that_a_thread_does(kafka: Kafka) -> None:
    a = Client(kafka, "a").join()
    group = kafka.group(GROUP)
    assert group.until_stable(members=1).result.members[0].member_id == a.member_id
    with kafka.fail("Heartbeat", "NOT_COORDINATOR", times=1) as fault:
        assert [a.heartbeat(), a.heartbeat()] == [ErrorCode.NOT_COORDINATOR, ErrorCode.NONE]
        assert fault.arrived(1).result == 1
    with group.loading():
        assert a.commit(1) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    group.move()
    a.wire.coordinator(GROUP)
    group.until_stable(members=1)
    group.expire("a")
    assert group.rebalances[-1].trigger == "session expired"
    before = kafka.advance()
    assert (kafka.advance(minutes=10) - before).total_seconds() >= 600
    with pytest.raises(KafkaError, match=r"There is no group 'g'\."):
        group.kick("a")


def test_a_restart_is_on_the_same_port_with_what_was_written(kafka: Kafka) -> None:
    a, where = Client(kafka, "a").join("restarted"), kafka.bootstrap_servers
    a.commit(7, "restarted")
    with pytest.raises(KafkaError, match="forgets its faults"), kafka.hold("Fetch", optional=True):
        kafka.restart()
    kafka.restart(crash=True)
    assert kafka.bootstrap_servers == where
    assert kafka.committed("restarted") == {(TOPIC, 0): 7}
    assert kafka.group("restarted").until_stable(members=1).result.members[0].client_id == "a"


def test_names_with_slashes_and_spaces(kafka: Kafka) -> None:
    a = Client(kafka, "client a/b?c=d").join("gro/up é")
    assert kafka.group("gro/up é").expire("client a/b?c=d") == a.member_id


def test_without_the_token_nothing_is_told(kafka: Kafka) -> None:
    host, port, _token = kafka._server._admin  # type: ignore[attr-defined]
    assert ask((host, port), "GET", "/test/groups")[0] == 401
    assert ask((host, port), "GET", "/test/groups", "wrong")[0] == 401
    assert ask((host, port), "GET", "/test/groups", "secret")[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "sentence"),
    [
        ("GET", "/test/nothing", 404, "There is no GET /test/nothing; /test/openapi.json says what there is."),
        ("GET", "/test/groups/g/rebalance", 404, "There is no GET /test/groups/g/rebalance; "),
        ("POST", "/test/groups/none/rebalance", 404, "There is no group 'none'."),
        ("POST", "/test/clock/advance", 400, "The parameter by_ms is missing: By how much."),
        ("POST", "/test/clock/advance?by_ms=soon", 400, "by_ms is a number, not 'soon'."),
        ("POST", "/test/clock/advance?minutes=1", 400, "There is no parameter 'minutes'. There are by_ms."),
        ("POST", "/test/faults?kind=drop&after=yes", 400, "after is true or false, not 'yes'."),
        ("DELETE", "/test/faults/99", 404, "There is no fault 99 now; "),
    ],
)
def test_mistakes_get_a_status_and_a_sentence(kafka: Kafka, method: str, path: str, status: int, sentence: str) -> None:
    host, port, token = kafka._server._admin  # type: ignore[attr-defined]
    found, told = ask((host, port), method, path, token)
    assert found == status
    assert told["error"].startswith(sentence)


def test_the_document_names_every_command(kafka: Kafka) -> None:
    host, port, token = kafka._server._admin  # type: ignore[attr-defined]
    status, told = ask((host, port), "GET", "/test/openapi.json", token)
    assert status == 200
    assert told == openapi("1")
    operations = {each["operationId"] for methods in told["paths"].values() for each in methods.values()}
    assert operations == {each.name for each in COMMANDS}
    for command in COMMANDS:
        assert callable(getattr(Control, command.name))
        in_path = set(re.findall(r"{(\w+)}", command.path))
        assert in_path <= {each.name for each in command.parameters if each.required}


def test_a_daemon_that_is_not_told_to_has_no_such_pages(tmp_path: Path) -> None:
    with running(tmp_path, arguments=["--admin", "127.0.0.1:0", "--ready-file", str(tmp_path / "ready")]) as daemon:
        admin = json.loads((tmp_path / "ready").read_text())["admin"][0]
        port = int(admin.rstrip("/").rpartition(":")[2])
        assert ask(("127.0.0.1", port), "GET", "/test/groups")[0] == 404
        assert ask(("127.0.0.1", port), "POST", "/test/clock/advance?by_ms=1")[0] == 405
        assert daemon.process is not None


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, "test.control.enable=true needs admin.listeners"),
        ({"admin.listeners": "0.0.0.0:1"}, "or other machines do what they like: give test.control.token, too."),
        ({"admin.listeners": ":1"}, "or other machines do what they like: give test.control.token, too."),
        (
            {"admin.listeners": "127.0.0.1:1", "listeners": "SASL_PLAINTEXT://127.0.0.1:0"},
            "do what the listeners ask a password for, or other machines do what they like: give test.control.token",
        ),
        ({"admin.listeners": "127.0.0.1:1", "listeners": "SSL://127.0.0.1:0"}, "give test.control.token, too."),
    ],
)
def test_it_is_refused_where_others_could_reach_it(settings: dict[str, str], sentence: str) -> None:
    entries = [Entry(name, value, "a test") for name, value in {"test.control.enable": "true", **settings}.items()]
    with pytest.raises(ConfigError) as told:
        load(flags=entries)
    assert sentence in str(told.value)


def test_with_a_token_it_may_be_anywhere() -> None:
    settings = {"test.control.enable": "true", "admin.listeners": "0.0.0.0:1", "test.control.token": "secret"}
    assert load(flags=[Entry(*each, "a test") for each in settings.items()]).settings.test_control_enable
