"""Whom a connection acts as."""

from __future__ import annotations

import pytest

from coordinatord.transport.security.principal import ANONYMOUS, Principal
from tests.support.scene import JOIN, Scene


def test_a_client_that_has_proved_nothing_is_anonymous_and_its_handlers_learn_so() -> None:
    scene = Scene()
    wire = scene.wire()
    wire.send(JOIN, 9)
    assert wire.connection.principal == Principal("User", "ANONYMOUS")
    assert scene.parked[0].principal is ANONYMOUS
    wire.connection.principal = Principal("User", "alice")
    assert str(scene.parked[0].principal) == "User:alice"


def test_a_principal_is_type_and_name_as_kafka_writes_them() -> None:
    assert Principal.parse("User:alice") == Principal("User", "alice")
    assert Principal.parse("User:CN=a:b,O=c") == Principal("User", "CN=a:b,O=c")
    assert Principal.parse("Group:ops") != Principal.parse("User:ops") != Principal.parse("User:Ops")
    assert {Principal.parse("User:alice"): 1}[Principal("User", "alice")] == 1


@pytest.mark.parametrize("text", ["", "alice", ":alice", "User:"])
def test_what_is_no_principal_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="principalType:principalName"):
        Principal.parse(text)
