"""Why there is no connection to a broker, in one sentence, when time is short."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest
from kafka.errors import KafkaConnectionError, KafkaTimeoutError
from kafka.net.selector import NetworkSelector

from coordinatord.pipeline.source.connecting import Connections, connected, sentence
from coordinatord.pipeline.source.segments import SourceError


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
        connected(silent, {}, patience_s=0.5),
    ):
        pytest.fail("connected")


def test_an_attempt_without_time_left_does_not_hide_why_the_others_failed() -> None:
    manager = Connections(NetworkSelector(), bootstrap_servers="here:1")
    manager._failed("bootstrap", KafkaConnectionError("111 ECONNREFUSED"))
    manager._failed("bootstrap", KafkaConnectionError("Connection timed out"))
    told = sentence("here:1", {}, KafkaTimeoutError(), manager)
    assert told == "no broker answers at here:1: connection refused"
