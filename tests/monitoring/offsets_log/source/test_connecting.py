"""Why there is no connection to a broker, in one sentence, when time is short."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from kafka.errors import KafkaConnectionError, KafkaTimeoutError
from kafka.net.selector import NetworkSelector

from coordinatord.cli import cli
from coordinatord.cli.options import sentence as finished
from coordinatord.monitoring.offsets_log.source.connecting import Connections, connected, sentence
from coordinatord.monitoring.offsets_log.source.segments import SourceError
from tests.daemon import running


@pytest.fixture
def silent() -> Iterator[str]:
    """HOST:PORT of a listener whose queue is full: an attempt to connect gets no answer."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            caller = stack.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(listener.getsockname())
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_nobody_takes_the_connection(silent: str) -> None:
    with (
        pytest.raises(SourceError, match=f"^no broker answers at {silent}: the connection timed out$"),
        connected(silent, {}, patience_s=3),
    ):
        pytest.fail("connected")


def test_an_attempt_without_time_left_does_not_hide_why_the_others_failed() -> None:
    manager = Connections(NetworkSelector(), bootstrap_servers="here:1")
    manager._failed("bootstrap", KafkaConnectionError("111 ECONNREFUSED"))
    manager._failed("bootstrap", KafkaConnectionError("Connection timed out"))
    told = sentence("here:1", {}, KafkaTimeoutError(), manager)
    assert told == "no broker answers at here:1: connection refused"


def test_sasl_on_a_port_that_has_none(tmp_path: Path) -> None:
    settings = {
        "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "u", "sasl_plain_password": "secret",
    }  # fmt: skip
    with running(tmp_path) as daemon:
        with pytest.raises(SourceError) as raised, connected(daemon.bootstrap, settings, patience_s=20):
            pytest.fail("connected")
        assert str(raised.value) == (
            f"{daemon.bootstrap} does not take SASL, which kafka.security_protocol=SASL_PLAINTEXT wants: a port "
            "without users answers so (PLAINTEXT or SSL)"
        )


@pytest.fixture
def in_the_clear() -> Iterator[str]:
    """HOST:PORT of a listener that answers whatever comes, and not in TLS."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with contextlib.suppress(OSError):  # it was closed
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(1)
                        connection.sendall(b"no TLS here")

        threading.Thread(target=answer, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("command", [("lag",), ("groups", "list")])
def test_a_question_ends_with_its_mark(command: tuple[str, ...], in_the_clear: str, tmp_path: Path) -> None:
    """For the commands that read a log, and for those that ask a cluster."""
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SSL\n")
    told = CliRunner().invoke(cli, [*command, "--bootstrap", in_the_clear, "--command-config", str(config)])
    assert told.output.endswith("=SSL wants it: is that the right port?\n")
    assert told.output.count("\n") == 1


def test_a_sentence_has_one_mark_at_its_end() -> None:
    assert (finished("a"), finished("a."), finished("a?")) == ("a.", "a.", "a?")
